"""Metrics: the whole list, with provider and model of their component; sampling and full queues."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
from opentelemetry.trace import use_span

from kit.servers.otlp_endpoint import otlp_endpoint
from kit.telemetry import Watching
from vivavoce.agents import Agent, AgentSession, SessionOptions, function_tool
from vivavoce.agents.job import JobInfo
from vivavoce.agents.telemetry import Telemetry, TelemetryOptions
from vivavoce.agents.telemetry.telemetry import TelemetryControl
from vivavoce.agents.telemetry.tracing.job_span import job_span
from vivavoce.agents.testing import (
    ScriptedLLM,
    ScriptedRealtimeModel,
    ScriptedTTS,
    SessionHarness,
    VirtualClock,
    run_virtual,
)
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.core.errors import ProviderConnectionError
from vivavoce.pipelines.core.incidents import FellBack, dropped_frames, passed_over
from vivavoce.pipelines.llm.base import Usage
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities

LONG = "one two three four five six seven eight nine ten."


class Desk(Agent):
    async def on_enter(self) -> None:
        gone = ProviderConnectionError("gone", provider="first")
        passed_over(FellBack("llm", "first", "m-1", gone, is_reported=True))  # as a provider's fallback
        dropped_frames("room", 3)  # like a sink without a reader
        dropped_frames("stt")

    @function_tool
    async def look_up(self) -> str:
        """Look something up."""
        raise ValueError("broken")


CALL = ToolCall(call_id="c1", name="look_up", arguments="{}")
SCRIPT: list[Any] = [[0.1, CALL, Usage(input_tokens=7, output_tokens=3)], [0.1, LONG], [0.1, LONG]]


def cascading(options: SessionOptions) -> SessionHarness:
    return SessionHarness(Desk("Help."), ScriptedLLM(*SCRIPT), tts=ScriptedTTS(first_byte=0.2), options=options)


def realtime(options: SessionOptions) -> SessionHarness:
    capabilities = RealtimeCapabilities(turn_detection=frozenset({"local"}))
    model = ScriptedRealtimeModel(*SCRIPT, capabilities=capabilities)
    return SessionHarness(Desk("Help."), model=model, options=options)


Make = Callable[[SessionOptions], SessionHarness]
PIPELINES = pytest.mark.parametrize("make", [cascading, realtime])

EVERY = {
    "vivavoce.turn.e2e_latency": 1,
    "vivavoce.turn.stage.duration": 1,
    "gen_ai.client.operation.time_to_first_chunk": 1,
    "gen_ai.client.operation.duration": 1,
    "gen_ai.client.token.usage": 1,
    "vivavoce.interruption.latency": 1,
    "vivavoce.interruptions": 1,
    "vivavoce.tool.duration": 1,
    "vivavoce.tool.calls": 1,
    "vivavoce.session.phase.duration": 1,
    "vivavoce.session.duration": 1,
    "vivavoce.sessions.closed": 1,
    "vivavoce.sessions.active": 1,
    "vivavoce.speeches.open": 1,
    "vivavoce.turns": 1,
    "vivavoce.provider.errors": 0,  # here it is a tool that failed
    "vivavoce.fallbacks": 1,
    "vivavoce.audio.dropped": 1,
    "vivavoce.event_loop.lag": 0,
    "vivavoce.telemetry.waiting": 0,
    "vivavoce.telemetry.dropped": 0,
}
"""Metric -> whether each point of it names a provider."""


def talk(make: Make, watching: Watching) -> SessionHarness:
    harness = make(SessionOptions(telemetry=watching.telemetry))
    harness.caller.says("a table please", 0.5, 1.5)
    harness.caller.says("stop that now please", 3.0, 4.5)
    harness.expects_error("tool").run(until=9.0)
    return harness


@PIPELINES
def test_every_metric_of_the_list_is_there_with_the_provider_of_its_component(make: Make) -> None:
    watching = Watching()
    talk(make, watching)
    missing = [name for name in EVERY if not watching.points(name)]
    assert missing == []
    unnamed = [
        (name, dict(point.attributes))
        for name, is_named in EVERY.items()
        for point in watching.points(name)
        if is_named and not point.attributes.get("gen_ai.provider.name")
    ]
    assert unnamed == []
    assert not {metric.name for metric in watching.metrics} - {*EVERY, *OF_A_VOICE}


OF_A_VOICE = {"vivavoce.tts.first_byte", "vivavoce.speech.seconds", "vivavoce.speech.characters"}


def test_a_voice_has_metrics_of_its_own() -> None:
    watching = Watching()
    talk(cascading, watching)
    for name in OF_A_VOICE:
        assert watching.points(name), name
        assert all(point.attributes["gen_ai.provider.name"] == "scripted" for point in watching.points(name))


@PIPELINES
def test_what_went_wrong_is_counted_where_it_went_wrong(make: Make) -> None:
    watching = Watching()
    talk(make, watching)
    (fallback,) = watching.points("vivavoce.fallbacks")
    assert (fallback.value, dict(fallback.attributes)) == (
        1,
        {
            "gen_ai.provider.name": "first",
            "gen_ai.request.model": "m-1",
            "vivavoce.component": "llm",
            "error.type": "vivavoce.pipelines.core.errors.ProviderConnectionError",
        },
    )
    dropped = {
        point.attributes["vivavoce.component"]: point.value for point in watching.points("vivavoce.audio.dropped")
    }
    assert dropped == {"room": 3, "stt": 1}
    (tool,) = watching.points("vivavoce.tool.calls")
    assert (tool.value, tool.attributes["gen_ai.tool.name"], tool.attributes["error.type"]) == (
        1,
        "look_up",
        "ValueError",
    )
    (closed,) = watching.points("vivavoce.sessions.closed")
    assert (closed.value, closed.attributes["vivavoce.close.reason"]) == (1, "user_initiated")
    steps = {
        (p.attributes["vivavoce.phase"], p.attributes["vivavoce.step"])
        for p in watching.points("vivavoce.session.phase.duration")
    }
    assert steps >= {("start", "all"), ("start", "on_enter"), ("close", "all"), ("close", "pipeline")}
    tokens = {p.attributes["gen_ai.token.type"]: p.sum for p in watching.points("gen_ai.client.token.usage")}
    assert tokens == {"input": 7, "output": 3}
    assert sum(point.value for point in watching.points("vivavoce.sessions.active")) == 0
    assert sum(point.value for point in watching.points("vivavoce.speeches.open")) == 0


def test_speeches_are_counted_while_they_wait_or_speak_and_one_that_is_discarded_is_not() -> None:
    watching, found = Watching(), []
    harness = SessionHarness(Agent("x"), ScriptedLLM(), options=SessionOptions(telemetry=watching.telemetry))

    def look() -> None:
        found.append(sum(point.value for point in watching.points("vivavoce.speeches.open")))

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.reply("")
        look()
        handles = [harness.session.say("One."), harness.session.say("Two.")]
        await anyio.sleep(0.1)
        look()
        for handle in handles:
            await handle
        look()

    harness.run(scenario, until=6.0)
    assert found == [0, 2, 0]
    (reply,) = watching.of("reply")
    assert (reply.attributes or {})["vivavoce.turn.outcome"] == "discarded"
    watching.check()


def test_the_lag_of_a_loop_is_measured_in_no_session() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)

    async def main() -> None:
        meters = TelemetryControl.of(Telemetry(TelemetryOptions(meter_provider=provider))).meters
        with use_span(TracerProvider(shutdown_on_exit=False).get_tracer("test").start_span("session")):
            meters.watch_loop(VirtualClock())
        await anyio.sleep(1.2)
        meters.unwatch_loop()

    run_virtual(main())
    data = reader.get_metrics_data()
    assert data is not None
    scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
    (lag,) = [each for scope in scopes for each in scope.metrics if each.name == "vivavoce.event_loop.lag"]
    points: list[Any] = list(lag.data.data_points)
    assert [(point.count, list(point.exemplars)) for point in points] == [(2, [])]


# --- which calls are traced, and how many spans wait


@pytest.mark.parametrize(
    ("sampler", "spans"), [(ALWAYS_OFF, 0), (TraceIdRatioBased(0.0), 0), (TraceIdRatioBased(1.0), 1)]
)
def test_a_call_that_is_not_sampled_has_no_span_and_all_metrics(sampler: Any, spans: int) -> None:
    watching, exporter = Watching(), InMemorySpanExporter()
    tracers = TracerProvider(ParentBased(sampler), shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    TelemetryControl.of(watching.telemetry).tracer = tracers.get_tracer("vivavoce")
    harness = talk(cascading, watching)
    assert sum(span.name == "session" for span in exporter.get_finished_spans()) == spans
    assert bool(exporter.get_finished_spans()) is bool(spans)
    assert sum(point.value for point in watching.points("vivavoce.turns")) == len(harness.session.turns) == 2


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_sampling_is_the_share_of_calls_unless_whoever_dispatched_has_decided(share: float) -> None:
    with otlp_endpoint() as endpoint:
        _check_sampling(endpoint.url, share)


def _check_sampling(url: str, share: float) -> None:
    telemetry = Telemetry(TelemetryOptions(endpoint=url, sampling=share))
    assert TelemetryControl.of(telemetry).tracer.start_span("a").get_span_context().trace_flags.sampled is bool(share)
    flags = "01" if share == 0.0 else "00"
    of_caller = JobInfo(id="AJ_1", room="r", metadata=f'{{"traceparent": "00-{"a" * 32}-{"b" * 16}-{flags}"}}')
    with job_span(TelemetryControl.of(telemetry), of_caller, lambda: ""):
        inside = TelemetryControl.of(telemetry).tracer.start_span("b").get_span_context()
    assert inside.trace_flags.sampled is (flags == "01")
    asyncio.run(telemetry.aclose(1.0))


def test_spans_that_find_the_queue_full_are_counted_and_the_call_goes_on() -> None:
    telemetry = Telemetry(TelemetryOptions(endpoint="http://127.0.0.1:9", max_queue=5))
    spans = [TelemetryControl.of(telemetry).tracer.start_span(f"{number}") for number in range(12)]
    for span in spans:
        span.end()
    assert (telemetry.waiting_spans, telemetry.dropped_spans) == (5, 7)


# --- two sessions in one process


@PIPELINES
def test_two_sessions_in_one_process_never_mix(make: Make) -> None:
    of = {name: Watching(attributes={"tenant": name}) for name in ("a", "b")}

    async def call(name: str) -> str:
        clock = VirtualClock()
        options = SessionOptions(clock=clock, telemetry=of[name].telemetry)
        session = AgentSession[None](
            Desk("Help."), make(SessionOptions()).pipeline, options=options, id=f"session {name}"
        )
        async with session:
            await session.start(LocalTransport(clock))
            session.input.text(f"a table for {name}")
            await asyncio.sleep(3.0)  # noqa: TID251 - virtual, and not the session's own
        return session.id

    async def both() -> None:
        await asyncio.gather(*(call(name) for name in of))

    run_virtual(both())
    for name, watching in of.items():
        watching.check()
        assert {(s.attributes or {})["vivavoce.session.id"] for s in watching.spans} == {f"session {name}"}
        assert {(s.attributes or {})["tenant"] for s in watching.spans} == {name}
        assert len({span.context.trace_id for span in watching.spans}) == 1
        (fallback,) = watching.points("vivavoce.fallbacks")
        assert fallback.value == 1
        assert sum(point.value for point in watching.points("vivavoce.turns")) == 1
