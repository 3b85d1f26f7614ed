"""Spans of a call: the tree, its times and its attributes, for both kinds of pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode

from kit.telemetry import Watching, seconds_of
from vivavoce.agents import Agent, CompletedTurn, SessionOptions
from vivavoce.agents.telemetry.destination import job_telemetry
from vivavoce.agents.telemetry.options import TelemetryOptions
from vivavoce.agents.telemetry.telemetry import TelemetryControl
from vivavoce.agents.testing import (
    ScriptedLLM,
    ScriptedRealtimeModel,
    ScriptedTTS,
    ScriptedTTSOptions,
    SessionHarness,
)
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities

ANSWER = "Sure, I can help you with that right away, madam."

Make = Callable[..., SessionHarness]
Times = list[tuple[str, tuple[float, float]]]


def cascading(watching: Watching, *more: str) -> SessionHarness:
    tts = ScriptedTTS(first_byte=0.2, options=ScriptedTTSOptions(duration=2.0))
    options = SessionOptions(telemetry=watching.telemetry)
    return SessionHarness(Agent("Be nice."), ScriptedLLM([0.1, ANSWER], *more), tts=tts, options=options)


def realtime(watching: Watching, *more: str) -> SessionHarness:
    capabilities = RealtimeCapabilities(turn_detection=frozenset({"local"}))
    model = ScriptedRealtimeModel([0.3, ANSWER], *more, capabilities=capabilities)
    return SessionHarness(Agent("Be nice."), model=model, options=SessionOptions(telemetry=watching.telemetry))


@pytest.mark.parametrize(
    ("make", "answer"),
    [
        (cascading, [("chat", (2.9, 3.0)), ("tts", (3.0, 3.2)), ("playout", (3.2, 5.2))]),
        (realtime, [("chat", (2.9, 3.2)), ("playout", (3.2, 5.2))]),
    ],
)
def test_a_plain_turn_is_a_tree_with_the_scenarios_times(make: Make, answer: Times) -> None:
    watching = Watching()
    harness = make(watching)
    harness.pipeline.prepare()  # the step begins no thread then, and ends first
    harness.caller.says("hello there", 0.5, 2.5, final_at=2.7)
    harness.run(until=6.0)
    watching.check()
    session = watching.one("session")
    assert watching.tree(session) == [
        "session",
        "room participant_linked",
        ["session_start", "mcp", "prepare", "connect", "pipeline", "room audio", "on_enter"],
        ["turn", "user_speech", "stt", "end_of_turn", *(name for name, _ in answer)],
        ["session_close", "input", "speech", "tools", "on_exit", "pipeline", "agent cleanup", "handlers", "room audio"],
    ]
    assert seconds_of(session) == (0.0, 6.0)
    turn = watching.one("turn")
    assert seconds_of(turn) == (0.5, 5.2)
    heard = [("user_speech", (0.5, 2.5)), ("stt", (0.5, 2.7)), ("end_of_turn", (2.5, 2.9))]
    assert [(span.name, seconds_of(span)) for span in watching.children(turn)] == [*heard, *answer]


@pytest.mark.parametrize("make", [cascading, realtime])
def test_the_session_span_of_a_start_that_failed_has_the_status_error_and_names_the_error(make: Make) -> None:
    class Broken(Agent):
        async def on_enter(self) -> None:
            raise LookupError("no greeting")

    watching = Watching()
    harness = make(watching)
    harness.agent = Broken("Be nice.")
    with pytest.raises(LookupError):
        harness.run()
    watching.check()
    session = watching.one("session")
    assert session.status.status_code is StatusCode.ERROR
    assert session.status.description == "no greeting"
    assert (session.attributes or {})["error.type"] == "LookupError"


def test_the_session_span_of_a_close_that_was_asked_for_has_no_status() -> None:
    watching = Watching()
    cascading(watching).run(until=1.0)
    assert watching.one("session").status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("make", [cascading, realtime])
def test_an_interruption_names_what_cut_the_agent_as_its_record_does(make: Make) -> None:
    watching = Watching()
    harness = make(watching, "For how many?")
    harness.caller.says("hello there", 0.5, 2.5, final_at=2.7)
    harness.caller.types("stop, a table please", 4.0)
    harness.run(until=9.0)
    watching.check()
    (cut,) = [turn for turn in harness.session.turns if turn.interruptions]
    assert [each.by for each in cut.interruptions] == ["text"]
    assert (watching.one("interruption").attributes or {})["vivavoce.interruption.by"] == "text"


@pytest.mark.parametrize("make", [cascading, realtime])
def test_a_turns_record_names_the_trace_that_its_span_is_in(make: Make) -> None:
    watching = Watching()
    harness = make(watching)
    harness.caller.says("hello there", 0.5, 2.5, final_at=2.7)
    harness.run(until=6.0)
    (record,) = harness.session.turns
    assert record.trace_id == f"{watching.one('turn').context.trace_id:032x}"


def test_a_turn_of_a_call_that_is_not_sampled_names_no_trace() -> None:
    tracers = TracerProvider(ALWAYS_OFF, shutdown_on_exit=False)
    options = SessionOptions(telemetry=TelemetryOptions(tracer_provider=tracers))
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Hi."), options=options)
    harness.caller.says("hello", 0.5, 1.0)
    harness.run(until=4.0)
    assert [record.trace_id for record in harness.session.turns] == [""]


class _Broken(SpanProcessor):
    """As a processor of an application's that has a bug."""

    def __init__(self, at: str) -> None:
        self._at = at

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if self._at == "start":
            raise RuntimeError("no disk")

    def on_end(self, span: ReadableSpan) -> None:
        if self._at == "end":
            raise RuntimeError("no disk")


