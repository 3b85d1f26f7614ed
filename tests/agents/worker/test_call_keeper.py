"""The record of a job's call: made, kept after turns, removed at the end; and a job that continues a kept call."""

from __future__ import annotations

import gc
import json
import logging
import sqlite3
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from kit.own_store import OwnStore
from vivavoce.agents import Agent, AgentSession, CrashSafety, MemoryOptions, SessionOptions, WorkerOptions
from vivavoce.agents.cli.console.job import ConsoleJob
from vivavoce.agents.history.checkpoint import Checkpoint, CheckpointStore, SqliteCheckpoints
from vivavoce.agents.job import JobContext, JobInfo
from vivavoce.agents.session_watch import Conversation
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, VirtualClock, run_virtual
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.agents.worker.owner import has_ended, owner_of_job, rescuer
from vivavoce.agents.worker.run import JobRun
from vivavoce.pipelines.core.errors import ProviderError, SessionError, StoreError
from vivavoce.pipelines.testing import ScriptedSTT

FIRST = JobInfo(id="AJ_1", room="kitchen", agent_name="host", dispatch_id="AD_1", metadata="m", attributes={"a": "b"})
SECOND = replace(FIRST, id="AJ_2", dispatch_id="AD_2", heals="AD_1", resumes="AJ_1")
KEPT: dict[str, Any] = {
    "version": 1,
    "session_id": "session_1",
    "agent": "Host",
    "history": {
        "version": 1,
        "items": [
            {
                "type": "message",
                "role": "user",
                "content": "for two",
                "id": "item_1",
                "turn_id": "turn_1",
                "sequence": 1,
            },
            {"type": "message", "role": "assistant", "content": "When?", "id": "item_2", "sequence": 2},
        ],
    },
    "userdata": {"people": 2},
    "counters": {"items": 2, "turns": 1},
}


class Host(Agent):
    async def on_enter(self) -> None:
        await self.session.say("Hello.")


class Waiter(Host):
    """Another agent."""


class JobInRoom(ConsoleJob):
    """A job whose agent is in a room."""

    @property
    def identity(self) -> str:
        return "agent-AD_1"

    @property
    def sid(self) -> str:
        return "PA_2"


