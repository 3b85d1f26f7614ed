"""The time for which stores keep sessions: also those that were erased and are written to again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kit.servers.redis_server import RedisServer
from vivavoce.agents.memory.stores.in_process import InProcessStore
from vivavoce.agents.memory.stores.redis import RedisStore
from vivavoce.agents.memory.stores.sqlite import SqliteStore
from vivavoce.agents.memory.stores.store import Place, SessionStore
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.ids import new_id

DAY = 24 * 3600.0


class Calendar(LoopClock):
    """A clock whose days a test may turn over."""

    def __init__(self) -> None:
        self.days = 0.0

    def wall(self) -> float:
        return super().wall() + self.days * DAY


@pytest.fixture
def calendar() -> Calendar:
    return Calendar()


@pytest.fixture(params=("in_process", "sqlite", "redis"))
async def store(request: pytest.FixtureRequest, tmp_path: Path, calendar: Calendar) -> AsyncIterator[SessionStore]:
    """One of the stores, with the calendar as its clock."""
    if request.param == "in_process":
        made: SessionStore = InProcessStore(clock=calendar)
    elif request.param == "sqlite":
        made = SqliteStore(tmp_path / "store.sqlite", clock=calendar)
    else:
        server: RedisServer = request.getfixturevalue("redis_server")
        made = RedisStore(server.url, new_id("test"), clock=calendar)
    yield made
    await made.aclose()


async def test_a_session_that_is_written_to_after_it_was_erased_is_kept_for_a_week(
    store: SessionStore, calendar: Calendar
) -> None:
    await store.write(Place("erased", "data"), "key", "1")
    await store.keep("erased", None)
    await store.delete("erased")
    calendar.days += 1
    await store.log(Place("erased", "words"), ["1"], keep=10)
    calendar.days += 6.9
    assert await store.sweep() == []
    calendar.days += 0.2
    assert await store.sweep() == ["erased"]
    assert await store.records(Place("erased", "words"), 0, 10) == []


async def test_a_session_that_is_kept_for_ever_stays(store: SessionStore, calendar: Calendar) -> None:
    await store.write(Place("session", "data"), "key", "1")
    await store.keep("session", None)
    for _ in range(3):
        calendar.days += 30.0
        assert await store.sweep() == []
        await store.write(Place("session", "data"), "key", "2")
    assert [one.id for one in await store.summaries()] == ["session"]
