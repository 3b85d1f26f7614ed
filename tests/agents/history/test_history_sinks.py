"""Sinks: one reads back the items that another wrote, after crashes, from several loops and processes."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import sqlite3
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings

from kit.chat import call, conversations, outline, output, user
from vivavoce.agents import HistoryChange, HistorySink, JsonLinesHistorySink, MemoryHistorySink, SqliteHistorySink
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem
from vivavoce.pipelines.media.frame import VideoFrame

Make = Callable[[Path], HistorySink]

SINKS: dict[str, Make] = {
    "memory": lambda folder: MemoryHistorySink(),
    "json lines": lambda folder: JsonLinesHistorySink(folder / "calls", images=True),
    "sqlite": lambda folder: SqliteHistorySink(folder / "deep" / "calls.db", images=True),
}
each_sink = pytest.mark.parametrize("make", SINKS.values(), ids=list(SINKS))


def added(*items: ChatItem) -> list[HistoryChange]:
    return [HistoryChange("added", item) for item in items]


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def modes_in(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def numbered(items: list[ChatItem]) -> list[ChatItem]:
    return [dataclasses.replace(item, sequence=number) for number, item in enumerate(items, start=1)]


@each_sink
async def test_what_was_written_is_read_back_for_its_session_only(make: Make, tmp_path: Path) -> None:
    sink = make(tmp_path)
    items = numbered([user("Hi", images=(VideoFrame(b"\x00\xff", "image/png"),)), call("a"), output("a")])
    await sink.write("session_1", added(*items[:1]))
    await sink.write("session_2", added(user("other", sequence=1)))
    await sink.write("session_1", added(*items[1:]))
    assert await sink.load("session_1") == ChatContext(items)
    assert outline(await sink.load("session_2")) == ["other"]
    assert len(await sink.load("unknown")) == 0
    await sink.aclose()


@each_sink
async def test_replaced_and_removed_items_are_as_they_should_be_even_when_told_twice(
    make: Make, tmp_path: Path
) -> None:
    sink = make(tmp_path)
    one, two = user("one", sequence=1), user("two", sequence=2)
    changes = [
        *added(two, one),
        HistoryChange("replaced", user("ONE", id=one.id, sequence=1)),
        HistoryChange("removed", two),
    ]
    await sink.write("s", changes)
    await sink.write("s", changes)
    await sink.write("s", [HistoryChange("removed", user("never there"))])
    assert outline(await sink.load("s")) == ["ONE"]
    await sink.aclose()


@each_sink
async def test_items_are_in_order_of_their_sequence(make: Make, tmp_path: Path) -> None:
    sink = make(tmp_path)
    await sink.write("s", added(user("two", sequence=2), user("three", sequence=3), user("one", sequence=1)))
    assert outline(await sink.load("s")) == ["one", "two", "three"]
    await sink.aclose()


@pytest.mark.parametrize("name", ["json lines", "sqlite"])
async def test_another_process_reads_what_was_written(name: str, tmp_path: Path) -> None:
    writer, reader = SINKS[name](tmp_path), SINKS[name](tmp_path)
    await writer.write("s", added(user("one", sequence=1)))
    assert outline(await reader.load("s")) == ["one"]
    await writer.write("s", added(user("two", sequence=2)))
    assert outline(await reader.load("s")) == ["one", "two"]
    await writer.aclose()
    await writer.write("s", added(user("three", sequence=3)))  # closed is not the end
    assert len(await reader.load("s")) == 3
    await writer.aclose()
    await reader.aclose()


@pytest.mark.parametrize("name", ["json lines", "sqlite"])
def test_one_sink_serves_loop_after_loop_and_loops_side_by_side(name: str, tmp_path: Path) -> None:
    sink = SINKS[name](tmp_path)

    def write(number: int) -> None:
        asyncio.run(sink.write("s", added(user(str(number), sequence=number))))

    write(0)
    threads = [threading.Thread(target=write, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outline(asyncio.run(sink.load("s"))) == [str(number) for number in range(9)]
    asyncio.run(sink.aclose())


@pytest.mark.parametrize("name", ["json lines", "sqlite"])
async def test_only_the_owner_may_read_the_file_and_pictures_are_left_out_by_default(name: str, tmp_path: Path) -> None:
    sink: HistorySink = (
        JsonLinesHistorySink(tmp_path) if name == "json lines" else SqliteHistorySink(tmp_path / "calls.db")
    )
    await sink.write("s", added(user("Hi", images=(VideoFrame(b"secret", "image/png"),))))
    assert (await sink.load("s")).messages()[0].images == ()
    await sink.aclose()
    assert modes_in(tmp_path) == {0o600}


UNCHECKED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
"""A busy machine is slow; the fixtures give each example a place of its own."""


@settings(max_examples=25, suppress_health_check=UNCHECKED, deadline=None)
@given(conversations)
@pytest.mark.parametrize("name", ["json lines", "sqlite"])
def test_law_any_conversation_comes_back_as_it_was(name: str, tmp_path: Path, items: list[ChatItem]) -> None:
    items = numbered(items)
    session = new_id("session")
    sink = SINKS[name](tmp_path)

    async def round_trip() -> ChatContext:
        await sink.write(session, added(*items))
        try:
            return await sink.load(session)
        finally:
            await sink.aclose()

    assert asyncio.run(round_trip()) == ChatContext(items)


# --- JSON lines


async def test_a_line_cut_short_by_a_crash_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sink = JsonLinesHistorySink(tmp_path)
    await sink.write("s", added(user("one", sequence=1), user("hunter2", sequence=2)))
    path = tmp_path / "s.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    with caplog.at_level(logging.WARNING):
        assert outline(await sink.load("s")) == ["one"]
    assert "line 2" in caplog.text
    assert "hunter2" not in caplog.text
    await sink.write("s", added(user("three", sequence=3)))
    assert outline(await sink.load("s")) == ["one", "three"]


async def test_a_session_id_stays_inside_the_folder(tmp_path: Path) -> None:
    sink = JsonLinesHistorySink(tmp_path / "calls")
    for session in ("../evil", "a/b", "..", "ä ö"):
        await sink.write(session, added(user(session)))
        assert outline(await sink.load(session)) == [session]
    assert names_in(tmp_path) == ["calls"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("5", "line 1 must be a change of version 1"),
        ({"version": 2}, "line 1 must be a change of version 1"),
        ({"version": 1, "change": "lost"}, "line 1: change must be added"),
        ({"version": 1, "change": "added"}, "line 1 must be an object, got nothing"),
    ],
)
async def test_lines_of_another_kind_are_refused(line: object, problem: str, tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(line if isinstance(line, str) else json.dumps(line))
    with pytest.raises(ConfigurationError, match=problem):
        await JsonLinesHistorySink(tmp_path).load("s")


# --- SQLite


async def test_a_database_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "calls.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(ConfigurationError, match="got version 7"):
        await SqliteHistorySink(path).load("s")


async def test_of_changes_that_cannot_be_written_none_is(tmp_path: Path) -> None:
    sink = SqliteHistorySink(tmp_path / "calls.db")
    broken = user("two", sequence=2)
    object.__setattr__(broken, "turn_id", object())
    with pytest.raises(TypeError):
        await sink.write("s", added(user("one", sequence=1), broken))
    assert len(await sink.load("s")) == 0
    await sink.aclose()


async def test_a_write_that_nobody_waits_for_any_more_is_not_begun(tmp_path: Path) -> None:
    sink = SqliteHistorySink(tmp_path / "calls.db")
    await sink.load("s")
    with sqlite3.connect(tmp_path / "calls.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")  # holds the sink's thread up
        async with anyio.create_task_group() as group:
            group.start_soon(sink.write, "s", added(user("one", sequence=1)))
            await anyio.wait_all_tasks_blocked()
            with anyio.move_on_after(0.01):
                await sink.write("s", added(user("two", sequence=2)))
            other.execute("COMMIT")
    other.close()
    assert outline(await sink.load("s")) == ["one"]
    await sink.aclose()
