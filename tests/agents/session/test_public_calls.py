"""Every public call refuses wrong arguments at once, and the session answers the next turn."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.kinds import BAD, FLAGS, FUNCTIONS, TEXTS, Hostile, OwnText, refuses
from kit.realtime import realtime_of
from vivavoce.agents import (
    Agent,
    AgentSession,
    CompletedTurn,
    ConversationFlow,
    SessionOptions,
    function_tool,
)
from vivavoce.agents.events import ErrorOccurred, Started
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, ToolCall
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.core.errors import ConfigurationError, SessionError
from vivavoce.pipelines.testing import ScriptedTTS

Call = Callable[[AgentSession[Any], Any], Any]


CALLS: dict[str, tuple[Call, set[str]]] = {
    "say(text)": (lambda s, v: s.say(v), TEXTS),
    "say(audio)": (lambda s, v: s.say("One.", audio=v), {"None"}),
    "say(interruptible)": (lambda s, v: s.say("One.", interruptible=v), FLAGS),
    "say(add_to_history)": (lambda s, v: s.say("One.", add_to_history=v), FLAGS),
    "say(priority)": (lambda s, v: s.say("One.", priority=v), {"number"}),
    "say(when_busy)": (lambda s, v: s.say("One.", when_busy=v), set()),
    "reply(instructions)": (lambda s, v: s.reply(v), TEXTS),
    "reply(wait_for_playback)": (lambda s, v: s.reply("Say one.", v), FLAGS),
    "reply(frames)": (lambda s, v: s.reply("Say one.", frames=v), {"None", "empty list"}),
    "reply(tool_choice)": (lambda s, v: s.reply("Say one.", tool_choice=v), {"None"}),
    "reply(priority)": (lambda s, v: s.reply("Say one.", priority=v), {"number"}),
    "reply(when_busy)": (lambda s, v: s.reply("Say one.", when_busy=v), {"None"}),
    "interrupt(force)": (lambda s, v: s.interrupt(force=v), FLAGS),
    "close(reason)": (lambda s, v: s.close(v), set()),
    "update_agent": (lambda s, v: s.update_agent(v), set()),
    "update_pipeline": (lambda s, v: s.update_pipeline(v), set()),
    "update_pipeline(within)": (
        lambda s, v: s.update_pipeline(CascadingPipeline(tts=ScriptedTTS()), within=v),
        {"number", "infinite"},
    ),
    "update_flow": (lambda s, v: s.update_flow(v), {"None"}),
    "play_background_audio": (lambda s, v: s.play_background_audio(v), set()),
    "on(event)": (lambda s, v: s.on(v, print), set()),
    "on(handler)": (lambda s, v: s.on("turn_completed", v), FUNCTIONS | {"None"}),
    "once(event)": (lambda s, v: s.once(v, print), set()),
    "once(handler)": (lambda s, v: s.once(Started, v), FUNCTIONS | {"None"}),
    "off(event)": (lambda s, v: s.off(v, print), set()),
    "off(handler)": (lambda s, v: s.off(Started, v), FUNCTIONS),
    "input.text": (lambda s, v: s.input.text(v), TEXTS),
    "input.mute": (lambda s, v: s.input.mute(v), FLAGS),
    "on_wake_up": (lambda s, v: setattr(s, "on_wake_up", v), {"None"} | FUNCTIONS),
    "history.add_message(role)": (lambda s, v: s.history.add_message(v, "One."), set()),
    "history.add_message(text)": (lambda s, v: s.history.add_message("user", v), {"text"}),
    "history.add_message(images)": (lambda s, v: s.history.add_message("user", "One.", images=v), {"empty list"}),
    "history.add_message(speaker)": (lambda s, v: s.history.add_message("user", "One.", speaker=v), TEXTS),
    "history.add_message(interrupted)": (lambda s, v: s.history.add_message("user", "x", interrupted=v), FLAGS),
    "history.remove": (lambda s, v: s.history.remove(v), set()),
    "history.replace_text": (lambda s, v: s.history.replace_text(v, "One."), set()),
    "recording.start(path)": (lambda s, v: s.recording.start(v), {"None", *TEXTS}),
    "agent.instructions": (lambda s, v: setattr(s.agent, "instructions", v), TEXTS),
    "agent.update_instructions": (lambda s, v: s.agent.update_instructions(v), TEXTS),
    "agent.update_tools": (lambda s, v: s.agent.update_tools(v), {"empty list"}),
    "handle.interrupt(force)": (lambda s, v: s.say("One.").interrupt(force=v), FLAGS),
    "handle.add_done_callback": (lambda s, v: s.say("One.").add_done_callback(v), FUNCTIONS),
}
"""A public call of a running session -> the call with one argument from the test, and the accepted kinds."""


async def still_answers(harness: SessionHarness) -> None:
    session = harness.session
    session.history.add_message("user", "(now)")
    session.input.text("Are you there?")
    await harness.until(harness.now + 10.0)
    asked = harness.messages.index(("user", "Are you there?"))
    assert ("assistant", "Fine.") in harness.messages[asked:]
    assert session.agent_state.value in ("idle", "speaking", "listening")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings without a path go into the working directory."""
    monkeypatch.chdir(tmp_path)


