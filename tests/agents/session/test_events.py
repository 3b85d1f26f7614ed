"""Events: frozen, ordered, emitted after their step's effects; handlers that raise, wait or observe audio."""

from __future__ import annotations

import dataclasses
import logging
from functools import partial
from typing import Any

import anyio
import pytest

from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.events import (
    AgentStateChanged,
    ErrorOccurred,
    HistoryItemAdded,
    SessionEvent,
    SpeechIn,
    SpeechOut,
    Started,
    TurnCompleted,
    UserTranscript,
)
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.media.frame import AudioFrame


def talk() -> SessionHarness:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Hi there.", delay=0.1))
    harness.caller.says("hello", 0.5, 1.5)  # committed at 1.9, heard from 2.2 to 2.6
    return harness


def test_events_are_frozen_numbered_in_order_and_dated_from_the_start() -> None:
    harness = talk().run(until=4.0)
    events = harness.recording.events
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    with pytest.raises(dataclasses.FrozenInstanceError):
        events[0].at = 5.0  # type: ignore[misc]
    assert [event.name for event in events if event.name != "history_item_added"] == [
        "agent_state_changed",
        "agent_state_changed",
        "started",
        "agent_state_changed",
        "user_state_changed",
        "user_state_changed",
        "user_transcript",
        "speech_created",
        "agent_state_changed",
        "agent_state_changed",
        "user_state_changed",
        "agent_state_changed",
        "user_state_changed",
        "turn_completed",
        "agent_state_changed",
        "agent_state_changed",
        "closed",
    ]
    (transcript,) = harness.recording.of(UserTranscript)
    (turn,) = harness.recording.of(TurnCompleted)
    assert transcript.turn_id == turn.turn_id == harness.session.history.messages()[0].turn_id


def session_of_events() -> AgentSession[None]:
    return AgentSession(Agent("Help."), CascadingPipeline(tts=ScriptedTTS()))


def test_an_event_is_told_when_its_whole_step_is_done() -> None:
    harness = talk()
    seen: list[tuple[str, int]] = []

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        session.on(
            AgentStateChanged, lambda event: seen.append((session.agent_state.value, len(session.history.items)))
        )

    harness.run(scenario, until=4.0)
    assert seen[:4] == [("listening", 0), ("thinking", 1), ("speaking", 1), ("idle", 2)]


def test_a_raising_handler_becomes_one_error_event_and_harms_nobody() -> None:
    harness = talk()
    heard: list[SessionEvent] = []

    async def scenario(harness: SessionHarness) -> None:
        def broken(event: SessionEvent) -> None:
            raise ZeroDivisionError("mine")

        harness.session.on("user_transcript", broken)
        harness.session.on("user_transcript", heard.append)

    harness.expects_error("handler").run(scenario, until=4.0).expect_outcomes("completed")
    (error,) = harness.recording.of(ErrorOccurred)
    assert (error.source, type(error.error)) == ("handler", ZeroDivisionError)
    assert len(heard) == 1


def test_a_misspelt_event_is_refused_with_the_name_that_is_meant() -> None:
    with pytest.raises(ConfigurationError, match="no event 'user_transcripts'; did you mean 'user_transcript'"):
        session_of_events().on("user_transcripts", print)
    with pytest.raises(ConfigurationError, match="no event 'zzz'; events: agent_changed, "):
        session_of_events().on("zzz", print)


def test_a_handler_that_cannot_take_an_event_is_refused_with_its_own_line() -> None:
    def show(event: SessionEvent, more: str) -> None:
        raise AssertionError(event, more)

    async def nothing() -> None:
        raise AssertionError

    line = show.__code__.co_firstlineno
    with pytest.raises(ConfigurationError, match=rf"only argument, got .*show.*test_events.py:{line}\) .*'more'"):
        session_of_events().on("started", show)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="too many positional arguments; let it take one"):
        session_of_events().once("started")(nothing)  # type: ignore[arg-type]
    heard: list[SessionEvent] = []
    session_of_events().on("started", heard.append)
    session_of_events().on("started", lambda *events: None)
    session_of_events().on("started", partial(show, more="x"))


