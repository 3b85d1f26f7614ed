"""Scenario 18: a silent caller counts as away, is woken up by levels, and is hung up on where that is wanted."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from vivavoce.agents import Agent, AgentSession, SessionOptions, WakeUp, function_tool
from vivavoce.agents.events import ErrorOccurred, WakeUpFired
from vivavoce.agents.testing import HANG, ScriptedLLM, ScriptedTTS, SessionHarness, VirtualClock, run_virtual
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    ProviderError,
    SessionClosedError,
    SessionError,
    SessionNotStartedError,
)
from vivavoce.pipelines.llm.tools import ToolCall

LINE = "are you still there"
"""Heard for 0.8 s, from 0.2 s after it was asked for."""


def woken(harness: SessionHarness) -> list[tuple[float, int]]:
    """When the caller was woken up, and at which level."""
    return [(round(event.at, 6), event.level) for event in harness.recording.of(WakeUpFired)]


def errors(harness: SessionHarness) -> list[tuple[str, str]]:
    """The errors: source and text."""
    return [(event.source, str(event.error)) for event in harness.recording.of(ErrorOccurred)]


class Asking(Agent):
    """Asks at each wake-up and notes when it was asked to and when it had asked."""

    def __init__(self) -> None:
        super().__init__("Help.")
        self.asked: list[tuple[int, float]] = []
        self.done: list[float] = []

    async def on_enter(self) -> None:
        self.session.on_wake_up = self.ask

    async def ask(self, level: int) -> None:
        self.asked.append((level, round(anyio.current_time(), 6)))
        await self.session.say(LINE)
        self.done.append(round(anyio.current_time(), 6))


# --- when


def test_a_number_wakes_a_silent_caller_up_once() -> None:
    harness = SessionHarness(Agent("Help."), wake_up=10).run(until=60.0)
    assert woken(harness) == [(10.0, 1)]


def test_a_number_wakes_up_once_a_silence_even_when_its_callback_speaks() -> None:
    agent = Asking()
    harness = SessionHarness(agent, wake_up=10).run(until=60.0)
    assert woken(harness) == [(10.0, 1)]
    assert (agent.asked, agent.done) == ([(1, 10.0)], [11.0])
    harness.expect_played((10.2, 0.8)).expect_history(("assistant", LINE)).expect_outcomes("completed")


def test_it_wakes_up_again_after_the_caller_has_spoken() -> None:
    harness = SessionHarness(Asking(), ScriptedLLM("All right then."), wake_up=10)
    harness.caller.says("yes I am", 12.0, 13.0)  # answered from 13.6 to 14.2
    harness.run(until=60.0)
    assert woken(harness) == [(10.0, 1), (24.2, 1)]


def test_nobody_is_woken_up_while_speaking() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("I see."), wake_up=5)
    words = [(float(at), "a long story"[: at // 2]) for at in range(2, 20, 2)]
    harness.caller.says("a long story", 1.0, 20.0, interims=words)
    harness.run(until=22.0)
    assert woken(harness) == []


def test_nobody_is_woken_up_while_the_agent_thinks_or_speaks() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM([4.0, " ".join(["word"] * 40) + "."]), wake_up=3)
    harness.caller.says("tell me", 0.5, 1.5)  # thinking from 1.9, speaking from 6.1 to 14.1
    harness.run(until=20.0)
    assert woken(harness) == [(17.1, 1)]


class Searching(Agent):
    @function_tool
    async def search(self) -> str:
        """Search for twelve seconds."""
        await anyio.sleep(12.0)
        return "found"


def test_nobody_is_woken_up_while_a_tool_runs() -> None:
    call = ToolCall(call_id="c1", name="search", arguments="{}")
    harness = SessionHarness(Searching("Help."), ScriptedLLM([call], "Found it."), wake_up=5)
    harness.caller.says("search please", 0.5, 1.5)  # the tool runs from 1.9 to 13.9, the answer sounds until 14.5
    harness.run(until=30.0)
    assert woken(harness) == [(19.5, 1)]


def test_nobody_is_woken_up_while_a_tool_of_an_interrupted_answer_runs() -> None:
    call = ToolCall(call_id="c1", name="search", arguments="{}")
    harness = SessionHarness(Searching("Help."), ScriptedLLM([call], "Found it."), wake_up=5)
    harness.caller.says("search please", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        await harness.session.interrupt()

    harness.run(scenario, until=30.0)
    assert woken(harness) == [(19.5, 1)]


def test_nobody_is_woken_up_before_coming_or_after_leaving() -> None:
    harness = SessionHarness(Agent("Help."), wake_up=WakeUp(after=5, repeat=2))
    harness.caller.leaves(3.0)
    harness.caller.joins(12.0)
    harness.run(until=20.0)
    assert woken(harness) == [(17.0, 1)]


def test_the_wait_begins_when_on_enter_is_done() -> None:
    class Greeting(Agent):
        async def on_enter(self) -> None:
            await self.session.say(LINE)
            await anyio.sleep(7.0)

    harness = SessionHarness(Greeting("Help."), wake_up=5).run(until=20.0)
    assert woken(harness) == [(13.0, 1)]


def test_the_wait_begins_anew_after_a_reply_that_failed() -> None:
    harness = SessionHarness(
        Agent("Help."), ScriptedLLM([ProviderError("down", provider="scripted", retryable=False)]), wake_up=5
    )
    harness.caller.says("hello", 0.5, 1.5)  # committed at 1.9, failed at once
    harness.run(until=20.0)
    harness.expect_outcomes("failed")
    assert woken(harness) == [(6.9, 1)]


def test_the_wait_begins_anew_after_a_reply_that_stayed_empty() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM([2.0]), wake_up=5)
    harness.caller.says("hello", 0.5, 1.5)
    harness.run(until=20.0)
    harness.expect_played()
    assert woken(harness) == [(8.9, 1)]


def test_noise_every_four_seconds_does_not_hold_it_off() -> None:
    harness = SessionHarness(Agent("Help."), wake_up=10)
    for start in (2.0, 6.0, 14.0, 18.0):
        harness.caller.makes_noise(start, start + 0.5)
    harness.run(until=30.0)
    assert woken(harness) == [(10.0, 1)]
    harness.expect_history()


def test_a_wake_up_due_in_the_middle_of_noise_comes_when_its_turn_is_dropped() -> None:
    harness = SessionHarness(Agent("Help."), wake_up=10)
    harness.caller.makes_noise(9.5, 10.5)  # no words within 1.0 of its end
    harness.run(until=30.0)
    assert woken(harness) == [(11.5, 1)]


def test_a_reply_of_the_application_holds_it_off_until_it_is_over() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM([8.0, "Well then."]), wake_up=5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(4.0)
        await harness.session.reply("Say something.")
        assert harness.now == pytest.approx(12.6)

    harness.run(scenario, until=30.0)
    assert woken(harness) == [(17.6, 1)]


def test_nobody_is_woken_up_after_the_close() -> None:
    async def scenario(harness: SessionHarness) -> None:
        await harness.until(9.0)
        await harness.session.close()

    harness = SessionHarness(Asking(), wake_up=10).run(scenario, until=60.0)
    assert woken(harness) == []
    harness.expect_played()


# --- levels and being away


def test_three_levels_and_then_the_close() -> None:
    agent = Asking()
    harness = SessionHarness(agent, wake_up=WakeUp(after=10, repeat=3, backoff=1.5, then="close"))

    async def scenario(harness: SessionHarness) -> None:
        report = await harness.session.wait_closed()
        assert harness.now == pytest.approx(84.25)
        assert (report.reason, report.is_clean) == ("user_away", True)

    harness.run(scenario)
    assert woken(harness) == [(10.0, 1), (26.0, 2), (49.5, 3)]  # each wait from the end of the last words
    assert agent.asked == [(1, 10.0), (2, 26.0), (3, 49.5)]
    assert harness.session.report().close is harness.close_report


def test_a_caller_who_answers_the_second_time_starts_over() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Good."), wake_up=WakeUp(after=5, repeat=2, then="close"))
    harness.caller.says("I am here", 12.0, 13.0)  # answered from 13.6 to 13.8
    harness.run(until=22.0)
    assert woken(harness) == [(5.0, 1), (10.0, 2), (18.8, 1)]


def test_typing_is_an_answer_too() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Good."), wake_up=5)
    harness.caller.types("here", 7.0)  # answered from 7.2 to 7.4
    harness.run(until=20.0)
    assert woken(harness) == [(5.0, 1), (12.4, 1)]


def test_a_wake_up_later_than_away_finds_the_caller_away_and_leaves_it_so() -> None:
    harness = SessionHarness(Asking(), wake_up=20).run(until=60.0)
    assert woken(harness) == [(20.0, 1)]
    harness.expect_states("user", ("away", 15.0), ("listening", 20.2), ("away", 21.0))


def test_an_earlier_wake_up_that_says_nothing_does_not_put_being_away_off() -> None:
    harness = SessionHarness(Agent("Help."), wake_up=10).run(until=60.0)
    harness.expect_states("user", ("away", 15.0))


def test_noise_does_not_bring_a_caller_back_and_words_do() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Good."), options=SessionOptions(away_after=5.0))
    harness.caller.makes_noise(8.0, 9.0)
    harness.caller.says("hello", 12.0, 13.0, final_at=13.2)
    harness.run(until=16.0)
    harness.expect_states(
        "user",
        ("away", 5.0),
        ("speaking", 8.0),
        ("away", 9.0),
        ("speaking", 12.0),
        ("away", 13.0),
        ("idle", 13.2),
        ("listening", 13.6),
        ("idle", 13.8),
    )


def test_being_away_can_be_off() -> None:
    SessionHarness(Agent("Help."), options=SessionOptions(away_after=None)).run(until=60.0).expect_states("user")


# --- the callback


def test_a_callback_set_after_the_start_is_called_and_may_be_sync() -> None:
    called: list[float] = []
    harness = SessionHarness(Agent("Help."), wake_up=10)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(9.0)
        assert harness.session.on_wake_up is None

        def note() -> None:
            called.append(harness.now)
            _ = harness.session.say(LINE)

        harness.session.on_wake_up = note
        assert harness.session.on_wake_up is note

    harness.run(scenario, until=20.0)
    assert called == [10.0]
    harness.expect_played((10.2, 0.8))


def test_a_callback_set_before_the_start_is_called_and_may_reply() -> None:
    called: list[str] = []

    async def main() -> None:
        clock = VirtualClock()
        pipeline = SessionHarness(Agent("x"), ScriptedLLM("Anything else?")).pipeline
        session: AgentSession[None] = AgentSession(
            Agent("Help."), pipeline, wake_up=2, options=SessionOptions(clock=clock)
        )

        async def ask() -> None:
            handle = session.reply("Ask whether there is anything else.")
            await handle
            called.append(handle.heard_text)

        session.on_wake_up = ask
        async with session:
            await session.start(LocalTransport(clock, participant="anna"))
            await anyio.sleep(10.0)

    run_virtual(main())
    assert called == ["Anything else?"]


def test_what_a_callback_returns_to_be_awaited_is_awaited() -> None:
    harness = SessionHarness(Agent("Help."), wake_up=10)

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        session.on_wake_up = lambda: session.say(LINE)

    harness.run(scenario, until=20.0)
    harness.expect_played((10.2, 0.8))


def test_an_argument_with_a_default_is_the_callback_s_own() -> None:
    got: list[Any] = []

    async def scenario(harness: SessionHarness) -> None:
        harness.session.on_wake_up = lambda what="mine", *more, **named: got.append((what, more, named))

    SessionHarness(Agent("Help."), wake_up=1).run(scenario, until=5.0)
    assert got == [("mine", (), {})]


def test_a_builtin_that_does_not_tell_what_it_takes_is_called_without_arguments() -> None:
    async def scenario(harness: SessionHarness) -> None:
        harness.session.on_wake_up = dict

    harness = SessionHarness(Agent("Help."), wake_up=1).run(scenario, until=5.0)
    assert errors(harness) == []


def test_a_callback_that_raises_is_an_error_event_and_the_session_goes_on() -> None:
    class Broken(Agent):
        async def on_enter(self) -> None:
            self.session.on_wake_up = self.ask

        async def ask(self, level: int) -> None:
            raise RuntimeError(f"broken {level}")

    harness = SessionHarness(Broken("Help."), ScriptedLLM("Fine."), wake_up=WakeUp(after=5, repeat=2))
    harness.caller.says("hello", 12.0, 13.0)
    harness.run(until=15.0)
    assert errors(harness) == [("on_wake_up", "broken 1"), ("on_wake_up", "broken 2")]
    harness.expect_history(("user", "hello"), ("assistant", "Fine."))
    assert harness.close_report is not None
    assert harness.close_report.is_clean


def test_a_callback_may_speak_for_longer_than_callback_timeout() -> None:
    class Talking(Agent):
        async def on_enter(self) -> None:
            self.session.on_wake_up = self.talk

        async def talk(self) -> None:
            await self.session.say(" ".join(["word"] * 30))  # 6 s
            await anyio.sleep(1.9)
            await self.session.say(" ".join(["word"] * 30))
            await anyio.sleep(1.9)

    harness = SessionHarness(Talking("Help."), options=SessionOptions(callback_timeout=2.0), wake_up=5)
    harness.run(until=60.0)
    assert errors(harness) == []
    harness.expect_outcomes("completed", "completed")


def test_a_callback_that_hangs_is_cut_when_no_speech_has_gone_on_for_callback_timeout() -> None:
    ended: list[float] = []

    class Hanging(Agent):
        async def on_enter(self) -> None:
            self.session.on_wake_up = self.hang

        async def hang(self) -> None:
            await self.session.say(LINE)  # over at 6.0
            try:
                await anyio.sleep_forever()
            finally:
                ended.append(anyio.current_time())

    harness = SessionHarness(Hanging("Help."), options=SessionOptions(callback_timeout=2.0), wake_up=5)
    harness.run(until=60.0)
    assert ended == [pytest.approx(8.0)]
    assert errors(harness) == [("on_wake_up", "on_wake_up did not end within 2 s, speech apart")]
    assert isinstance(harness.recording.of(ErrorOccurred)[0].error, SessionError)


def test_one_call_runs_at_a_time_and_the_level_goes_on_without_it(caplog: pytest.LogCaptureFixture) -> None:
    called: list[int] = []

    async def slow(level: int) -> None:
        called.append(level)
        await anyio.sleep(7.0)

    async def scenario(harness: SessionHarness) -> None:
        harness.session.on_wake_up = slow

    with caplog.at_level(logging.WARNING):
        harness = SessionHarness(Agent("Help."), wake_up=WakeUp(after=5, repeat=3)).run(scenario, until=30.0)
    assert woken(harness) == [(5.0, 1), (10.0, 2), (15.0, 3)]
    assert called == [1, 3]
    assert "on_wake_up is not called for level 2" in caplog.text


def test_a_cancellation_that_a_callback_brings_along_ends_only_the_callback() -> None:
    class Cancelling(Agent):
        async def on_enter(self) -> None:
            self.session.on_wake_up = self.cancel

        async def cancel(self) -> None:
            raise anyio.get_cancelled_exc_class()

    harness = SessionHarness(Cancelling("Help."), ScriptedLLM("Fine."), wake_up=5)
    harness.caller.says("hello", 7.0, 8.0)
    harness.run(until=12.0)
    harness.expect_history(("user", "hello"), ("assistant", "Fine."))
    assert [source for source, _ in errors(harness)] == ["on_wake_up"]


# --- the application's part


def test_the_timer_can_be_paused_and_resumed_with_a_full_wait() -> None:
    harness = SessionHarness(Agent("Help."), wake_up=10)

    async def scenario(harness: SessionHarness) -> None:
        timer = harness.session.wake_up_timer
        await harness.until(8.0)
        timer.pause()
        await harness.until(30.0)
        timer.resume()

    harness.run(scenario, until=60.0)
    assert woken(harness) == [(40.0, 1)]


def test_the_timer_can_be_reset_to_its_first_level() -> None:
    harness = SessionHarness(Agent("Help."), wake_up=WakeUp(after=10, repeat=2, then="close"))

    async def scenario(harness: SessionHarness) -> None:
        for moment in (8.0, 35.0):
            await harness.until(moment)
            harness.session.wake_up_timer.reset()

    harness.run(scenario, until=60.0)
    assert woken(harness) == [(18.0, 1), (28.0, 2), (45.0, 1), (55.0, 2)]


def test_without_a_wake_up_the_timer_does_nothing() -> None:
    async def scenario(harness: SessionHarness) -> None:
        harness.session.wake_up_timer.pause()
        harness.session.wake_up_timer.reset()
        harness.session.wake_up_timer.resume()

    assert woken(SessionHarness(Agent("Help.")).run(scenario, until=60.0)) == []


def test_the_timer_needs_an_open_session_and_the_callback_does_not() -> None:
    harness = SessionHarness(Agent("Help."))
    unstarted: AgentSession[None] = AgentSession(Agent("Help."), harness.pipeline, wake_up=5)
    with pytest.raises(SessionNotStartedError, match="call start"):
        unstarted.wake_up_timer.pause()
    session = harness.run(until=1.0).session
    with pytest.raises(SessionClosedError):
        session.wake_up_timer.pause()
    session.on_wake_up = None


@pytest.mark.parametrize("wake_up", ["10", True, object()])
def test_a_wake_up_that_means_nothing_is_refused(wake_up: Any) -> None:
    with pytest.raises(ConfigurationError, match="wake_up must be seconds, a WakeUp or None, got"):
        AgentSession(Agent("Help."), SessionHarness(Agent("x")).pipeline, wake_up=wake_up)


def test_waits_and_callbacks_are_checked() -> None:
    pipeline = SessionHarness(Agent("x")).pipeline
    with pytest.raises(ValueError, match="need after > 0"):
        AgentSession(Agent("Help."), pipeline, wake_up=0)
    with pytest.raises(ValueError, match="need away_after > 0"):
        SessionOptions(away_after=0)
    session: AgentSession[None] = AgentSession(Agent("Help."), pipeline)
    with pytest.raises(ConfigurationError, match="need on_wake_up as a function or None, got 'ask'"):
        session.on_wake_up = "ask"  # type: ignore[assignment]  # what the check is for


def test_a_voice_that_hangs_at_a_wake_up_ends_within_its_limit() -> None:
    agent = Asking()
    harness = SessionHarness(agent, tts=ScriptedTTS(first_byte=HANG), wake_up=10)
    harness.run(until=20.0)
    assert agent.done == [15.0]
    harness.expect_outcomes("failed")