@dataclass
class Ran:
    """A job that ran, and what was seen in it."""

    store: CheckpointStore
    before: list[Checkpoint] = field(default_factory=list)
    """The records before the first session."""
    kept: list[list[Checkpoint]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    resume_from: Conversation | None = None
    userdata: Any = None
    error: str = ""
    session: Callable[[], object] = lambda: None
    """Returns the session while anything refers to it."""
    is_kept_in_memory: bool = False
    """Whether the session was still there when the job's process went on."""

    async def look(self) -> None:
        self.kept.append(await self.store.read())


Act = Callable[[Ran, LocalTransport], Awaitable[None]]


def run(
    store: CheckpointStore,
    job: JobInfo,
    act: Act,
    *,
    agent: type[Agent] = Host,
    userdata: Any = None,
    after: float = 1.0,
    job_type: type[ConsoleJob] = ConsoleJob,
    **safety: Any,
) -> Ran:
    """Run a job whose agent answers every turn with "Fine."; `act` runs when its session has started.

    Args:
        after: Seconds that the job's process goes on after the job.
    """
    ran = Ran(store)

    async def main() -> None:
        clock = VirtualClock()
        room = LocalTransport(clock)

        async def entrypoint(ctx: JobContext) -> None:
            ran.resume_from, ran.before = ctx.resume_from, await store.read()
            host = agent("Be brief.")
            pipeline = SessionHarness(host, ScriptedLLM(default="Fine.")).pipeline
            session = AgentSession(host, pipeline, userdata=userdata, options=SessionOptions(clock=clock))
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
def store(tmp_path: Path) -> SqliteCheckpoints:
    return SqliteCheckpoints(tmp_path / "calls.db")


@pytest.fixture
def lost(store: SqliteCheckpoints) -> SqliteCheckpoints:
    """A store with a call whose process has died, and that a worker has dispatched again."""
    call = Checkpoint(
        lease="AJ_1",
        owner=rescuer(),
        url="ws://127.0.0.1:7880",
        room="kitchen",
        agent_name="host",
        dispatch_id="AD_1",
        metadata="m",
        attributes={"a": "b"},
        dispatched=1,
        conversation=json.dumps(KEPT),
    )
    anyio.run(store.write, call)
    return store


async def _a_turn(ran: Ran, room: LocalTransport) -> None:
    room.send_text("at seven")
    await anyio.sleep(5.0)
    await ran.look()


def test_a_running_call_is_kept_with_its_facts_and_the_end_removes_it(store: SqliteCheckpoints) -> None:
    ran = run(store, FIRST, _a_turn)

    [call], after = ran.kept
    assert after == []
    assert (call.lease, call.owner, call.url) == ("AJ_1", owner_of_job("AJ_1"), "ws://127.0.0.1:7880")
    assert (call.room, call.agent_name, call.dispatch_id) == ("kitchen", "host", "AD_1")
    assert (call.metadata, call.attributes, call.dispatched) == ("m", {"a": "b"}, 0)
    assert ran.resume_from is None
    assert ran.said == ["Hello.", "at seven", "Fine."]


def test_a_job_takes_over_the_record_that_its_worker_made_while_the_job_came_to_its_process(
    store: SqliteCheckpoints,
) -> None:
    made = Checkpoint(
        lease="AJ_1", owner="host/7/1/AJ_1", url="ws://127.0.0.1:7880", room="kitchen", identity="agent-1"
    )
    anyio.run(store.write, made)

    ran = run(store, FIRST, _a_turn)

    [call], after = ran.kept
    assert (call.owner, call.identity, call.dispatch_id) == (owner_of_job("AJ_1"), "agent-1", "AD_1")
    assert after == []


def test_a_job_that_continues_a_call_says_the_sentence_knows_the_past_and_owns_the_record(
    lost: SqliteCheckpoints,
) -> None:
    ran = run(lost, SECOND, _a_turn)

    assert ran.resume_from == KEPT
    assert ran.said == ["for two", "When?", "Where were we?", "at seven", "Fine."]
    assert ran.userdata == {"people": 2}
    [call], after = ran.kept
    assert (call.lease, call.owner, call.dispatched) == ("AJ_1", owner_of_job("AJ_2"), 1)
    assert after == []


def test_a_job_that_continues_a_call_with_an_open_turn_answers_it_in_the_place_of_the_sentence(
    lost: SqliteCheckpoints,
) -> None:
    user, _ = KEPT["history"]["items"]
    history = {**KEPT["history"], "items": [user]}
    kept = {**KEPT, "history": history, "open": {"turn_id": "turn_1", "calls": []}}
    [call] = anyio.run(lost.read)
    anyio.run(lost.write, replace(call, conversation=json.dumps(kept)))

    ran = run(lost, SECOND, _a_turn)

    assert ran.said == ["for two", "Fine.", "at seven", "Fine."]


def test_a_job_that_continues_a_call_names_its_own_agent_in_the_record_before_its_first_turn(
    lost: SqliteCheckpoints,
) -> None:
    ran = run(lost, SECOND, _a_turn, job_type=JobInRoom)

    [call] = ran.before
    assert (call.identity, call.sid) == ("agent-AD_1", "PA_2")
    assert ran.resume_from == KEPT


def test_a_call_that_was_with_another_agent_goes_on_with_the_entrypoint_s(
    lost: SqliteCheckpoints, caplog: pytest.LogCaptureFixture
) -> None:
    ran = run(lost, SECOND, _a_turn, agent=Waiter)

    assert ran.said[:3] == ["for two", "When?", "Where were we?"]
    assert "the call was with agent Host and goes on with Waiter" in caplog.text


def test_an_application_that_decides_itself_sees_the_conversation_and_its_session_begins_anew(
    lost: SqliteCheckpoints,
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
    lost: SqliteCheckpoints, caplog: pytest.LogCaptureFixture
) -> None:
    ran = run(lost, SECOND, _a_turn, userdata=Booking())

    assert ran.said == ["Hello.", "at seven", "Fine."]
    assert "job AJ_2 cannot continue the call and begins anew" in caplog.text


def test_a_job_whose_record_is_gone_begins_anew(store: SqliteCheckpoints, caplog: pytest.LogCaptureFixture) -> None:
    ran = run(store, SECOND, _a_turn)

    assert ran.said == ["Hello.", "at seven", "Fine."]
    assert "there is no record 'AJ_1'" in caplog.text


class FullDisk(SqliteCheckpoints):
    """A store on a full disk."""

    async def write(self, checkpoint: Checkpoint) -> None:
        raise sqlite3.OperationalError("database or disk is full")


def test_a_full_disk_costs_two_lines_and_not_the_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    ran = run(FullDisk(tmp_path / "calls.db"), FIRST, _a_turn)

    assert (ran.said, ran.error) == (["Hello.", "at seven", "Fine."], "")
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "job AJ_1 is not kept for a crash, the next turn tries again",
        "The call is not kept for a crash, the next turn tries again",
    ]