def test_a_raising_error_handler_makes_no_second_error(caplog: pytest.LogCaptureFixture) -> None:
    harness = talk()
    told: list[SessionEvent] = []

    async def scenario(harness: SessionHarness) -> None:
        def broken(event: SessionEvent) -> None:
            told.append(event)
            raise ZeroDivisionError("mine")

        harness.session.on("error", broken)
        harness.session.on("user_transcript", broken)

    with caplog.at_level(logging.WARNING, logger="vivavoce.agents"):
        harness.expects_error("handler").run(scenario, until=4.0)
    assert [event.name for event in told] == ["user_transcript", "error"]
    assert len(harness.recording.of(ErrorOccurred)) == 1
    assert caplog.text.count("A handler of") == 2


def test_async_handlers_get_their_events_in_order_one_at_a_time() -> None:
    harness = talk()
    slow: list[str] = []
    quick: list[float] = []

    async def scenario(harness: SessionHarness) -> None:
        async def slowly(event: AgentStateChanged) -> None:
            await anyio.sleep(1.0 if event.state == "listening" else 0.0)
            slow.append(event.state.value)

        async def quickly(event: AgentStateChanged) -> None:
            quick.append(round(harness.now, 6))

        harness.session.on(AgentStateChanged, slowly)
        harness.session.on(AgentStateChanged, quickly)
        await harness.until(4.0)
        assert slow == ["listening", "thinking", "speaking", "idle"]
        assert quick == [0.56, 1.9, 2.2, 2.6]

    harness.run(scenario)


