"""The end of a job's sessions ends the job: when the agent leaves, the worker's report, and the exceptions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
import pytest

from vivavoce.agents import Agent, AgentSession, SessionOptions, WakeUp
from vivavoce.agents.cli.console.job import ConsoleJob
from vivavoce.agents.events import Closed
from vivavoce.agents.job import JobContext, JobInfo
from vivavoce.agents.states import CloseReason
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, ScriptedVAD, VirtualClock, run_virtual
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.run import NO_SESSION, JobRun
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.io import Transport

pytestmark = pytest.mark.timeout(20)


class NotingJob(ConsoleJob):
    """A job that notes when the agent leaves its room."""

    left_at: list[float]

    async def leave(self) -> None:
        await super().leave()
        self.left_at = [*getattr(self, "left_at", []), anyio.current_time()]


@dataclass
class Ran:
    """The outcome of a job; times in seconds."""

    error: str = ""
    left_at: float | None = None
    ended_at: float | None = None
    reason: str = ""
    log: list[str] = field(default_factory=list)


def run_job(entrypoint: Callable[[JobContext, Ran], Awaitable[None]], *, until: float = 60.0) -> Ran:
    """Run one job on virtual time; one that has not ended at `until` is ended then, and `ended_at` stays None."""
    ran = Ran()

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            room: Transport = LocalTransport(VirtualClock())
            job = NotingJob(JobInfo(id="AJ_1", room="kitchen"), room, shared={}, tasks=tasks)
            run = JobRun(job, lambda ctx: entrypoint(ctx, ran), WorkerOptions(), tasks)
            over = anyio.Event()

            async def work() -> None:
                await run.run()
                over.set()

            tasks.start_soon(work)
            with anyio.move_on_after(until):
                await over.wait()
                ran.ended_at = anyio.current_time()
            ran.reason = job.reason
            run.end("the test is over", is_forced=True)
            await over.wait()
            ran.left_at = job.left_at[0]
            ran.error = run.error

    run_virtual(main())
    return ran


def session(
    agent: Agent | None = None, *, llm: ScriptedLLM | None = None, wake_up: WakeUp | None = None, **options: object
) -> AgentSession[None]:
    pipeline = CascadingPipeline(stt=ScriptedSTT(), llm=llm or ScriptedLLM(), tts=ScriptedTTS(), vad=ScriptedVAD())
    made = SessionOptions(clock=VirtualClock(), **options)  # type: ignore[arg-type]
    return AgentSession(agent or Agent("Help."), pipeline, wake_up=wake_up, options=made)


def test_a_job_ends_well_when_its_last_session_closes_by_itself() -> None:
    async def entrypoint(ctx: JobContext, ran: Ran) -> None:
        await session(wake_up=WakeUp(after=2.0, then="close")).start()

    ran = run_job(entrypoint)
    assert (ran.left_at, ran.ended_at, ran.error) == (4.0, 4.0, "")
    assert ran.reason == "the last session has closed: user_away"


def test_a_session_that_got_its_room_by_hand_ends_its_job_too() -> None:
    async def entrypoint(ctx: JobContext, ran: Ran) -> None:
        await session(wake_up=WakeUp(after=2.0, then="close")).start(ctx.room)

    assert run_job(entrypoint).ended_at == 4.0


def test_a_job_whose_session_closes_by_errors_fails_with_their_text() -> None:
    async def entrypoint(ctx: JobContext, ran: Ran) -> None:
        down = [ProviderError("the model is down", provider="scripted", retryable=False)]
        it = session(llm=ScriptedLLM(down), max_errors=1)
        await it.start()
        it.input.text("hello")

    ran = run_job(entrypoint)
    assert ran.ended_at is not None
    assert "the model is down" in ran.error


def test_the_agent_leaves_at_once_though_its_entrypoint_goes_on_and_the_job_waits_for_that() -> None:
    async def entrypoint(ctx: JobContext, ran: Ran) -> None:
        it = session(wake_up=WakeUp(after=2.0, then="close"))
        await it.start()
        await it.wait_closed()
        await anyio.sleep(3.0)
        ran.log.append(f"saved at {anyio.current_time():g}")

    ran = run_job(entrypoint)
    assert (ran.left_at, ran.ended_at, ran.log) == (4.0, 7.0, ["saved at 7"])


def test_an_entrypoint_that_never_returns_holds_its_job_up_for_its_limit_only() -> None:
    async def entrypoint(ctx: JobContext, ran: Ran) -> None:
        await session(wake_up=WakeUp(after=2.0, then="close")).start()
        await anyio.sleep_forever()

    ran = run_job(entrypoint)
    assert (ran.left_at, ran.ended_at, ran.error) == (4.0, 19.0, "")


def test_a_session_that_a_handler_of_closed_starts_keeps_the_job() -> None:
    async def entrypoint(ctx: JobContext, ran: Ran) -> None:
        first = session(wake_up=WakeUp(after=2.0, then="close"))

        async def go_on(event: Closed) -> None:
            await session(wake_up=WakeUp(after=5.0, then="close")).start(LocalTransport(VirtualClock()))

        first.on(Closed, go_on)
        await first.start()

    ran = run_job(entrypoint)
    assert (ran.left_at, ran.ended_at) == (14.0, 14.0)


def test_an_entrypoint_may_start_one_session_after_the_other() -> None:
    async def entrypoint(ctx: JobContext, ran: Ran) -> None:
        first = session(wake_up=WakeUp(after=2.0, then="close"))
        await first.start()
        await first.wait_closed()
        await session(wake_up=WakeUp(after=5.0, then="close")).start(LocalTransport(VirtualClock()))

    ran = run_job(entrypoint)
    assert (ran.left_at, ran.ended_at) == (14.0, 14.0)


def test_a_job_goes_on_while_another_session_of_it_does() -> None:
    async def entrypoint(ctx: JobContext, ran: Ran) -> None:
        await session(wake_up=WakeUp(after=2.0, then="close")).start()
        await session(wake_up=WakeUp(after=5.0, then="close")).start(LocalTransport(VirtualClock()))

    assert run_job(entrypoint).ended_at == 10.0


def test_a_session_whose_conversation_another_one_takes_over_ends_nothing() -> None:
    async def entrypoint(ctx: JobContext, ran: Ran) -> None:
        it = session()
        await it.start()
        await it.close(CloseReason.REPLACED)

    assert run_job(entrypoint).ended_at is None


def test_a_failed_start_that_the_entrypoint_takes_ends_the_job_when_that_returns() -> None:
    class Failing(Agent):
        async def on_enter(self) -> None:
            raise KeyError("no such table")

    async def entrypoint(ctx: JobContext, ran: Ran) -> None:
        with pytest.raises(Exception, match="no such table"):
            await session(Failing("Help.")).start()
        await anyio.sleep(20.0)

    ran = run_job(entrypoint)
    assert (ran.left_at, ran.ended_at, ran.error) == (20.0, 20.0, "")


def test_a_failed_start_that_the_entrypoint_lets_out_is_the_jobs_error() -> None:
    class Failing(Agent):
        async def on_enter(self) -> None:
            raise KeyError("no such table")

    async def entrypoint(ctx: JobContext, ran: Ran) -> None:
        await session(Failing("Help.")).start()

    ran = run_job(entrypoint)
    assert ran.ended_at == 0.0
    assert "no such table" in ran.error


def test_shutdown_callbacks_run_when_the_agent_has_left_after_its_last_session() -> None:
    async def entrypoint(ctx: JobContext, ran: Ran) -> None:
        ctx.add_shutdown_callback(lambda reason: ran.log.append(f"{reason}; left: {ctx.room.is_left}"))  # type: ignore[attr-defined]
        it = session()
        await it.start()
        await it.close()

    assert run_job(entrypoint).log == ["the last session has closed: user_initiated; left: True"]


async def _returns(ctx: JobContext, ran: Ran) -> None:
    pass


async def _forgets_to_start(ctx: JobContext, ran: Ran) -> None:
    session()


@pytest.mark.parametrize("entrypoint", [_returns, _forgets_to_start])
def test_an_entrypoint_that_returns_without_a_session_fails_its_job_with_the_remedy(
    entrypoint: Callable[[JobContext, Ran], Awaitable[None]], caplog: pytest.LogCaptureFixture
) -> None:
    ran = run_job(entrypoint)

    assert ran.ended_at == 0.0
    assert ran.error == NO_SESSION
    assert "await AgentSession(…).start(), or ctx.connect()" in ran.error
    [warning] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert warning.getMessage() == f"job AJ_1: {NO_SESSION}"


def test_a_session_that_the_entrypoint_starts_in_a_task_keeps_its_job() -> None:
    started: list[asyncio.Task[None]] = []

    async def entrypoint(ctx: JobContext, ran: Ran) -> None:
        started.append(asyncio.create_task(session(wake_up=WakeUp(after=2.0, then="close")).start()))

    ran = run_job(entrypoint)

    assert (ran.ended_at, ran.error) == (4.0, "")


def test_an_entrypoint_that_has_ended_its_job_needs_no_session() -> None:
    async def entrypoint(ctx: JobContext, ran: Ran) -> None:
        ctx.shutdown("nothing to do")

    ran = run_job(entrypoint)

    assert (ran.reason, ran.error) == ("nothing to do", "")