PIPELINES: dict[str, Any] = {"cascading": None, "realtime": realtime_of}


@pytest.fixture(params=list(PIPELINES))
def harness(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SessionHarness:
    if PIPELINES[request.param] is not None:
        monkeypatch.setattr(SessionHarness, "pipeline_of", staticmethod(PIPELINES[request.param]))
    return SessionHarness(Agent("Help."), ScriptedLLM(default="Fine."))


@pytest.mark.parametrize("name", CALLS)
def test_a_call_refuses_every_argument_of_another_kind_and_the_session_answers_on(
    name: str, harness: SessionHarness
) -> None:
    call, taken = CALLS[name]

    async def scenario(harness: SessionHarness) -> None:
        for make in (make for kind, make in BAD.items() if kind not in taken):
            await refuses(partial(call, harness.session, make()))
        await still_answers(harness)

    harness.run(scenario)
    assert harness.close_report is not None
    assert (harness.close_report.reason, harness.close_report.is_clean) == ("user_initiated", True)


def test_texts_of_a_class_of_one_s_own_are_taken_as_plain_texts(harness: SessionHarness) -> None:
    async def scenario(harness: SessionHarness) -> None:
        await harness.session.say(OwnText("One."))
        await harness.session.reply(OwnText("Say two."))
        harness.session.history.add_message("user", OwnText("Three."))
        harness.session.input.text(OwnText("Four."))
        await harness.until(harness.now + 5.0)
        await still_answers(harness)

    harness.run(scenario)
    assert [type(text) for _, text in harness.messages] == [str] * len(harness.messages)


def test_a_transport_s_text_of_another_kind_is_an_error_event_and_the_next_text_is_answered(
    harness: SessionHarness,
) -> None:
    async def scenario(harness: SessionHarness) -> None:
        for make in (make for kind, make in BAD.items() if kind not in TEXTS):
            harness.room.send_text(make())
            await harness.until(harness.now + 0.1)
        harness.room.send_text("Hello?")
        await harness.until(harness.now + 5.0)
        await still_answers(harness)

    harness.expects_error("room", contains="need TransportEvents.text(text) as a str, got").run(scenario)
    assert len(harness.recording.of(ErrorOccurred)) == len(BAD) - len(TEXTS)
    assert ("user", "Hello?") in harness.messages


async def wrong_pieces() -> AsyncIterator[Any]:
    yield "One. "
    yield b"two"


async def failing_pieces() -> AsyncIterator[str]:
    yield "One. "
    raise RuntimeError("no more")


@pytest.mark.parametrize("pieces", [wrong_pieces, failing_pieces])
def test_a_stream_of_text_that_goes_wrong_fails_its_speech_and_nothing_else(
    pieces: Callable[[], AsyncIterator[str]], harness: SessionHarness
) -> None:
    async def scenario(harness: SessionHarness) -> None:
        handle = harness.session.say(pieces())
        await handle
        assert handle.outcome == "failed"
        await still_answers(harness)

    harness.run(scenario)


class Unlucky(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Clumsy(Agent):
    """Its hooks are not async, or fail in the oddest ways."""

    def on_exit(self) -> None:  # type: ignore[override]
        return None

    def cleanup(self) -> None:  # type: ignore[override]
        return None

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        turn.text = b"words"  # type: ignore[assignment]


def test_a_hook_that_is_not_async_or_leaves_nonsense_is_an_error_and_the_turn_is_answered(
    harness: SessionHarness,
) -> None:
    harness.agent = Clumsy("Help.")
    harness.expects_error("hook", contains="need turn.text as a str, got b'words'").run(still_answers)
    assert harness.close_report is not None
    errors = {step.name: step.error for step in harness.close_report.steps if step.error}
    assert set(errors) == {"on_exit", "agent cleanup"}
    assert all("must be async, got a function that returned None" in error for error in errors.values())


def test_a_start_whose_on_enter_is_not_async_says_so(harness: SessionHarness) -> None:
    class Eager(Agent):
        def on_enter(self) -> None:  # type: ignore[override]
            return None

    harness.agent = Eager("Help.")
    with pytest.raises(ConfigurationError, match="on_enter must be async, got a function that returned None"):
        harness.run()


class Flow(ConversationFlow):
    """Answers once, independent of its parts."""

    def __init__(self, run: Callable[[str], Any]) -> None:
        self._run = run
        self._turns = 0

    def run(self, transcript: str) -> Any:
        self._turns += 1
        return self._run(transcript) if self._turns == 1 else self._fine()

    async def _fine(self) -> AsyncIterator[str]:
        yield "Fine."

    def on_turn_start(self, transcript: str) -> None:  # type: ignore[override]
        return None

    async def on_turn_end(self) -> None:
        raise Unlucky


@pytest.mark.parametrize("result", [None, "text", 5, ["a"], Hostile(), wrong_pieces, failing_pieces])
def test_a_flow_that_returns_nonsense_fails_its_turn_and_the_next_one_is_answered(result: Any) -> None:
    flow = Flow(lambda transcript: result() if inspect.isfunction(result) else result)
    harness = SessionHarness(Agent("Help."), ScriptedLLM())

    async def scenario(harness: SessionHarness) -> None:
        harness.session.update_flow(flow)
        harness.session.input.text("First.")
        await harness.until(5.0)
        await still_answers(harness)

    harness.expects_error().run(scenario)
    assert [turn.outcome for turn in harness.session.turns] == ["failed", "completed"]


async def coroutine() -> str:
    return "never awaited"


RESULTS: dict[str, Callable[[], Any]] = {
    "object": object,
    "hostile": Hostile,
    "endless iterator": itertools.count,
    "endless generator": lambda: (number for number in itertools.count()),
    "coroutine": coroutine,
    "NaN": lambda: math.nan,
    "own text": lambda: OwnText("words"),
    "bytes": lambda: b"\xff\xfe",
    "set": lambda: {1, 2},
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_tool_may_return_anything_and_its_call_is_answered(name: str) -> None:

    @function_tool
    async def odd() -> Any:
        "Odd."
        return RESULTS[name]()

    llm = ScriptedLLM([ToolCall(call_id="1", name="odd", arguments="{}")], "Well.", default="Fine.")
    harness = SessionHarness(Agent("Help.", tools=[odd]), llm)

    async def scenario(harness: SessionHarness) -> None:
        harness.session.input.text("First.")
        await harness.until(5.0)
        await still_answers(harness)

    if name not in ("NaN", "own text", "set"):
        harness.expects_error("tool")
    harness.run(scenario)
    assert len(harness.tools) == 1


def test_an_error_whose_text_cannot_be_read_fails_its_tool_and_nothing_else() -> None:
    @function_tool
    async def odd() -> str:
        "Odd."
        raise Unlucky

    llm = ScriptedLLM([ToolCall(call_id="1", name="odd", arguments="{}")], "Well.", default="Fine.")
    harness = SessionHarness(Agent("Help.", tools=[odd]), llm)

    async def scenario(harness: SessionHarness) -> None:
        harness.session.input.text("First.")
        await harness.until(5.0)
        await still_answers(harness)

    harness.expects_error("tool").run(scenario).expect_tools(("odd", "The tool failed (Unlucky)."))


ODD: dict[str, Callable[[], Any]] = {
    "own text": lambda: OwnText("x"),
    "hostile": Hostile,
    "object": object,
    "function": lambda: print,
    "options": SessionOptions,
}
"""Made at their use: the functions that draw and show random values would call their methods."""

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.binary(max_size=4),
    st.text(max_size=8),
    st.lists(st.integers(), max_size=2),
    st.sampled_from(sorted(ODD)).map(lambda name: ("odd", name)),
)


UNCHECKED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
"""A busy machine is slow; the fixtures give each example a place of its own."""


@settings(max_examples=30, deadline=None, suppress_health_check=UNCHECKED)
@given(calls=st.lists(st.tuples(st.sampled_from(sorted(set(CALLS) - {"close(reason)"})), VALUES), max_size=8))
def test_no_row_of_random_calls_ends_the_session(calls: list[tuple[str, Any]]) -> None:
    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        for name, drawn in calls:
            value = ODD[drawn[1]]() if isinstance(drawn, tuple) else drawn
            try:
                result = CALLS[name][0](session, value)
                if inspect.iscoroutine(result):
                    await result
            except (ConfigurationError, SessionError):
                continue
        session.input.mute(False)
        await harness.until(harness.now + 10.0)
        session.input.text("Are you there?")
        await harness.until(harness.now + 10.0)
        assert ("user", "Are you there?") in harness.messages
        assert session.agent_state.value == "idle"
        last = session.say("Yes.")
        await last
        assert last.outcome == "completed"

    harness = SessionHarness(Agent("Help."), ScriptedLLM(default="Fine.")).run(scenario)
    assert harness.close_report is not None
    assert harness.close_report.reason == "user_initiated"