class _Begun(SpanProcessor):
    """Notes the moments at which spans of turns are made, which takes a part of a millisecond."""

    def __init__(self) -> None:
        self.moments: list[float] = []

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if span.name == "turn":
            self.moments.append(anyio.current_time())


def test_the_span_of_a_turn_is_made_while_the_user_pauses_and_not_while_the_answer_is_waited_for() -> None:
    watching, begun = Watching(), _Begun()
    watching.tracers.add_span_processor(begun)
    harness = cascading(watching)
    harness.caller.says("hello there", 0.5, 2.5, final_at=2.7)
    harness.run(until=6.0)
    assert begun.moments == [pytest.approx(2.7)]  # the VAD is sure of the pause by then; the turn is over at 2.9
    assert seconds_of(watching.one("turn")) == (0.5, 5.2)


@pytest.mark.parametrize("at", ["start", "end"])
def test_a_processor_of_the_applications_that_raises_costs_its_spans_and_not_the_call(
    at: str, caplog: pytest.LogCaptureFixture
) -> None:
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(_Broken(at))
    token = job_telemetry.set(TelemetryControl(TelemetryOptions(tracer_provider=tracers)))
    try:
        harness = SessionHarness(Agent("Help."), ScriptedLLM("Hi."))
        harness.caller.says("hello", 0.5, 1.0)
        harness.run(until=6.0)
    finally:
        job_telemetry.reset(token)
    assert harness.close_report is not None
    assert harness.close_report.reason == "user_initiated"
    harness.expect_outcomes("completed")
    assert len([record for record in caplog.records if "tracer provider raised" in record.getMessage()]) == 1


def test_words_that_come_before_the_voice_is_sure_belong_to_the_speech_that_it_then_reports() -> None:
    watching = Watching()
    harness = cascading(watching)
    harness.caller.says("hello", 0.5, 0.9, final_at=1.2, interims=[(0.52, "hel")])
    harness.run(until=6.0)
    watching.check()
    turn = watching.one("turn")
    assert seconds_of(turn)[0] == 0.5
    assert seconds_of(watching.one("user_speech")) == (0.5, 0.9)
    assert seconds_of(watching.one("stt")) == (0.5, 1.2)


def test_an_answer_begun_ahead_whose_voice_closes_slowly_outlives_its_turn_and_says_so() -> None:
    watching = Watching()
    voice = ScriptedTTSOptions(duration=2.0, chunk_interval=0.1, close_delay=0.7)
    harness = SessionHarness(
        Agent("Be nice."),
        ScriptedLLM(ANSWER),
        tts=ScriptedTTS(first_byte=0.2, options=voice),
        options=SessionOptions(telemetry=watching.telemetry, preemptive_tts=True),
    )
    harness.preemptive = True
    harness.caller.says("hello there", 0.5, 2.5, final_at=2.7)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.5)
        await harness.session.interrupt()

    harness.run(scenario, until=6.0)
    watching.check()
    attempt, turn = watching.one("attempt"), watching.one("turn")
    assert seconds_of(turn) == (0.5, 3.5)
    assert seconds_of(attempt)[1] == 4.2
    assert (attempt.attributes or {})["vivavoce.outcome"] == "cancelled"


def test_a_hook_that_fails_or_takes_too_long_is_marked_so_and_its_turn_is_answered() -> None:
    class Hooked(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            if turn.text == "break":
                raise LookupError(turn.text)
            await anyio.sleep(60)

    watching = Watching()
    options = SessionOptions(telemetry=watching.telemetry)
    harness = SessionHarness(Hooked("x"), ScriptedLLM("One.", "Two."), options=options)
    harness.caller.says("break", 0.5, 1.5)
    harness.caller.says("hang", 6.0, 7.0)
    harness.expects_error("hook").run(until=20.0)
    watching.check()
    hooks = [hook for hook in watching.of("hook") if hook.name == "on_user_turn_completed"]
    assert [(hook.attributes or {}).get("error.type") for hook in hooks] == ["LookupError", "TimeoutError"]
    assert {hook.status.status_code for hook in hooks} == {StatusCode.ERROR}
    assert [turn.outcome for turn in harness.session.turns] == ["completed", "completed"]


def test_an_on_wake_up_that_the_close_cuts_has_the_outcome_cancelled() -> None:
    watching = Watching()
    harness = SessionHarness(Agent("Help."), wake_up=5, options=SessionOptions(telemetry=watching.telemetry))

    async def scenario(harness: SessionHarness) -> None:
        harness.session.on_wake_up = lambda: anyio.sleep(60.0)
        await harness.until(6.0)

    harness.run(scenario)
    assert (watching.one("wake_up").attributes or {})["vivavoce.outcome"] == "cancelled"
