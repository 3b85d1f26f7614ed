"""Scenario 20: closing at every moment is bounded, complete and leaves nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

import anyio
import pytest

from vivavoce.agents import Agent, AgentSession, SessionOptions, function_tool
from vivavoce.agents.events import Closed, SessionEvent, UserTranscript
from vivavoce.agents.records import CloseReport
from vivavoce.agents.states import AgentState
from vivavoce.agents.testing import (
    HANG,
    ScriptedLLM,
    ScriptedSTT,
    ScriptedTTS,
    ScriptedTTSOptions,
    SessionHarness,
    VirtualClock,
    run_virtual,
)
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import SessionClosedError, SessionError
from vivavoce.pipelines.llm.base import Done, GenerateRequest, LLMEvent
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.testing.scripted_stt import ScriptedSTTStream

STEPS = ["input", "speech", "tools", "on_exit", "pipeline", "agent cleanup", "handlers", "room audio"]
TEN_WORDS = "one two three four five six seven eight nine ten."


def closed_at(harness: SessionHarness, seconds: float) -> CloseReport:
    """Run the harness, close at `seconds`, and check the guarantees of every close."""
    harness.run(until=seconds)
    report = harness.close_report
    assert report is not None
    assert [step.name for step in report.steps] == STEPS
    states = [(state, at) for who, state, at in harness.states if who == "agent"]
    assert states[-2:] == [("closing", seconds), ("closed", pytest.approx(seconds + report.seconds))]
    assert isinstance(harness.recording.events[-1], Closed)
    assert harness.session.agent_state is AgentState.CLOSED
    return report


def test_closing_an_idle_session_takes_less_than_50_ms() -> None:
    report = closed_at(SessionHarness(Agent("Help.")), 1.0)
    assert report.is_clean
    assert report.reason == "user_initiated"
    assert report.seconds < 0.05


def test_closing_in_mid_speech_cuts_it_and_keeps_what_was_heard() -> None:
    harness = SessionHarness(Agent("Count."), ScriptedLLM(TEN_WORDS), tts=ScriptedTTS(emits_words=True))
    harness.caller.says("count please", 0.5, 1.5)  # heard from 2.1 on
    report = closed_at(harness, 3.0)
    assert report.is_clean
    assert report.seconds == pytest.approx(0.05)  # the fade
    harness.expect_history(("user", "count please"), ("assistant", "one two three four"))
    harness.expect_played((2.1, 0.95)).expect_outcomes("interrupted")


def test_closing_while_the_model_thinks_cancels_the_request() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM([HANG]))
    harness.caller.says("hello there", 0.5, 1.5)
    report = closed_at(harness, 3.0)
    assert report.is_clean
    assert report.seconds < 0.05
    assert harness.llm.cancelled == [0]
    harness.expect_outcomes("cancelled").expect_history(("user", "hello there"))


class Busy(Agent):
    @function_tool
    async def work(self) -> str:
        """Work for ever."""
        await anyio.sleep_forever()
        return "never"

    @function_tool
    async def hang_up(self) -> str:
        """Close the session."""
        await self.session.close()
        return "closed"


def test_closing_in_mid_tool_cancels_and_answers_the_call() -> None:
    call = ToolCall(call_id="c1", name="work", arguments="{}")
    harness = SessionHarness(Busy("Help."), ScriptedLLM([call]))
    harness.caller.says("hello there", 0.5, 1.5)
    report = closed_at(harness, 3.0)
    assert report.is_clean
    assert report.seconds < 0.05
    harness.expect_tools(("work", "The call was cancelled."))


def test_a_tool_may_close_the_session_that_runs_it() -> None:
    call = ToolCall(call_id="c1", name="hang_up", arguments="{}")
    harness = SessionHarness(Busy("Help."), ScriptedLLM([call]))
    harness.caller.says("good bye", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        report = await harness.session.wait_closed()
        assert report.is_clean
        assert harness.now == pytest.approx(1.9)

    harness.run(scenario)
    assert len(harness.tools) == 1


def test_closing_while_the_user_speaks_drops_the_open_turn() -> None:
    harness = SessionHarness(Agent("Help."))
    harness.caller.makes_noise(0.5, 5.0)
    assert closed_at(harness, 2.0).is_clean
    harness.expect_states("user", ("speaking", 0.5), ("idle", 2.0)).expect_history()


def test_two_callers_of_close_wait_for_one_close_and_get_the_same_report() -> None:
    harness = SessionHarness(Agent("Count."))
    reports: list[CloseReport] = []

    async def close(harness: SessionHarness) -> None:
        reports.append(await harness.session.close())

    async def scenario(harness: SessionHarness) -> None:
        _ = harness.session.say(TEN_WORDS)
        await harness.until(1.0)
        async with anyio.create_task_group() as group:
            group.start_soon(close, harness)
            group.start_soon(close, harness)
        reports.append(await harness.session.close())

    harness.run(scenario)
    assert reports[0] is reports[1] is reports[2]
    assert len(harness.recording.of(Closed)) == 1


def test_after_close_calls_raise_and_records_stay_readable() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Hi there."))
    harness.caller.says("hello", 0.5, 1.5)
    harness.run(until=4.0)
    session = harness.session
    calls: list[Callable[[], object]] = [lambda: session.say("x"), lambda: session.reply("x"), session.interrupt]
    for call in calls:
        with pytest.raises(SessionClosedError):
            call()
    assert [turn.outcome for turn in session.turns] == ["completed"]
    assert len(session.history.items) == 2
    assert session.report().close is harness.close_report


def test_a_provider_that_hangs_at_close_is_named_and_the_later_steps_run() -> None:
    cleaned: list[float] = []

    class Tidy(Agent):
        async def cleanup(self) -> None:
            cleaned.append(anyio.current_time())

    harness = SessionHarness(Tidy("Help."), stt=ScriptedSTT(close_delay=HANG))
    report = closed_at(harness, 1.0)
    assert [step.name for step in report.steps if step.error] == ["pipeline"]
    assert "closing a stream took more than" in next(step.error for step in report.steps if step.name == "pipeline")
    assert report.seconds <= 5.0
    assert len(cleaned) == 1


def test_a_voice_that_is_slow_to_close_is_waited_for() -> None:
    voice = ScriptedTTS(options=ScriptedTTSOptions(close_delay=1.0, chunk_interval=0.05))
    harness = SessionHarness(Agent("Count."), ScriptedLLM(TEN_WORDS), tts=voice)
    harness.caller.says("count please", 0.5, 1.5)
    report = closed_at(harness, 3.0)
    assert report.is_clean
    assert report.seconds == pytest.approx(1.0)


def test_an_on_exit_that_raises_is_named_and_the_later_steps_run() -> None:
    class Rude(Agent):
        async def on_exit(self) -> None:
            raise RuntimeError("no farewell")

    report = closed_at(SessionHarness(Rude("Help.")), 1.0)
    assert [(step.name, step.error) for step in report.steps if step.error] == [("on_exit", "RuntimeError")]
    assert report.seconds < 0.05


def test_an_on_exit_that_hangs_is_cut_within_the_limit() -> None:
    class Slow(Agent):
        async def on_exit(self) -> None:
            await anyio.sleep_forever()

    options = SessionOptions(close_timeout=2.0)
    harness = SessionHarness(Slow("Help."), options=options)
    report = closed_at(harness, 1.0)
    assert [step.name for step in report.steps if step.error] == ["on_exit"]
    assert report.seconds <= 2.0


def test_an_on_exit_that_closes_the_session_is_told_to_return_instead() -> None:
    caught: list[SessionError] = []

    class Eager(Agent):
        async def on_exit(self) -> None:
            try:
                await self.session.close()
            except SessionError as error:
                caught.append(error)

    assert closed_at(SessionHarness(Eager("Help.")), 1.0).is_clean
    assert "return from it" in str(caught[0])


def test_closing_during_start_ends_on_enter_and_start_returns() -> None:
    class Patient(Agent):
        was_cancelled = False

        async def on_enter(self) -> None:
            try:
                await anyio.sleep_forever()
            finally:
                Patient.was_cancelled = True

    events: list[SessionEvent] = []

    async def main() -> None:
        clock = VirtualClock()
        pipeline = SessionHarness(Agent("x")).pipeline
        session: AgentSession[None] = AgentSession(Patient("Wait."), pipeline, options=SessionOptions(clock=clock))
        session.on(Closed, events.append)
        async with anyio.create_task_group() as group:
            group.start_soon(session.start, LocalTransport(clock))
            await anyio.sleep(1.0)
            report = await session.close()
        assert report.reason == "user_initiated"
        assert report.is_clean
        assert session.agent_state is AgentState.CLOSED

    run_virtual(main())
    assert Patient.was_cancelled
    assert len(events) == 1


STUBBORN = 60.0
"""Seconds for which the code below resists cancellation."""


async def ignore_cancellation() -> None:
    with anyio.CancelScope(shield=True):
        await anyio.sleep(STUBBORN)


class StubbornTool(Agent):
    @function_tool
    async def work(self) -> str:
        """Continue to work in spite of cancellation."""
        await ignore_cancellation()
        return "done"


class StubbornEnter(Agent):
    async def on_enter(self) -> None:
        await ignore_cancellation()


class StubbornExit(Agent):
    async def on_exit(self) -> None:
        await ignore_cancellation()


class StubbornCleanup(Agent):
    async def cleanup(self) -> None:
        await ignore_cancellation()


class StubbornLLM(ScriptedLLM):
    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        await ignore_cancellation()
        yield Done()


class StubbornSTT(ScriptedSTT):
    async def open(self) -> ScriptedSTTStream:
        await ignore_cancellation()
        return await super().open()


class StubbornRoom(LocalTransport):
    async def leave(self) -> None:
        await ignore_cancellation()

    async def aclose(self) -> None:
        await ignore_cancellation()


async def hold_the_event(event: SessionEvent) -> None:
    await ignore_cancellation()


def stubborn_close(
    agent: Agent,
    *,
    llm: ScriptedLLM | None = None,
    stt: ScriptedSTT | None = None,
    handles: bool = False,
    room: type[LocalTransport] = LocalTransport,
    leaves: bool = False,
) -> tuple[CloseReport, list[str]]:
    """Close a session whose foreign code does not obey; return the report and the steps that it names."""
    reports: list[CloseReport] = []

    async def main() -> None:
        clock = VirtualClock()
        pipeline = SessionHarness(agent, llm or ScriptedLLM("Yes."), stt=stt).pipeline
        session: AgentSession[None] = AgentSession(agent, pipeline, options=SessionOptions(clock=clock))
        if handles:
            session.on("history_item_added", hold_the_event)
        async with anyio.create_task_group() as group:
            group.start_soon(start_quietly, session, room(clock))
            await anyio.sleep(1.0)
            if session.agent_state is not AgentState.STARTING:
                session.input.text("go")
            await anyio.sleep(1.0)
            began = clock.now()
            reports.append(await (session.leave() if leaves else session.close()))
            assert clock.now() - began <= 5.0 + 1e-9
            assert session.agent_state is AgentState.CLOSED
            assert (await session.close()) is reports[0]
            assert clock.now() - began <= 5.0 + 1e-9
        await anyio.sleep(2 * STUBBORN)  # the abandoned code ends by itself, and harms no one
        assert session.report().close is reports[0]

    run_virtual(main())
    return reports[0], [step.name for step in reports[0].steps if step.error]


async def start_quietly(session: AgentSession[None], room: LocalTransport) -> None:
    try:
        await session.start(room)
    except SessionClosedError:
        return


def test_a_tool_that_ignores_its_cancellation_holds_no_close() -> None:
    llm = ScriptedLLM([ToolCall(call_id="c1", name="work", arguments="{}")])
    assert stubborn_close(StubbornTool("x"), llm=llm)[1] == ["tools"]


def test_a_model_that_ignores_its_cancellation_holds_no_close() -> None:
    assert stubborn_close(Agent("x"), llm=StubbornLLM())[1] == ["speech", "on_exit"]


def test_an_on_exit_that_ignores_its_cancellation_holds_no_close() -> None:
    report, blamed = stubborn_close(StubbornExit("x"))
    assert blamed == ["on_exit"]
    assert "ignores its cancellation" in next(step.error for step in report.steps if step.error)


def test_a_cleanup_that_ignores_its_cancellation_holds_no_close() -> None:
    assert stubborn_close(StubbornCleanup("x"))[1] == ["agent cleanup"]


def test_an_async_handler_that_ignores_its_cancellation_holds_no_close_and_is_named() -> None:
    report, blamed = stubborn_close(Agent("x"), handles=True)
    assert blamed == ["handlers"]
    assert "'history_item_added'" in next(step.error for step in report.steps if step.error)


def test_an_on_enter_that_ignores_its_cancellation_holds_no_close() -> None:
    assert stubborn_close(StubbornEnter("x"))[1] == ["on_enter"]


def test_a_provider_that_ignores_its_cancellation_while_it_is_opened_holds_no_close() -> None:
    assert stubborn_close(Agent("x"), stt=StubbornSTT())[1] == ["pipeline"]


def test_a_room_that_ignores_its_cancellation_holds_no_close() -> None:
    assert stubborn_close(Agent("x"), room=StubbornRoom, leaves=True)[1] == ["room audio", "leave room"]


def test_everything_that_ignores_its_cancellation_together_holds_no_close() -> None:
    class Stubborn(StubbornTool, StubbornExit, StubbornCleanup): ...

    llm = ScriptedLLM([ToolCall(call_id="c1", name="work", arguments="{}")])
    blamed = stubborn_close(Stubborn("x"), llm=llm, handles=True, room=StubbornRoom, leaves=True)[1]
    assert blamed == ["tools", "on_exit", "agent cleanup", "handlers", "room audio", "leave room"]


async def test_code_that_swallows_its_cancellation_holds_no_close_on_a_real_loop() -> None:
    is_judged, ended = anyio.Event(), anyio.Event()

    class Swallows(Agent):
        async def on_exit(self) -> None:
            while not is_judged.is_set():
                try:
                    await is_judged.wait()
                except anyio.get_cancelled_exc_class():
                    continue
            ended.set()

    clock = LoopClock()
    session: AgentSession[None] = AgentSession(
        Swallows("x"), SessionHarness(Agent("x")).pipeline, options=SessionOptions(clock=clock, close_timeout=0.5)
    )
    await session.start(LocalTransport(clock))
    report = await session.close()
    # On a busy machine a step behind it may be late too: 0.15 s are kept for each.
    assert "on_exit" in [step.name for step in report.steps if step.error]
    is_judged.set()
    await ended.wait()  # the leak guard looks


def test_an_async_handler_may_await_the_close_and_costs_it_nothing() -> None:
    harness = SessionHarness(Agent("x"))
    harness.caller.says("good bye", 0.5, 1.0)
    after: list[float] = []

    async def scenario(harness: SessionHarness) -> None:
        async def hang_up(event: UserTranscript) -> None:
            await harness.session.close()
            await anyio.sleep(0.1)
            after.append(harness.now)

        harness.session.on(UserTranscript, hang_up)
        report = await harness.session.wait_closed()
        assert report.is_clean
        assert harness.now == pytest.approx(1.3)  # the close waits for the handler's later work

    harness.run(scenario)
    assert after == [pytest.approx(1.3)]
    assert harness.close_report is not None
    assert harness.close_report.seconds < 0.05


def test_async_handlers_end_their_work_before_the_session_closes() -> None:
    harness = SessionHarness(Agent("x"), ScriptedLLM("Hi."))
    done: list[str] = []

    async def scenario(harness: SessionHarness) -> None:
        async def save(event: SessionEvent) -> None:
            await anyio.sleep(0.5)
            done.append(event.name)

        harness.session.on("history_item_added", save)
        harness.session.on("closed", save)
        await harness.until(1.0)
        harness.session.input.text("hello")
        await harness.until(1.2)
        report = await harness.session.close()
        assert report.is_clean
        assert done[0] == "history_item_added"
        assert done[-1] == "closed"

    harness.run(scenario)


def hanging_start(seconds: float) -> list[BaseException]:
    """Close a session while its provider is being opened; return the exception of start()."""
    raised: list[BaseException] = []

    async def main() -> None:
        clock = VirtualClock()
        pipeline = SessionHarness(Agent("x"), stt=ScriptedSTT(open_delay=HANG)).pipeline
        session: AgentSession[None] = AgentSession(Agent("x"), pipeline, options=SessionOptions(clock=clock))

        async def start() -> None:
            try:
                await session.start(LocalTransport(clock))
            except SessionError as error:
                raised.append(error)

        async with anyio.create_task_group() as group:
            group.start_soon(start)
            await anyio.sleep(seconds)
            report = await session.close()
        assert report.is_clean
        assert clock.now() == pytest.approx(seconds)
        assert session.agent_state is AgentState.CLOSED

    run_virtual(main())
    return raised


def test_closing_while_a_provider_is_opened_waits_for_no_limit_and_start_says_so() -> None:
    (error,) = hanging_start(1.0)
    assert isinstance(error, SessionClosedError)
    assert str(error) == "closed while it was starting: user_initiated"


def test_closing_before_the_first_step_of_start_keeps_it_from_starting() -> None:
    (error,) = hanging_start(0.0)
    assert isinstance(error, SessionClosedError)