def test_an_async_handler_that_hangs_or_raises_is_one_error() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Hi there."), options=SessionOptions(callback_timeout=1.0))
    harness.caller.says("hello", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        async def hangs(event: SessionEvent) -> None:
            await anyio.sleep_forever()

        async def raises(event: SessionEvent) -> None:
            raise ZeroDivisionError("mine")

        harness.session.on("user_transcript", hangs)
        harness.session.on("turn_completed", raises)

    harness.expects_error("handler").run(scenario, until=6.0).expect_outcomes("completed")
    assert sorted(type(event.error).__name__ for event in harness.recording.of(ErrorOccurred)) == [
        "TimeoutError",
        "ZeroDivisionError",
    ]


def test_a_handler_may_call_the_session() -> None:
    harness = talk()

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session

        def greet(event: TurnCompleted) -> None:
            if event.record.kind == "turn":
                _ = session.say("Anything else?")

        session.on(TurnCompleted, greet)

    harness.run(scenario, until=6.0)
    harness.expect_history(("user", "hello"), ("assistant", "Hi there."), ("assistant", "Anything else?"))


def test_an_unknown_event_and_a_handler_given_twice_are_refused() -> None:
    async def scenario(harness: SessionHarness) -> None:
        with pytest.raises(ConfigurationError, match="user_transcript"):
            harness.session.on("user_transcripts", print)
        with pytest.raises(ConfigurationError):

            @harness.session.on("nothing")
            def handler(event: Any) -> None: ...

        harness.session.on("closed", print)
        with pytest.raises(ConfigurationError, match="off"):
            harness.session.on("closed", print)
        harness.session.off("closed", print)
        harness.session.off("closed", print)

    SessionHarness(Agent("x")).run(scenario)


def test_once_and_the_decorator_and_off_do_as_they_say() -> None:
    harness = talk()
    first: list[str] = []
    every: list[str] = []
    none: list[str] = []

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        session.once("history_item_added", lambda event: first.append(event.item.content))

        @session.on(HistoryItemAdded)
        def note(event: HistoryItemAdded) -> None:
            every.append(event.item.content)  # type: ignore[union-attr]  # messages only here

        def never(event: SessionEvent) -> None:
            none.append(event.name)

        session.on(HistoryItemAdded, never)
        session.off(HistoryItemAdded, never)

    harness.run(scenario, until=4.0)
    assert first == ["hello"]
    assert every == ["hello", "Hi there."]
    assert none == []


class Ears(Agent):
    def __init__(self) -> None:
        super().__init__("Listen.")
        self.heard = 0.0
        self.spoken = 0.0

    def on_speech_in(self, frame: AudioFrame) -> None:
        self.heard += frame.duration

    def on_speech_out(self, frame: AudioFrame) -> None:
        self.spoken += frame.duration


def test_audio_is_observed_by_the_agents_hooks_and_by_handlers() -> None:
    agent = Ears()
    harness = SessionHarness(agent, ScriptedLLM("Hi there.", delay=0.1))
    harness.caller.says("hello", 0.5, 1.5)
    heard: list[float] = []
    spoken: list[float] = []

    async def scenario(harness: SessionHarness) -> None:
        harness.session.on(SpeechIn, lambda event: heard.append(event.frame.duration))
        harness.session.on(SpeechOut, lambda event: spoken.append(event.frame.duration))

    harness.run(scenario, until=4.0)
    assert sum(heard) == pytest.approx(4.0, abs=0.021)
    assert agent.heard == pytest.approx(4.0, abs=0.021)
    assert sum(spoken) == pytest.approx(0.4)
    assert agent.spoken == pytest.approx(0.4)


def test_an_audio_observer_that_raises_is_an_error_and_the_call_goes_on() -> None:
    harness = talk()

    async def scenario(harness: SessionHarness) -> None:
        def broken(event: SpeechOut) -> None:
            harness.session.off(SpeechOut, broken)
            raise ZeroDivisionError("mine")

        harness.session.on(SpeechOut, broken)

    harness.expects_error("handler").run(scenario, until=4.0).expect_outcomes("completed").expect_played((2.2, 0.4))
    assert [event.source for event in harness.recording.of(ErrorOccurred)] == ["handler"]


def test_a_handler_that_raises_at_each_frame_is_one_error_event_and_counted_in_the_report() -> None:
    harness = talk()

    async def scenario(harness: SessionHarness) -> None:
        def broken(event: SpeechIn) -> None:
            raise ZeroDivisionError("mine")

        def other(event: SpeechIn) -> None:
            raise ValueError("mine too")

        harness.session.on(SpeechIn, broken)
        harness.session.on(SpeechIn, other)

    harness.expects_error("handler").run(scenario, until=4.0).expect_outcomes("completed")
    assert [type(event.error) for event in harness.recording.of(ErrorOccurred)] == [ZeroDivisionError, ValueError]
    errors = harness.session.report().errors
    assert [(error.source, error.error) for error in errors] == [
        ("handler", "ZeroDivisionError"),
        ("handler", "ValueError"),
    ]
    assert all(error.times == pytest.approx(200, abs=2) for error in errors)


def test_an_audio_hook_of_the_agent_that_raises_is_called_on_and_counted() -> None:
    class Broken(Agent):
        def on_speech_out(self, frame: AudioFrame) -> None:
            raise ZeroDivisionError("mine")

    harness = SessionHarness(Broken("x"), ScriptedLLM("Hi there.", delay=0.1))
    harness.caller.says("hello", 0.5, 1.5)
    harness.expects_error("hook").run(until=4.0).expect_outcomes("completed")
    (error,) = harness.session.report().errors
    assert (error.source, error.times) == ("hook", 20)  # 0.4 s of speech


def test_a_handler_may_return_a_speech_which_nobody_has_to_await() -> None:
    harness = talk()

    async def scenario(harness: SessionHarness) -> None:
        harness.session.once(TurnCompleted, lambda event: harness.session.say("Anything else?"))

    harness.run(scenario, until=6.0)
    assert harness.messages[-1] == ("assistant", "Anything else?")
    assert harness.recording.of(ErrorOccurred) == []


def test_a_coroutine_from_a_handler_that_is_no_async_function_is_an_error() -> None:
    harness = talk()
    ran: list[SessionEvent] = []

    async def note(event: SessionEvent) -> None:
        ran.append(event)

    async def scenario(harness: SessionHarness) -> None:
        harness.session.on("user_transcript", lambda event: note(event))

    harness.expects_error("handler", contains="give an async function").run(scenario, until=4.0)
    assert ran == []


def test_a_hook_that_raises_on_the_audio_path_is_an_error_and_the_call_goes_on() -> None:
    class Broken(Agent):
        def on_speech_in(self, frame: AudioFrame) -> None:
            raise ZeroDivisionError("mine")

    harness = SessionHarness(Broken("x"), ScriptedLLM("Hi there.", delay=0.1))
    harness.caller.says("hello", 0.5, 1.5)
    harness.expects_error("hook").run(until=4.0).expect_outcomes("completed").expect_played((2.2, 0.4))
    assert {event.source for event in harness.recording.of(ErrorOccurred)} == {"hook"}


def test_started_is_told_before_start_returns() -> None:
    async def scenario(harness: SessionHarness) -> None:
        assert len(harness.recording.of(Started)) == 1

    SessionHarness(Agent("x")).run(scenario)


def test_an_async_handler_of_audio_is_refused() -> None:
    async def observe(event: SessionEvent) -> None: ...

    async def scenario(harness: SessionHarness) -> None:
        for kind in ("on_speech_in", "on_speech_out"):
            with pytest.raises(ConfigurationError, match="must be sync"):
                harness.session.on(kind, observe)

    talk().run(scenario, until=4.0).expect_outcomes("completed").expect_played((2.2, 0.4))


def test_an_async_audio_hook_is_refused_when_the_agent_is_made() -> None:
    class Async(Agent):
        async def on_speech_out(self, frame: AudioFrame) -> None:  # type: ignore[override]
            """Wait on the audio path."""

    with pytest.raises(ConfigurationError, match="on_speech_out is called on the audio path"):
        Async("x")


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
def test_what_user_code_raises_is_told_but_its_text_is_not_logged_above_debug(
    level: int, caplog: pytest.LogCaptureFixture
) -> None:
    class Quoting(Agent):
        def on_speech_in(self, frame: AudioFrame) -> None:
            raise ValueError("pin 4711")

        async def on_exit(self) -> None:
            raise ValueError("pin 4711")

    harness = SessionHarness(Quoting("x"), ScriptedLLM("Hi there."))
    harness.caller.says("hello", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        def broken(event: SessionEvent) -> None:
            raise ValueError("pin 4711")

        harness.session.on("user_transcript", broken)

    with caplog.at_level(level, logger="vivavoce.agents"):
        harness.expects_error("hook").expects_error("handler").run(scenario, until=4.0)
    shown = [record for record in caplog.records if record.levelno > logging.DEBUG]
    assert len([record for record in shown if "ValueError" in record.getMessage()]) == 3
    assert not [record for record in shown if record.exc_info or "4711" in record.getMessage()]
    assert ("4711" in caplog.text) == (level == logging.DEBUG)


def test_a_sync_handler_that_returns_something_to_await_is_an_error() -> None:
    async def show(event: TurnCompleted) -> None:
        raise AssertionError("nobody awaits it")

    async def listen(harness: SessionHarness) -> None:
        harness.session.on(TurnCompleted, lambda event: show(event))

    harness = talk().expects_error("handler").run(listen, until=4.0)
    harness.expect_outcomes("completed")
    errors = harness.recording.of(ErrorOccurred)
    assert [(event.source, "give an async function" in str(event.error)) for event in errors] == [("handler", True)]
