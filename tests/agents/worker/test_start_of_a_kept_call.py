"""A job that continues a kept call, and whose session does not start: the next one continues the call."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from kit.kept_call import FIRST, KEPT, LOST, SECOND, Host, JobInRoom
from kit.own_store import OwnStore
from vivavoce.agents import AgentSession, CrashSafety, MemoryOptions, SessionOptions, WorkerOptions
from vivavoce.agents.job import JobContext, JobInfo
from vivavoce.agents.memory.calls_in_store import CallsInStore, RunningCall
from vivavoce.agents.memory.stores.sqlite import SqliteStore
from vivavoce.agents.session_watch import Conversation
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, VirtualClock, run_virtual
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.agents.worker.owner import has_ended, owner_of_job, rescuer
from vivavoce.agents.worker.run import JobRun
from vivavoce.pipelines.core.errors import ProviderError, SessionError, StoreError
from vivavoce.pipelines.testing import ScriptedSTT


@pytest.fixture
def calls(tmp_path: Path) -> CallsInStore:
    return CallsInStore(SqliteStore(tmp_path / "calls.db"))


@pytest.fixture
def lost(calls: CallsInStore) -> CallsInStore:
    """A store with a call whose process has died, and that a worker has dispatched again."""
    anyio.run(calls.write, LOST)
    return calls


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

    calls: CallsInStore
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
            safety = CrashSafety(store=self.calls.store, sentence="Where were we?")
            run = JobRun(control, entrypoint, WorkerOptions(url="ws://127.0.0.1:7880", crash_safety=safety), tasks)
            await run.run()
            self.error = run.error
            await anyio.sleep(1.0)
            tasks.cancel_scope.cancel()


async def _claimed(calls: CallsInStore) -> RunningCall:
    """Claim the call as a worker does that dispatches it again."""
    [call] = await calls.read()
    claimed = await calls.claim(call.lease, owner=call.owner, by=rescuer(), at=call.written_at)
    assert claimed is not None
    return claimed


@pytest.mark.parametrize("stt", [cannot_be_reached, is_slow], ids=["by an error", "by a limit"])
def test_a_job_whose_start_fails_leaves_the_call_that_it_was_to_continue_to_the_next_job(
    lost: CallsInStore, stt: Callable[[], ScriptedSTT]
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


def test_a_call_whose_next_process_dies_in_its_start_is_kept_as_it_was(lost: CallsInStore) -> None:
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
    lost: CallsInStore, stt: Callable[[], ScriptedSTT], memory: OwnStore | None
) -> None:
    async def main() -> None:
        started = Started(lost, memory)
        await started.job(SECOND, stt(), ScriptedSTT())
        assert len(started.failures) == 1
        assert started.said == ["for two", "When?", "Where were we?"]
        assert await lost.read() == []

    run_virtual(main())


def test_a_new_call_whose_start_fails_leaves_no_record(calls: CallsInStore) -> None:
    async def main() -> None:
        started = Started(calls)
        await started.job(FIRST, cannot_be_reached())
        assert started.error
        assert await calls.read() == []

    run_virtual(main())
