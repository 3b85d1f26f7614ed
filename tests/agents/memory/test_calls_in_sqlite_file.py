"""The records of running calls in a SqliteStore: private, removed whole, and safe on a full disk.

The contract of all stores: tests/agents/memory/test_calls_in_store.py.
"""

from __future__ import annotations

import pickle
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from vivavoce.agents.memory.calls_in_store import CallsInStore, RunningCall
from vivavoce.agents.memory.stores.sqlite import SqliteStore
from vivavoce.pipelines.core.errors import ConfigurationError, StoreUnavailable

CALL = RunningCall(
    lease="AJ_1",
    owner="here/7/1/AJ_1",
    url="ws://127.0.0.1:7880",
    room="kitchen",
    agent_name="host",
    dispatch_id="AD_1",
    metadata="table 7",
    attributes={"tier": "gold"},
    identity="agent-AJ_1",
    written_at=12.5,
    conversation='{"agent": "Host"}',
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "calls.db"


async def test_a_removed_record_is_gone_and_its_words_are_not_left_in_the_file(path: Path) -> None:
    store = CallsInStore(SqliteStore(path))
    await store.write(replace(CALL, conversation='"my card is 4711"'))
    await store.remove("AJ_1", owner=CALL.owner)
    await store.aclose()

    assert await store.read() == []
    assert await store.claim("AJ_1", owner=CALL.owner, by="there", at=20.0) is None
    await store.aclose()
    assert _files(path) == {"calls.db"}
    assert b"card is 4711" not in _content(path)


async def test_a_removed_record_s_words_are_in_no_file_while_other_processes_have_the_store_open(path: Path) -> None:
    store, other = CallsInStore(SqliteStore(path)), CallsInStore(SqliteStore(path))
    await other.write(replace(CALL, lease="AJ_2"))
    await store.write(replace(CALL, conversation='"my card is 4711"'))
    await store.remove("AJ_1", owner=CALL.owner)

    files = list(path.parent.iterdir())
    assert path in files
    assert not [file.name for file in files if b"card is 4711" in file.read_bytes()]
    assert [one.lease for one in await other.read()] == ["AJ_2"]
    await store.aclose()
    await other.aclose()


async def test_only_the_owner_of_the_file_may_read_it(path: Path) -> None:
    await CallsInStore(SqliteStore(path)).write(CALL)

    assert [_mode(path), _mode(path.parent)] == [0o600, 0o700]


async def test_without_a_path_it_is_in_the_user_s_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert SqliteStore().path == tmp_path / "vivavoce" / "sessions.db"
    sent: SqliteStore = pickle.loads(pickle.dumps(SqliteStore()))
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert SqliteStore().path == tmp_path / ".local" / "state" / "vivavoce" / "sessions.db"
    assert sent.path == SqliteStore().path


async def test_a_user_without_a_home_folder_is_told_to_give_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(StoreUnavailable, match="set HOME or XDG_STATE_HOME, or give the store a path"):
        await CallsInStore(SqliteStore()).read()


async def test_a_file_of_another_version_is_refused(path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 9")
    connection.close()

    with pytest.raises(ConfigurationError, match="version 1, got version 9; take another file"):
        await CallsInStore(SqliteStore(path)).read()


def test_a_store_that_was_open_when_its_process_forked_works_in_both_processes(path: Path) -> None:
    code = f"""
import os, anyio
from vivavoce.agents.memory.calls_in_store import CallsInStore, RunningCall
from vivavoce.agents.memory.stores.sqlite import SqliteStore

calls = CallsInStore(SqliteStore({str(path)!r}))

async def add(lease):
    await calls.write(RunningCall(lease=lease, owner="here", url="ws://x", room="kitchen"))
    return [one.lease for one in await calls.read()]

async def close():
    await calls.aclose()

anyio.run(add, "AJ_1")
if (child := os.fork()) == 0:
    print(anyio.run(add, "AJ_2"), flush=True)
    anyio.run(close)
    os._exit(0)
os.waitpid(child, 0)
print(anyio.run(add, "AJ_3"))
anyio.run(close)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)

    assert ran.stdout.splitlines() == ["['AJ_1', 'AJ_2']", "['AJ_1', 'AJ_2', 'AJ_3']"], ran.stderr
    assert _files(path) == {"calls.db"}


def test_on_a_full_disk_a_write_fails_and_a_later_one_succeeds(path: Path) -> None:
    code = f"""
import resource, anyio
from dataclasses import replace
from vivavoce.agents.memory.calls_in_store import CallsInStore, RunningCall
from vivavoce.agents.memory.stores.sqlite import SqliteStore
from vivavoce.pipelines.core.errors import StoreUnavailable

async def main():
    store = CallsInStore(SqliteStore({str(path)!r}))
    call = RunningCall(lease="AJ_1", owner="here", url="ws://x", room="kitchen")
    await store.write(call)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        await store.write(replace(call, conversation="x" * 1_000_000))
    except StoreUnavailable:
        print("failed", [one.conversation for one in await store.read()])
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    await store.write(replace(call, conversation="y" * 1_000_000))
    claimed = await store.claim("AJ_1", owner="here", by="there", at=1.0)
    print(len(claimed.conversation), claimed.conversation[0])

anyio.run(main)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)

    assert ran.stdout.splitlines() == ["failed ['']", "1000000 y"], ran.stderr


def _files(path: Path) -> set[str]:
    return {file.name for file in path.parent.iterdir()}


def _content(path: Path) -> bytes:
    return path.read_bytes()


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777
