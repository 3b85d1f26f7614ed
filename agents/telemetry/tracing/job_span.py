"""job_span: a worker's job as a span, in the trace of its dispatcher.

The dispatcher passes its trace on as `traceparent` (and `tracestate`), in the job's attributes or in metadata that is a
JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from vivavoce.agents.job import JobInfo
from vivavoce.agents.telemetry.destination import job_telemetry
from vivavoce.agents.telemetry.telemetry import TelemetryControl
from vivavoce.pipelines.core.clock import LoopClock

AddEvent = Callable[[str, Mapping[str, str | float]], None]
"""Adds an event with these attributes to the span of a job."""

CARRIED = ("traceparent", "tracestate")


@contextmanager
def job_span(telemetry: TelemetryControl | None, job: JobInfo, error: Callable[[], str]) -> Iterator[AddEvent | None]:
    """Hold the job's span current, and its telemetry that of the job's sessions; None without telemetry.

    Args:
        error: Returns the job's error when it is over, without foreign text; empty without one.
    """
    if telemetry is None:
        yield None
        return
    telemetry.begin()
    from opentelemetry.context import attach, detach
    from opentelemetry.trace import SpanKind, set_span_in_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    from vivavoce.agents.telemetry.logs.log_export import log_export
    from vivavoce.agents.telemetry.tracing.spans import SpanMaker

    attributes = {
        "vivavoce.job.id": job.id,
        "vivavoce.room": job.room,
        "vivavoce.job.agent_name": job.agent_name,
        "vivavoce.job.dispatch_id": job.dispatch_id,
    }
    parent = TraceContextTextMapPropagator().extract(_carrier(job))
    maker = SpanMaker(telemetry.tracer, _WallClock(), {}, telemetry.options.redact)
    maker.begin()
    span = maker.start("job", parent, attributes=attributes, span_kind=SpanKind.CONSUMER)
    token, telemetry_token = attach(set_span_in_context(span)), job_telemetry.set(telemetry)
    log_token = log_export.set(telemetry.logs)
    try:
        yield partial(maker.event, span)
    finally:
        log_export.reset(log_token)
        job_telemetry.reset(telemetry_token)
        detach(token)
        if failed := error():
            maker.set_failed(span, failed)
        maker.end(span)


class _WallClock(LoopClock):
    """A job may outlive clock changes; its sessions have clocks of their own."""

    def now(self) -> float:
        return self.wall()


def _carrier(job: JobInfo) -> dict[str, str]:
    """Return the trace context that came with the job."""
    given: object = None
    if job.metadata.lstrip().startswith("{"):
        try:
            given = json.loads(job.metadata)
        except (ValueError, RecursionError):
            given = None  # metadata is the application's own: it need not be JSON
    found = {**(given if isinstance(given, dict) else {}), **job.attributes}
    return {name: value for name in CARRIED if isinstance(value := found.get(name), str)}
