"""Telemetry into memory, and the rules that hold for the spans of any call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import StatusCode

from docs import telemetry_reference as reference
from vivavoce.agents.records import SessionReport
from vivavoce.agents.telemetry.destination import job_telemetry
from vivavoce.agents.telemetry.options import TelemetryOptions
from vivavoce.agents.telemetry.telemetry import Telemetry, TelemetryControl
from vivavoce.pipelines.testing.virtual_time import EPOCH

OUTLIVES = {"tool", "tts", "llm", "attempt", "flow", "hook"}
"""May go on when the turn is over: tools by design, other code that is not ours for as long as its close takes."""

GENAI = {"session", "llm", "tts", "tool"}
"""Kinds of the GenAI conventions."""


class _Counted(IdGenerator):
    """Ids that stay unique although hypothesis seeds the process's random numbers again for each example."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def generate_span_id(self) -> int:
        return next(self._numbers)

    def generate_trace_id(self) -> int:
        return next(self._numbers)


class _Unflushed(trace.TracerProvider):
    """Hands on to a provider, without its flush: with one, each close would wait for a thread of real time."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider

    def get_tracer(self, *args: Any, **kwargs: Any) -> trace.Tracer:
        return self._provider.get_tracer(*args, **kwargs)


class _UnflushedMeters(metrics.MeterProvider):
    """Likewise."""

    def __init__(self, provider: MeterProvider) -> None:
        self._provider = provider

    def get_meter(self, *args: Any, **kwargs: Any) -> metrics.Meter:
        return self._provider.get_meter(*args, **kwargs)


class Watching:
    """Telemetry that keeps everything; hand `telemetry` to sessions."""

    def __init__(self, **options: Any) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.started: list[Any] = []
        self.tracers = TracerProvider(shutdown_on_exit=False, id_generator=_Counted())
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self.telemetry = Telemetry(
            TelemetryOptions(
                tracer_provider=_Unflushed(self.tracers), meter_provider=_UnflushedMeters(self.meters), **options
            )
        )

    @contextmanager
    def everywhere(self) -> Iterator[None]:
        """Sessions without telemetry of their own report here, as the sessions of a worker's jobs do."""
        token = job_telemetry.set(TelemetryControl.of(self.telemetry))
        try:
            yield
        finally:
            job_telemetry.reset(token)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """Those that have ended, in the order of their ends."""
        return self._exporter.get_finished_spans()

    def of(self, kind: str) -> list[ReadableSpan]:
        """Return spans of a kind, in the order of their starts."""
        return sorted((s for s in self.spans if kind_of(s) == kind), key=lambda span: span.start_time or 0)

    def one(self, kind: str) -> ReadableSpan:
        """Return the only span of a kind."""
        found = self.of(kind)
        assert len(found) == 1, f"{kind}: {[span.name for span in found]} of {[s.name for s in self.spans]}"
        return found[0]

    def children(self, parent: ReadableSpan) -> list[ReadableSpan]:
        """Return the spans in a span, in the order of their starts."""
        mine = [s for s in self.spans if s.parent is not None and s.parent.span_id == parent.context.span_id]
        return sorted(mine, key=lambda span: span.start_time or 0)

    def tree(self, parent: ReadableSpan) -> list[Any]:
        """Return [name, child, child …] of a span, children likewise, or the name alone where there are none."""
        below = [self.tree(child) for child in self.children(parent)]
        return [parent.name, *(each[0] if len(each) == 1 else each for each in below)]

    @property
    def metrics(self) -> list[Any]:
        """The metrics by now."""
        data = self._reader.get_metrics_data()
        resources = () if data is None else data.resource_metrics
        return [metric for resource in resources for scope in resource.scope_metrics for metric in scope.metrics]

    def points(self, name: str) -> list[Any]:
        """Return the data points of a metric by now; none if nothing was recorded."""
        return [point for metric in self.metrics if metric.name == name for point in metric.data.data_points]

    def check(self) -> None:
        """Check the rules that hold for every call.

        Raises:
            AssertionError: A rule is broken.
        """
        by_id = {span.context.span_id: span for span in self.spans}
        for span in self.spans:
            assert span.start_time is not None
            assert span.end_time is not None
            where = f"{span.name} {seconds_of(span)}"
            assert span.start_time <= span.end_time, f"{where} ends before it begins"
            attributes = span.attributes or {}
            if kind_of(span) in GENAI:
                assert attributes["vivavoce.session.id"] == attributes["gen_ai.conversation.id"], where
            if span.parent is None:
                assert kind_of(span) == "session", f"{where} is in no session"
                continue
            parent = by_id.get(span.parent.span_id)
            assert parent is not None, f"{where}: its parent never ended"
            assert span.context.trace_id == parent.context.trace_id
            assert (parent.attributes or {})["vivavoce.session.id"] == attributes["vivavoce.session.id"], where
            assert parent.start_time is not None
            assert parent.end_time is not None
            assert parent.start_time <= span.start_time, f"{where} begins before {parent.name} {seconds_of(parent)}"
            if kind_of(span) not in OUTLIVES:
                assert span.end_time <= parent.end_time, f"{where} outlives {parent.name} {seconds_of(parent)}"
            if span.status.status_code is StatusCode.ERROR and kind_of(span) == "llm":
                assert attributes.get("error.type"), f"{where} failed without saying how"
        self._check_names()

    def check_turns(self, report: SessionReport) -> None:
        """Check that a session's report and its spans name the same turns of the user, answered and dropped.

        Raises:
            AssertionError: They do not.
        """
        told = [span.attributes or {} for span in self.of("turn")]
        mine = [span for span in told if span["vivavoce.session.id"] == report.session_id]
        dropped = {
            (str(span["vivavoce.turn.id"]), str(span.get("vivavoce.turn.reason")))
            for span in mine
            if span["vivavoce.turn.outcome"] == "dropped"
        }
        answered = {
            (str(span["vivavoce.turn.id"]), str(span["vivavoce.turn.outcome"]))
            for span in mine
            if span["vivavoce.turn.outcome"] != "dropped"
        }
        listed = {(turn.turn_id, turn.reason) for turn in report.dropped_turns}
        assert dropped == listed, f"spans {sorted(dropped)}, report {sorted(listed)}"
        assert answered == {(turn.turn_id, turn.outcome) for turn in report.turns if turn.kind == "turn"}

    def _check_names(self) -> None:
        """Check that docs/telemetry.md names all that was sent."""
        for span in self.spans:
            entry, attributes = reference.spans()[kind_of(span)], span.attributes or {}
            assert entry.unknown(attributes) == [], f"of {kind_of(span)!r}"
            for event in span.events:
                known = frozenset(reference.EXCEPTION) if event.name == "exception" else entry.events[event.name]
                assert {*(event.attributes or {})} <= known, f"of {event.name!r}"
            for name, values in reference.values().items():
                assert attributes.get(name) in (None, *values), name
            for link in span.links:
                assert {*(link.attributes or {})} <= {entry.link}, f"of a link of {kind_of(span)!r}"
        for metric in self.metrics:
            known = reference.metrics()[metric.name].attributes
            for point in metric.data.data_points:
                assert {name for name in point.attributes or {} if "." in name} <= known, f"of {metric.name!r}"


def kind_of(span: ReadableSpan) -> str:
    """Return its kind in the tree."""
    return str((span.attributes or {})["vivavoce.kind"])


def seconds_of(span: ReadableSpan) -> tuple[float, float]:
    """Return start and end in seconds of virtual time."""
    assert span.start_time is not None
    assert span.end_time is not None
    return round(span.start_time / 1e9 - EPOCH, 4), round(span.end_time / 1e9 - EPOCH, 4)
