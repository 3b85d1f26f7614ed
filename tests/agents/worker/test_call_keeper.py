"""The record of a job's call: made, kept after turns, removed at the end; and a job that continues a kept call."""

from __future__ import annotations

import gc
import json
import logging
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest

from kit.kept_call import FIRST, KEPT, LOST, SECOND, Host, JobInRoom
from vivavoce.agents import Agent, AgentSession, CrashSafety, MemoryOptions, SessionOptions, WorkerOptions
from vivavoce.agents.cli.console.job import ConsoleJob
from vivavoce.agents.job import JobContext, JobInfo
from vivavoce.agents.memory.calls_in_store import CallsInStore, RunningCall
from vivavoce.agents.memory.stores.sqlite import SqliteStore
from vivavoce.agents.memory.stores.store import Change, Place, SessionStore
from vivavoce.agents.session_watch import Conversation
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, VirtualClock, run_virtual
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.agents.worker.owner import owner_of_job
from vivavoce.agents.worker.run import JobRun
from vivavoce.pipelines.core.errors import StoreUnavailable

T = TypeVar("T")


class Waiter(Host):
    """Another agent."""


@dataclass
class Ran:
    """A job that ran, and what was seen in it."""

    calls: CallsInStore
    before: list[RunningCall] = field(default_factory=list)
    """The records before the first session."""
    kept: list[list[RunningCall]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    resume_from: Conversation | None = None
    userdata: Any = None
    error: str = ""
    session: Callable[[], object] = lambda: None
    """Returns the session while anything refers to it."""
    is_kept_in_memory: bool = False
    """Whether the session was still there when the job's process went on."""

    async def look(self) -> None:
        self.kept.append(await self.calls.read())


Act = Callable[[Ran, LocalTransport], Awaitable[None]]


def run(
    store: SessionStore,
    job: JobInfo,
    act: Act,
    *,
    agent: type[Agent] = Host,
    userdata: Any = None,
    memory: MemoryOptions | None = None,
    after: float = 1.0,
    job_type: type[ConsoleJob] = ConsoleJob,
    **safety: Any,
) -> Ran:
    """Run a job whose agent answers every turn with "Fine."; `act` runs when its session has started.

    Args:
        after: Seconds that the job's process goes on after the job.
    """
    calls = CallsInStore(store)
    ran = Ran(calls)

    async def main() -> None:
        clock = VirtualClock()
        room = LocalTransport(clock)

        async def entrypoint(ctx: JobContext) -> None:
            ran.resume_from, ran.before = ctx.resume_from, await calls.read()
            host = agent("Be brief.")
            pipeline = SessionHarness(host, ScriptedLLM(default="Fine.")).pipeline
            session = AgentSession(
                host, pipeline, userdata=userdata, options=SessionOptions(clock=clock, memory=memory)
            )
            ran.session = weakref.ref(session)
            await session.start()
            await anyio.sleep(2.0)
            await act(ran, room)
            ran.said = [message.content for message in session.history.messages()]
            ran.userdata = session.userdata
            ctx.shutdown("done")

        async with anyio.create_task_group() as tasks:
            control = job_type(job, room, shared={}, tasks=tasks)
            options = WorkerOptions(
                url="ws://127.0.0.1:7880", crash_safety=CrashSafety(store=store, sentence="Where were we?", **safety)
            )
            jobs = JobRun(control, entrypoint, options, tasks)
            await jobs.run()
            ran.error = jobs.error
            del jobs, control
            await anyio.sleep(after)
            gc.collect()
            ran.is_kept_in_memory = ran.session() is not None
            tasks.cancel_scope.cancel()
        await ran.look()

    run_virtual(main())
    return ran


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    return SqliteStore(tmp_path / "calls.db")


@pytest.fixture
def lost(store: SqliteStore) -> SqliteStore:
    """A store with a call whose process has died, and that a worker has dispatched again."""
    anyio.run(CallsInStore(store).write, LOST)
    return store


async def _a_turn(ran: Ran, room: LocalTransport) -> None:
    room.send_text("at seven")
    await anyio.sleep(5.0)
    await ran.look()


def test_a_running_call_is_kept_with_its_facts_and_the_end_removes_it(store: SqliteStore) -> None:
    ran = run(store, FIRST, _a_turn)

    [call], after = ran.kept
    assert after == []
    assert (call.lease, call.owner, call.url) == ("AJ_1", owner_of_job("AJ_1"), "ws://127.0.0.1:7880")
    assert (call.room, call.agent_name, call.dispatch_id) == ("kitchen", "host", "AD_1")
    assert (call.metadata, call.attributes, call.dispatched) == ("m", {"a": "b"}, 0)
    assert ran.resume_from is None
    assert ran.said == ["Hello.", "at seven", "Fine."]


def test_a_job_takes_over_the_record_that_its_worker_made_while_the_job_came_to_its_process(
    store: SqliteStore,
) -> None:
    made = RunningCall(
        lease="AJ_1", owner="host/7/1/AJ_1", url="ws://127.0.0.1:7880", room="kitchen", identity="agent-1"
    )
    anyio.run(CallsInStore(store).write, made)

    ran = run(store, FIRST, _a_turn)

    [call], after = ran.kept
    assert (call.owner, call.identity, call.dispatch_id) == (owner_of_job("AJ_1"), "agent-1", "AD_1")
    assert after == []


def test_a_job_that_continues_a_call_says_the_sentence_knows_the_past_and_owns_the_record(
    lost: SqliteStore,
) -> None:
    ran = run(lost, SECOND, _a_turn)

    assert ran.resume_from == KEPT
    assert ran.said == ["for two", "When?", "Where were we?", "at seven", "Fine."]
    assert ran.userdata == {"people": 2}
    [call], after = ran.kept
    assert (call.lease, call.owner, call.dispatched) == ("AJ_1", owner_of_job("AJ_2"), 1)
    assert after == []


def test_a_job_that_continues_a_call_with_an_open_turn_answers_it_in_the_place_of_the_sentence(
    lost: SqliteStore,
) -> None:
    user, _ = KEPT["history"]["items"]
    history = {**KEPT["history"], "items": [user]}
    kept = {**KEPT, "history": history, "open": {"turn_id": "turn_1", "calls": []}}
    [call] = anyio.run(CallsInStore(lost).read)
    anyio.run(CallsInStore(lost).write, replace(call, conversation=json.dumps(kept)))

    ran = run(lost, SECOND, _a_turn)

    assert ran.said == ["for two", "Fine.", "at seven", "Fine."]


def test_a_job_that_continues_a_call_names_its_own_agent_in_the_record_before_its_first_turn(
    lost: SqliteStore,
) -> None:
    ran = run(lost, SECOND, _a_turn, job_type=JobInRoom)

    [call] = ran.before
    assert (call.identity, call.sid) == ("agent-AD_1", "PA_2")
    assert ran.resume_from == KEPT


def test_a_call_that_was_with_another_agent_goes_on_with_the_entrypoint_s(
    lost: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    ran = run(lost, SECOND, _a_turn, agent=Waiter)

    assert ran.said[:3] == ["for two", "When?", "Where were we?"]
    assert "the call was with agent Host and goes on with Waiter" in caplog.text


def test_an_application_that_decides_itself_sees_the_conversation_and_its_session_begins_anew(
    lost: SqliteStore,
) -> None:
    ran = run(lost, SECOND, _a_turn, resumes=False)

    assert ran.resume_from == KEPT
    assert ran.said == ["Hello.", "at seven", "Fine."]


@dataclass
class Booking:
    """Userdata that the kept data does not make."""

    day: str = ""
    people: list[str] = field(default_factory=list)


def test_a_conversation_that_does_not_fit_the_application_begins_anew(
    lost: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    ran = run(lost, SECOND, _a_turn, userdata=Booking())

    assert ran.said == ["Hello.", "at seven", "Fine."]
    assert "job AJ_2 cannot continue the call and begins anew" in caplog.text


def test_a_job_whose_record_is_gone_begins_anew(store: SqliteStore, caplog: pytest.LogCaptureFixture) -> None:
    ran = run(store, SECOND, _a_turn)

    assert ran.said == ["Hello.", "at seven", "Fine."]
    assert "there is no record 'AJ_1'" in caplog.text


def test_a_store_keeps_the_running_call_and_the_memory_of_its_session(store: SqliteStore) -> None:
    ran = run(store, FIRST, _a_turn, memory=MemoryOptions(store=store))

    [call], after = ran.kept
    assert (call.lease, after) == ("AJ_1", [])
    assert ran.said == ["Hello.", "at seven", "Fine."]
    [session] = anyio.run(store.sessions)
    assert "created_date" in session.metadata


class FullDisk(SqliteStore):
    """A store on a full disk."""

    async def change(self, place: Place, entry: str, change: Change[T]) -> T:
        def write(before: str | None) -> tuple[str | None, T]:
            after, result = change(before)
            if after != before:
                raise StoreUnavailable("database or disk is full")
            return after, result

        return await super().change(place, entry, write)


def test_a_full_disk_costs_two_lines_and_not_the_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    ran = run(FullDisk(tmp_path / "calls.db"), FIRST, _a_turn)

    assert (ran.said, ran.error) == (["Hello.", "at seven", "Fine."], "")
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "job AJ_1 is not kept for a crash, the next turn tries again",
        "The call is not kept for a crash, the next turn tries again",
    ]


class Busy(SqliteStore):
    """A store that another program has locked for some seconds when a call begins."""

    has_written = False

    async def change(self, place: Place, entry: str, change: Change[T]) -> T:
        if not self.has_written:
            self.has_written = True
            await anyio.sleep(5.0)
        return await super().change(place, entry, change)


def test_a_store_that_is_late_at_the_begin_of_a_call_is_one_line_that_says_so_and_the_call_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ran = run(Busy(tmp_path / "calls.db"), FIRST, _a_turn)

    assert "job AJ_1: the store of calls is late; the call is kept when it answers" in caplog.messages
    assert "not kept" not in caplog.text
    [call], _ = ran.kept
    assert call.owner == owner_of_job("AJ_1")


class Outage(SqliteStore):
    """A store that cannot be reached while the call ends."""

    def __init__(self, path: Path, refusals: int) -> None:
        super().__init__(path)
        self.refusals = refusals
        self.tries = 0

    async def change(self, place: Place, entry: str, change: Change[T]) -> T:
        def reach(before: str | None) -> tuple[str | None, T]:
            after, result = change(before)
            if before is not None and after is not None and "removed" in json.loads(after):
                self.tries += 1
                if self.tries <= self.refusals:
                    raise StoreUnavailable("no connection")
            return after, result

        return await super().change(place, entry, reach)


def test_a_record_that_cannot_be_removed_at_the_end_of_the_call_is_removed_when_the_store_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    ran = run(Outage(tmp_path / "calls.db", 2), FIRST, _a_turn, after=60.0)

    assert ran.kept[-1] == []
    assert len(caplog.records) == 1, "one line for the outage"


def test_a_store_that_is_away_for_hours_is_asked_less_and_less_and_holds_nothing_else_of_the_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    store = Outage(tmp_path / "calls.db", 1000)

    ran = run(store, FIRST, _a_turn, after=600.0)
    assert not ran.is_kept_in_memory
    assert store.tries == 6

    store.tries = 0
    caplog.clear()
    run(store, SECOND, _a_turn, after=3500.0)
    assert store.tries == 16
    assert [record.getMessage().split(":")[0] for record in caplog.records[-2:]] == [
        "job AJ_2 is over and its record is still in the store, which is asked again",
        "job AJ_2",
    ]
