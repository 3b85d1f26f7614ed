"""Content in spans and metrics: none without a request, nothing that `redact` removes."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.trace import StatusCode

from docs import telemetry_reference as reference
from kit.telemetry import Watching
from vivavoce.agents import Agent, AgentSession, SessionOptions, function_tool
from vivavoce.agents.telemetry import Telemetry, TelemetryOptions
from vivavoce.agents.testing import (
    ScriptedLLM,
    ScriptedRealtimeModel,
    ScriptedSTT,
    ScriptedTTS,
    ScriptedVAD,
    SessionHarness,
    VirtualClock,
    run_virtual,
)
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.errors import ProviderStatusError
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities

SECRETS = ["ginger", "saffron", "nutmeg", "cardamom", "turmeric", "cinnamon", "vanilla"]
"""Words of the user, the agent, its instructions, a tool's arguments, its result, its error, a hook's error."""
CALLS = [
    ToolCall(call_id="c1", name="look_up", arguments='{"what": "cardamom"}'),
    ToolCall(call_id="c2", name="break_down", arguments="{}"),
    ToolCall(call_id="c3", name="ginger_please", arguments="{}"),
]


class Cook(Agent):
    async def on_exit(self) -> None:
        raise RuntimeError("".join(["van", "illa"]))  # the line itself is in the stack

    @function_tool
    async def look_up(self, what: str) -> str:
        """Look it up."""
        return "turmeric"

    @function_tool
    async def break_down(self) -> str:
        """Fail."""
        raise ValueError("".join(["cinna", "mon"]))


def cascading() -> Pipeline:
    llm = ScriptedLLM([*CALLS], "Take saffron.")
    return CascadingPipeline(stt=ScriptedSTT(), llm=llm, tts=ScriptedTTS(), vad=ScriptedVAD())


def realtime() -> Pipeline:
    capabilities = RealtimeCapabilities(turn_detection=frozenset({"local"}))
    model = ScriptedRealtimeModel([*CALLS], "Take saffron.", capabilities=capabilities)
    return RealtimePipeline(model, vad=ScriptedVAD())


Make = Callable[[], Pipeline]


def call(make: Make, watching: Watching, *, capture: bool = False) -> None:
    async def main() -> None:
        clock = VirtualClock()
        options = SessionOptions(clock=clock, capture_content=capture, telemetry=watching.telemetry)
        async with AgentSession[None](Cook("Speak of nutmeg."), make(), options=options) as session:
            await session.start(LocalTransport(clock))
            session.input.text("ginger please")
            await anyio.sleep(4.0)

    run_virtual(main())
    watching.check()


def sent_data(watching: Watching) -> str:
    """All data that leaves the process: names, attributes, events and status of spans; names and attributes of
    metrics.
    """
    spans = [
        (
            span.name,
            dict(span.attributes or {}),
            span.status.description,
            [(e.name, dict(e.attributes or {})) for e in span.events],
        )
        for span in watching.spans
    ]
    return repr(spans) + repr(
        [
            (metric.name, [dict(point.attributes or {}) for point in metric.data.data_points])
            for metric in watching.metrics
        ]
    )


@pytest.mark.parametrize("make", [cascading, realtime])
def test_without_capture_content_no_word_of_anybody_is_told(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    watching = Watching()
    with caplog.at_level(logging.INFO):
        call(make, watching)
    assert len(watching.of("tool")) == 3
    assert [word for word in SECRETS if word in sent_data(watching)] == []
    assert [word for word in SECRETS if word in "\n".join(caplog.messages)] == []


@pytest.mark.parametrize("make", [cascading, realtime])
def test_with_capture_content_spans_have_the_words_and_metrics_never(make: Make) -> None:
    watching = Watching()
    call(make, watching, capture=True)
    spans = repr([dict(span.attributes or {}) for span in watching.spans])
    assert [word for word in SECRETS if word not in spans] == ["cinnamon", "vanilla"]
    errors = [event.attributes or {} for span in watching.spans for event in span.events if event.name == "exception"]
    assert {"cinnamon", "vanilla"} <= {error["exception.message"] for error in errors}
    assert {"cinnamon", "vanilla"} <= {span.status.description for span in watching.spans}
    points = repr([[dict(point.attributes or {}) for point in metric.data.data_points] for metric in watching.metrics])
    assert [word for word in SECRETS if word in points] == []


@pytest.mark.parametrize("make", [cascading, realtime])
def test_the_words_are_in_the_attributes_that_the_reference_marks_as_content(make: Make) -> None:
    told_of, kept_back = Watching(), Watching()
    call(make, told_of, capture=True)
    call(make, kept_back)
    holding = {
        name
        for span in told_of.spans
        for name, value in (span.attributes or {}).items()
        if any(word in repr(value) for word in SECRETS) and value != "ginger_please"  # a tool that the model made up
    }
    assert {"gen_ai.system_instructions", "gen_ai.input.messages", "vivavoce.turn.agent_text"} <= holding
    assert holding <= reference.content()
    assert [name for span in kept_back.spans for name in span.attributes or {} if name in reference.content()] == []


@pytest.mark.parametrize("make", [cascading, realtime])
def test_a_tool_that_does_not_exist_has_no_name_of_its_own(make: Make) -> None:
    watching = Watching()
    call(make, watching)
    assert [span.name for span in watching.of("tool")][-1] == "execute_tool _unknown"
    for metric in ("vivavoce.tool.calls", "vivavoce.tool.duration"):
        names = {point.attributes["gen_ai.tool.name"] for point in watching.points(metric)}
        assert names == {"look_up", "break_down", "_unknown"}


@pytest.mark.parametrize("kind", [ValueError, SystemExit, GeneratorExit])
@pytest.mark.parametrize("make", [cascading, realtime])
def test_a_redact_that_raises_keeps_back_what_it_cannot_judge_and_harms_nothing(
    make: Make, kind: type[BaseException]
) -> None:
    def redact(name: str, value: Any) -> Any:
        if name.startswith("gen_ai.tool"):
            raise kind(value)
        return value

    watching = Watching(redact=redact)
    call(make, watching, capture=True)
    for span in watching.of("tool"):
        attributes = dict(span.attributes or {})
        assert "vivavoce.tool.is_error" in attributes
        assert not [name for name in attributes if name.startswith("gen_ai.tool")]


def test_redact_is_asked_for_the_message_of_a_status() -> None:
    asked: list[Any] = []

    def redact(name: str, value: Any) -> Any:
        if name == "error.message":
            asked.append(value)
            return "kept back"
        return value

    watching = Watching(redact=redact)
    llm = ScriptedLLM([ProviderStatusError("no such key sk-1", provider="x", status=401)])
    harness = SessionHarness(Agent("x"), llm, options=SessionOptions(telemetry=watching.telemetry))
    harness.caller.says("hello", 0.5, 1.5)
    harness.run(until=6.0)
    failed = [span for span in watching.spans if span.status.status_code is StatusCode.ERROR]
    assert {span.name for span in failed} >= {"turn", "chat"}
    assert {span.status.description for span in failed} == {"kept back"}
    assert asked


def test_an_error_with_half_a_surrogate_pair_does_not_cost_the_batch() -> None:
    watching = Watching()
    llm = ScriptedLLM([ProviderStatusError("no such key \ud83d", provider="x", status=401)])
    harness = SessionHarness(Agent("x"), llm, options=SessionOptions(telemetry=watching.telemetry))
    harness.caller.says("hello", 0.5, 1.5)
    harness.run(until=6.0)
    (sent,) = encode_spans(watching.spans).resource_spans
    failed = [span for scope in sent.scope_spans for span in scope.spans if span.status.message]
    assert {span.name for span in failed} >= {"turn", "chat"}
    assert all("no such key \ufffd" in span.status.message for span in failed)


@pytest.mark.parametrize(
    ("kind", "is_warned"), [(SimpleSpanProcessor, True), (BatchSpanProcessor, False)], ids=["simple", "batch"]
)
def test_a_provider_that_would_hold_up_the_loop_is_warned_of(
    kind: Callable[[OTLPSpanExporter], Any], is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    tracers = TracerProvider(shutdown_on_exit=False)
    processor = kind(OTLPSpanExporter("http://127.0.0.1:9/v1/traces"))
    tracers.add_span_processor(processor)
    Telemetry(TelemetryOptions(tracer_provider=tracers))
    processor.shutdown()
    assert any("SimpleSpanProcessor" in message for message in caplog.messages) is is_warned


@pytest.mark.parametrize("make", [cascading, realtime])
def test_with_capture_content_each_step_tells_what_the_model_was_asked_and_what_it_answered(make: Make) -> None:
    watching = Watching()
    call(make, watching, capture=True)
    first, second = [span.attributes or {} for span in watching.of("llm")]
    user = {"role": "user", "parts": [{"type": "text", "content": "ginger please"}]}
    calls = [
        {"type": "tool_call", "id": "c1", "name": "look_up", "arguments": {"what": "cardamom"}},
        {"type": "tool_call", "id": "c2", "name": "break_down", "arguments": {}},
        {"type": "tool_call", "id": "c3", "name": "ginger_please", "arguments": {}},
    ]
    assert json.loads(str(first["gen_ai.system_instructions"])) == [{"type": "text", "content": "Speak of nutmeg."}]
    assert json.loads(str(first["gen_ai.input.messages"])) == [user]
    (said,) = json.loads(str(first["gen_ai.output.messages"]))
    assert (said["role"], said["parts"]) == ("assistant", calls)
    messages = json.loads(str(second["gen_ai.input.messages"]))
    assert messages[0] == user
    assert [part for message in messages if message["role"] == "assistant" for part in message["parts"]] == calls
    responses = {part["id"]: part["response"] for m in messages if m["role"] == "tool" for part in m["parts"]}
    assert responses["c1"] == "turmeric"
    assert set(responses) == {"c1", "c2", "c3"}
    assert json.loads(str(second["gen_ai.output.messages"])) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "Take saffron."}], "finish_reason": "stop"}
    ]


@pytest.mark.parametrize("make", [ScriptedLLM, ScriptedRealtimeModel])
def test_arguments_nested_without_end_fail_their_call_and_not_the_turn(make: type[Any]) -> None:
    def pipeline() -> Pipeline:
        script = [ToolCall(call_id="c1", name="look_up", arguments="[" * 100_000)], "Never mind."
        if make is ScriptedLLM:
            return CascadingPipeline(stt=ScriptedSTT(), llm=ScriptedLLM(*script), tts=ScriptedTTS(), vad=ScriptedVAD())
        capabilities = RealtimeCapabilities(turn_detection=frozenset({"local"}))
        return RealtimePipeline(ScriptedRealtimeModel(*script, capabilities=capabilities), vad=ScriptedVAD())

    watching = Watching()
    call(pipeline, watching, capture=True)
    (turn,) = watching.of("turn")
    assert (turn.attributes or {})["vivavoce.turn.outcome"] == "completed"