class Busy(SqliteCheckpoints):
    """A store that another program has locked for some seconds when a call begins."""

    has_written = False

    async def write(self, checkpoint: Checkpoint) -> None:
        if not self.has_written:
            self.has_written = True
            await anyio.sleep(5.0)
        await super().write(checkpoint)


def test_a_store_that_is_late_at_the_begin_of_a_call_is_one_line_that_says_so_and_the_call_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ran = run(Busy(tmp_path / "calls.db"), FIRST, _a_turn)

    assert "job AJ_1: the store of calls is late; the call is kept when it answers" in caplog.messages
    assert "not kept" not in caplog.text
    [call], _ = ran.kept
    assert call.owner == owner_of_job("AJ_1")


class Outage(SqliteCheckpoints):
    """A store that cannot be reached while the call ends."""

    def __init__(self, path: Path, refusals: int) -> None:
        super().__init__(path)
        self.refusals = refusals
        self.tries = 0

    async def remove(self, lease: str, *, owner: str) -> None:
        self.tries += 1
        if self.tries <= self.refusals:
            raise sqlite3.OperationalError("no connection")
        await super().remove(lease, owner=owner)


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


def cannot_be_reached() -> ScriptedSTT:
    stt = ScriptedSTT()
    stt.fail_open(ProviderError("no connection", provider="scripted"))
    return stt


def is_slow() -> ScriptedSTT:
    return ScriptedSTT(open_delay=1000.0)


class HeldAtFirst(OwnStore):
    """A memory that another session has at first, so that a start fails after it has taken the conversation."""

    has_refused = False

    async def hold(self, session_id: str, holder: str, seconds: float, *, takes_over: bool = False) -> bool:
        is_first, self.has_refused = not self.has_refused, True
        return not is_first and await super().hold(session_id, holder, seconds, takes_over=takes_over)


