"""SqliteStore alone: erased words, calls that were given up, and its work in a thread."""

from __future__ import annotations

import os
import pickle
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from vivavoce.agents.memory.namespace import Namespace
from vivavoce.agents.memory.stores.sqlite import SqliteStore
from vivavoce.agents.memory.stores.store import Place, SessionStore
from vivavoce.pipelines.core.errors import StoreUnavailable

WORDS = "my card is 4711"
DATA, LOG = Place("call", "data"), Place("call", "words")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    made = SqliteStore(tmp_path / "store.sqlite")
    yield made
    await made.aclose()


def holds(folder: Path, words: str) -> list[str]:
    """Return the names of the files that hold words."""
    return [path.name for path in folder.iterdir() if words.encode() in path.read_bytes()]


@pytest.mark.parametrize("is_idle", [True, False], ids=["idle", "by hand"])
async def test_words_of_an_erased_session_are_in_no_file(tmp_path: Path, store: SqliteStore, is_idle: bool) -> None:
    await store.write(DATA, "key", f'"{WORDS}"')
    await store.log(LOG, [f"{WORDS} {number}" * 500 for number in range(5)], keep=10)
    await store.write(Place("other", "data"), "key", '"kept"')
    await store.keep("call", 0.0)
    await store.keep("other", None)
    assert holds(tmp_path, WORDS)
    await anyio.sleep(0.005)
    if is_idle:
        assert await store.sweep() == ["call"]
    else:
        assert await store.delete("call")
    assert holds(tmp_path, WORDS) == []
    assert await store.read(Place("other", "data"), "key") == '"kept"'


async def test_a_log_that_another_process_reads_is_emptied_by_a_later_sweep(tmp_path: Path, store: SqliteStore) -> None:
    await store.write(DATA, "key", f'"{WORDS}"')
    other = sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)
    other.execute("BEGIN")
    assert other.execute("SELECT text FROM entries").fetchall()
    await store.delete("call")
    assert holds(tmp_path, WORDS)
    other.execute("COMMIT")
    assert await store.sweep() == []
    assert holds(tmp_path, WORDS) == []
    other.close()


async def test_a_call_that_was_given_up_before_it_began_does_not_write_later(
    tmp_path: Path, store: SqliteStore
) -> None:
    data = Namespace(store, DATA, timeout=60.0)
    await data.set("key", 1)
    other = sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match=r"within 0\.2 s"):
        await Namespace(store, DATA, timeout=0.2).set("key", 2)
    other.execute("COMMIT")
    other.close()
    assert await data.get("key") == 1
    assert await data.append("list", 1) == 1


async def test_calls_whose_caller_sets_no_limit_end_too(tmp_path: Path) -> None:
    patient = SqliteStore(tmp_path / "store.sqlite", timeout=60.0)
    await patient.write(DATA, "key", "1")
    other = sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store = SqliteStore(tmp_path / "store.sqlite", timeout=0.2)
    sent: SessionStore = pickle.loads(pickle.dumps(store))
    for each in (store, sent):
        with anyio.fail_after(60.0), pytest.raises(StoreUnavailable, match=r"within 0\.2 s"):
            await each.delete("call")
    other.execute("COMMIT")
    other.close()
    assert [one.id for one in await patient.sessions()] == ["call"]
    for each in (sent, store, patient):
        await each.aclose()


async def test_the_event_loop_does_not_wait_for_the_disk(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[str] = set()
    look = os.stat

    def note(path: Any, *args: Any, **kwargs: Any) -> os.stat_result:
        if str(path).startswith(str(tmp_path)):
            seen.add(threading.current_thread().name)
        return look(path, *args, **kwargs)

    monkeypatch.setattr(os, "stat", note)
    await store.wait(LOG, 0, 0.2)
    assert seen == {"session store"}
