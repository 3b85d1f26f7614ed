"""Scenario 20: closing at every moment is bounded, complete and leaves nothing."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from vivavoce.agents import Agent, AgentSession, SessionOptions, function_tool
from vivavoce.agents.events import Closed, SessionEvent
from vivavoce.agents.records import CloseReport
from vivavoce.agents.rooms.local import LocalTransport
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
from vivavoce.pipelines.core.errors import SessionClosedError, SessionError
from vivavoce.pipelines.llm.tools import ToolCall

STEPS = ["input", "speech", "tools", "on_exit", "pipeline", "agent cleanup", "handlers", "room audio"]
TEN_WORDS = "one two three four five six seven eight nine ten."


def closed_at(harness: SessionHarness, seconds: float) -> CloseReport:
    """Run the harness, close at `seconds`, and check what every close keeps."""
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
        session: AgentSession[None] = AgentSession(Patient("Wait."), pipeline, clock=clock)
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