@dataclass
class Started:
    """Sessions of a job that continues a call, started one after the other until one has started."""

    store: CheckpointStore
    memory: OwnStore | None = None
    failures: list[Exception] = field(default_factory=list)
    resume_from: list[Conversation | None] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    error: str = ""

    async def job(self, job: JobInfo, *recognisers: ScriptedSTT) -> None:
        async with anyio.create_task_group() as tasks:
            clock = VirtualClock()

            async def entrypoint(ctx: JobContext) -> None:
                self.resume_from.append(ctx.resume_from)
                for stt in recognisers:
                    pipeline = SessionHarness(Host("Be brief."), ScriptedLLM(), stt=stt).pipeline
                    memory = None if self.memory is None else MemoryOptions(store=self.memory)
                    options = SessionOptions(clock=clock, start_step=3.0, memory=memory)
                    session: AgentSession[Any] = AgentSession(Host("Be brief."), pipeline, options=options)
                    try:
                        await session.start(LocalTransport(clock))
                    except (ProviderError, SessionError, StoreError) as error:
                        self.failures.append(error)
                    else:
                        await anyio.sleep(2.0)
                        self.said = [message.content for message in session.history.messages()]
                        ctx.shutdown("done")
                        return
                raise self.failures[-1]

            control = JobInRoom(job, LocalTransport(clock), shared={}, tasks=tasks)
            safety = CrashSafety(store=self.store, sentence="Where were we?")
            run = JobRun(control, entrypoint, WorkerOptions(url="ws://127.0.0.1:7880", crash_safety=safety), tasks)
            await run.run()
            self.error = run.error
            await anyio.sleep(1.0)
            tasks.cancel_scope.cancel()


async def _claimed(store: CheckpointStore) -> Checkpoint:
    """Claim the call as a worker does that dispatches it again."""
    [call] = await store.read()
    claimed = await store.claim(call.lease, owner=call.owner, by=rescuer(), at=call.written_at)
    assert claimed is not None
    return claimed


@pytest.mark.parametrize("stt", [cannot_be_reached, is_slow], ids=["by an error", "by a limit"])
def test_a_job_whose_start_fails_leaves_the_call_that_it_was_to_continue_to_the_next_job(
    lost: SqliteCheckpoints, stt: Callable[[], ScriptedSTT]
) -> None:
    async def main() -> None:
        failed, started = Started(lost), Started(lost)
        [before] = await lost.read()
        await failed.job(SECOND, stt())
        assert failed.error
        [left] = await lost.read()
        assert has_ended(left.owner), "a worker dispatches it again, or forgets it if its caller has gone"
        assert (left.lease, left.dispatched) == (before.lease, before.dispatched)

        await _claimed(lost)
        await started.job(replace(SECOND, id="AJ_3"), ScriptedSTT())
        assert started.resume_from == [KEPT]
        assert started.said == ["for two", "When?", "Where were we?"]
        assert await lost.read() == [], "the call is over for good"

    run_virtual(main())


def test_a_call_whose_next_process_dies_in_its_start_is_kept_as_it_was(lost: SqliteCheckpoints) -> None:
    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Started(lost).job, SECOND, is_slow())
            await anyio.sleep(2.0)
            [left] = await lost.read()
            assert left.owner == owner_of_job("AJ_2"), "a worker looks whether that process has ended"
            assert json.loads((await _claimed(lost)).conversation) == KEPT
            tasks.cancel_scope.cancel()

    run_virtual(main())


@pytest.mark.parametrize(
    ("stt", "memory"),
    [(cannot_be_reached, None), (is_slow, None), (ScriptedSTT, HeldAtFirst())],
    ids=["by an error", "by a limit", "after it has taken the conversation"],
)
def test_the_next_session_of_a_job_continues_the_call_if_the_start_of_the_first_has_failed(
    lost: SqliteCheckpoints, stt: Callable[[], ScriptedSTT], memory: OwnStore | None
) -> None:
    async def main() -> None:
        started = Started(lost, memory)
        await started.job(SECOND, stt(), ScriptedSTT())
        assert len(started.failures) == 1
        assert started.said == ["for two", "When?", "Where were we?"]
        assert await lost.read() == []

    run_virtual(main())


def test_a_new_call_whose_start_fails_leaves_no_record(store: SqliteCheckpoints) -> None:
    async def main() -> None:
        started = Started(store)
        await started.job(FIRST, cannot_be_reached())
        assert started.error
        assert await store.read() == []

    run_virtual(main())
