"""Starting a session: the order of its steps, the rollback after a failure or a cancellation, its job."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import anyio
import pytest
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskGroup, TaskStatus

from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.cli.console.job import ConsoleJob
from vivavoce.agents.current_job import job_scope
from vivavoce.agents.events import EVENT_TYPES, Closed, SessionEvent, SpeechIn, SpeechOut
from vivavoce.agents.job import JobInfo
from vivavoce.agents.states import AgentState, CloseReason
from vivavoce.agents.testing import (
    HANG,
    ScriptedLLM,
    ScriptedSTT,
    ScriptedTTS,
    ScriptedVAD,
    VirtualClock,
    run_virtual,
)
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    ProviderError,
    SessionClosedError,
    SessionError,
    SessionNotStartedError,
)
from vivavoce.pipelines.io import TransportEvents


def pipeline(stt: ScriptedSTT | None = None) -> CascadingPipeline:
    return CascadingPipeline(stt=stt or ScriptedSTT(), llm=ScriptedLLM(), tts=ScriptedTTS(), vad=ScriptedVAD())


class Events:
    """The events of a session by name."""

    def __init__(self, session: AgentSession[Any]) -> None:
        self.events: list[SessionEvent] = []
        for kind in EVENT_TYPES:
            if kind not in (SpeechIn, SpeechOut):
                session.on(kind, self.events.append)

    @property
    def names(self) -> list[str]:
        return [event.name for event in self.events]


def run(test: Coroutine[Any, Any, None]) -> None:
    run_virtual(test)


class NotingTransport(LocalTransport):
    def __init__(self, clock: VirtualClock, steps: list[str]) -> None:
        super().__init__(clock)
        self._steps = steps

    async def run(self, events: TransportEvents, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        self._steps.append("room audio")
        await super().run(events, task_status=task_status)


class NotingSTT(ScriptedSTT):
    def __init__(self, steps: list[str]) -> None:
        super().__init__()
        self._steps = steps

    async def open(self) -> Any:
        self._steps.append("pipeline")
        return await super().open()


def test_the_steps_of_start_come_in_their_order() -> None:
    steps: list[str] = []

    class Noting(Agent):
        async def on_enter(self) -> None:
            steps.append("on_enter")

    async def main() -> None:
        clock = VirtualClock()
        session: AgentSession[None] = AgentSession(
            Noting("x"), pipeline(NotingSTT(steps)), options=SessionOptions(clock=clock)
        )
        session.on("started", lambda event: steps.append("started"))
        await session.start(NotingTransport(clock, steps))
        assert session.agent_state is AgentState.IDLE
        await session.close()

    run(main())
    assert steps == ["pipeline", "room audio", "on_enter", "started"]


def test_a_session_that_is_closed_before_its_start_is_closed_and_says_so() -> None:
    async def main() -> None:
        session: AgentSession[None] = AgentSession(Agent("x"), pipeline(), options=SessionOptions(clock=VirtualClock()))
        events, waited = Events(session), list[str]()

        async def wait(event: Closed) -> None:
            await anyio.sleep(1.0)
            waited.append(event.report.reason)

        session.on(Closed, wait)
        reports = [await session.close(CloseReason.JOB_ENDED), await session.close(), await session.wait_closed()]
        assert session.agent_state is AgentState.CLOSED
        assert events.names == ["agent_state_changed", "agent_state_changed", "closed"]
        assert waited == ["job_ended"]
        assert [(report.reason, report.is_clean) for report in reports] == [("job_ended", True)] * 3
        assert session.report().close == reports[0]
        with pytest.raises(SessionClosedError):
            await session.start(LocalTransport(VirtualClock()))

    run(main())


def test_a_failing_on_enter_rolls_back_ends_closed_and_raises() -> None:
    class Broken(Agent):
        async def on_enter(self) -> None:
            raise LookupError("no greeting")

    async def main() -> None:
        clock, stt = VirtualClock(), ScriptedSTT()
        session: AgentSession[None] = AgentSession(Broken("x"), pipeline(stt), options=SessionOptions(clock=clock))
        events = Events(session)
        with pytest.raises(LookupError, match="no greeting"):
            await session.start(LocalTransport(clock))
        assert session.agent_state is AgentState.CLOSED
        assert stt.streams[0].is_closed
        assert "started" not in events.names
        assert events.names[-1] == "closed"
        report = await session.close()
        assert report.reason == "start_failed"
        assert "LookupError" in report.error
        with pytest.raises(SessionClosedError):
            _ = session.say("hello")

    run(main())


def test_a_provider_that_cannot_be_opened_fails_the_start_with_its_own_error() -> None:
    async def main() -> None:
        clock, stt = VirtualClock(), ScriptedSTT()
        stt.fail_open(ProviderError("wrong key", provider="scripted"))
        session: AgentSession[None] = AgentSession(Agent("x"), pipeline(stt), options=SessionOptions(clock=clock))
        with pytest.raises(ProviderError, match="wrong key"):
            await session.start(LocalTransport(clock))
        assert session.agent_state is AgentState.CLOSED

    run(main())


def test_a_step_that_hangs_fails_the_start_at_its_limit() -> None:
    async def main() -> None:
        clock = VirtualClock()
        options = SessionOptions(start_step=3.0, clock=clock)
        stt = ScriptedSTT(open_delay=HANG)
        session: AgentSession[None] = AgentSession(Agent("x"), pipeline(stt), options=options)
        with pytest.raises(SessionError, match="pipeline was not ready within 3 s"):
            await session.start(LocalTransport(clock))
        assert clock.now() == pytest.approx(3.0)

    run(main())


def test_a_start_that_is_cancelled_rolls_back() -> None:
    class Patient(Agent):
        async def on_enter(self) -> None:
            await anyio.sleep_forever()

    async def main() -> None:
        clock, stt = VirtualClock(), ScriptedSTT()
        session: AgentSession[None] = AgentSession(Patient("x"), pipeline(stt), options=SessionOptions(clock=clock))
        with pytest.raises(TimeoutError):  # noqa: PT012 - the scope around the call is the subject
            with anyio.fail_after(5):
                await session.start(LocalTransport(clock))
        assert session.agent_state is AgentState.CLOSED
        assert stt.streams[0].is_closed
        assert (await session.close()).reason == "start_failed"

    run(main())


def test_a_start_that_is_cancelled_while_a_provider_hangs_waits_for_nothing() -> None:
    async def main() -> None:
        clock = VirtualClock()
        session: AgentSession[None] = AgentSession(
            Agent("x"), pipeline(ScriptedSTT(open_delay=HANG)), options=SessionOptions(clock=clock)
        )
        with pytest.raises(TimeoutError):  # noqa: PT012 - the scope around the call is the subject
            with anyio.fail_after(1):
                await session.start(LocalTransport(clock))
        assert clock.now() == pytest.approx(1.0)
        assert session.agent_state is AgentState.CLOSED
        assert (await session.close()).reason == "start_failed"

    run(main())


def test_a_room_or_provider_that_ends_before_it_is_ready_fails_the_start() -> None:
    class ShortRoom(LocalTransport):
        async def run(self, events: TransportEvents, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
            return

    async def main() -> None:
        clock = VirtualClock()
        session: AgentSession[None] = AgentSession(Agent("x"), pipeline(), options=SessionOptions(clock=clock))
        with pytest.raises(SessionError, match="room audio ended before it was ready"):
            await session.start(ShortRoom(clock))

    run(main())


def test_a_pipeline_that_is_taken_fails_the_start_and_the_session_is_closed() -> None:
    async def main() -> None:
        clock, shared = VirtualClock(), pipeline()
        first: AgentSession[None] = AgentSession(Agent("x"), shared, options=SessionOptions(clock=clock))
        second: AgentSession[None] = AgentSession(Agent("x"), shared, options=SessionOptions(clock=clock))
        await first.start(LocalTransport(clock))
        with pytest.raises(ConfigurationError):
            await second.start(LocalTransport(clock))
        report = await second.close()
        assert report.reason == "start_failed"
        assert report.is_clean
        assert second.agent_state is AgentState.CLOSED
        assert first.agent_state is AgentState.IDLE
        await first.close()

    run(main())


def test_a_session_starts_once() -> None:
    async def main() -> None:
        clock = VirtualClock()
        session: AgentSession[None] = AgentSession(Agent("x"), pipeline(), options=SessionOptions(clock=clock))
        await session.start(LocalTransport(clock))
        with pytest.raises(SessionError, match="starts once"):
            await session.start(LocalTransport(clock))
        await session.close()
        with pytest.raises(SessionError):
            await session.start(LocalTransport(clock))

    run(main())


def test_before_start_every_call_but_close_says_call_start_first() -> None:
    async def main() -> None:
        session: AgentSession[None] = AgentSession(Agent("x"), pipeline(), options=SessionOptions(clock=VirtualClock()))
        for call in (
            lambda: session.say("x"),
            lambda: session.reply("x"),
            lambda: session.reply(""),
            lambda: session.interrupt(),
            lambda: session.input.text("x"),
        ):
            with pytest.raises(SessionNotStartedError, match=r"call start\(\) first"):
                call()
        with pytest.raises(SessionNotStartedError):
            await session.wait_closed()
        assert session.agent_state is AgentState.IDLE
        report = await session.close()
        assert report is await session.close()
        assert report.is_clean
        with pytest.raises(SessionClosedError):
            await session.start(LocalTransport(VirtualClock()))

    run(main())


def test_no_room_and_no_job_is_an_error_that_says_what_to_do() -> None:
    async def main() -> None:
        session: AgentSession[None] = AgentSession(Agent("x"), pipeline(), options=SessionOptions(clock=VirtualClock()))
        with pytest.raises(ConfigurationError, match="pass the room"):
            await session.start()

    run(main())


def test_a_participant_does_not_go_with_a_ready_transport() -> None:
    async def main() -> None:
        clock = VirtualClock()
        session: AgentSession[None] = AgentSession(Agent("x"), pipeline(), options=SessionOptions(clock=clock))
        with pytest.raises(ConfigurationError):
            await session.start(LocalTransport(clock), participant="somebody")
        await session.close()

    run(main())


class SlowJob(ConsoleJob):
    """A job whose room is a transport; joining it takes a while."""

    def __init__(self, room: LocalTransport, tasks: TaskGroup, *, joining: float = 0.0) -> None:
        super().__init__(JobInfo(id="AJ_1", room="kitchen"), room, shared={}, tasks=tasks)
        self._joining = joining
        self.connected = 0

    async def connect(self, auto_subscribe: bool) -> None:
        await anyio.sleep(self._joining)
        self.connected += 1


def test_a_session_started_in_a_job_takes_its_room_and_closes_when_it_ends() -> None:
    async def main() -> None:
        clock = VirtualClock()
        session: AgentSession[None] = AgentSession(Agent("x"), pipeline(), options=SessionOptions(clock=clock))
        async with anyio.create_task_group() as tasks:
            job = SlowJob(LocalTransport(clock), tasks)
            with job_scope(job):
                await session.start()
            assert job.connected == 1
            assert session.report().room == "kitchen"
            (close,) = job.take_sessions()
            await close("the room is empty")
            assert (await session.wait_closed()).reason == "job_ended"

    run(main())


@pytest.mark.parametrize(("ended", "reason"), [("the worker is stopping", "job_ended"), ("", "start_failed")])
def test_a_start_that_is_cut_because_its_job_has_ended_says_so(ended: str, reason: str) -> None:
    class Talkative(Agent):
        async def on_enter(self) -> None:
            await anyio.sleep_forever()

    async def main() -> None:
        clock = VirtualClock()
        session: AgentSession[None] = AgentSession(Talkative("x"), pipeline(), options=SessionOptions(clock=clock))
        async with anyio.create_task_group() as tasks:
            job = SlowJob(LocalTransport(clock), tasks)
            with job_scope(job), anyio.move_on_after(2.0):
                async with anyio.create_task_group() as group:
                    group.start_soon(session.start)
                    await anyio.sleep(1.0)
                    if ended:
                        job.end(ended)
                    group.cancel_scope.cancel()
            assert (await session.close()).reason == reason

    run(main())


def test_a_session_that_is_joining_its_jobs_room_is_started_already() -> None:
    async def main() -> None:
        clock = VirtualClock()
        session: AgentSession[None] = AgentSession(Agent("x"), pipeline(), options=SessionOptions(clock=clock))
        async with anyio.create_task_group() as tasks:
            job = SlowJob(LocalTransport(clock), tasks, joining=3.0)
            with job_scope(job):
                async with anyio.create_task_group() as group:
                    group.start_soon(session.start)
                    await anyio.sleep(1.0)
                    with pytest.raises(SessionError, match="starts once"):
                        await session.start()
            assert session.agent_state is AgentState.IDLE
            assert job.connected == len(job.take_sessions()) == 1
            await session.close()

    run(main())


def test_closing_while_the_jobs_room_is_joined_is_final() -> None:
    async def main() -> None:
        clock = VirtualClock()
        session: AgentSession[None] = AgentSession(Agent("x"), pipeline(), options=SessionOptions(clock=clock))
        events = Events(session)

        async def start(job: SlowJob) -> None:
            with job_scope(job):
                with pytest.raises(SessionClosedError, match="closed while it was starting"):
                    await session.start()

        async with anyio.create_task_group() as group:
            job = SlowJob(LocalTransport(clock), group, joining=3.0)
            group.start_soon(start, job)
            await anyio.sleep(1.0)
            report = await session.close()
        assert clock.now() == pytest.approx(1.0)
        assert report.is_clean
        await anyio.sleep(5.0)
        assert session.agent_state is AgentState.CLOSED
        assert job.connected == len(job.take_sessions()) == 0
        assert events.names[-1] == "closed"
        assert await session.close() is report

    run(main())
