"""Telemetry: the providers that spans and metrics go to, and what sends them; shared by sessions, closed by its maker.

Loading the SDK takes 0.2 s, once a process: a worker does so before it takes jobs. Make one `Telemetry` for many
sessions of a process; a session that is given `TelemetryOptions` makes one of its own, with a thread and connections.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING

import anyio

from vivavoce.agents.observe.options import TelemetryOptions, is_disabled, options_from_environment
from vivavoce.pipelines.core.clock import Clock, LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.ids import new_id

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricExporter
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import TracerProvider

    from vivavoce.agents.observe.export_thread import ExportLimits, ExportThread
    from vivavoce.agents.observe.meters import Meters

logger = logging.getLogger(__name__)

job_telemetry: ContextVar[Telemetry | None] = ContextVar("job_telemetry", default=None)
"""The worker's, in its jobs: for sessions that are given none."""


class Telemetry:
    """Makes spans and metrics of sessions and sends them.

    Args:
        options: What is not said there, the environment's `OTEL_*` variables say.
    Raises:
        ConfigurationError: The protocol needs an extra that is not installed.
    """

    def __init__(self, options: TelemetryOptions | None = None) -> None:
        self.options = options or TelemetryOptions()
        self._thread: ExportThread | None = None
        self._meters: Meters | None = None
        self._is_closed = False
        if self.options.has_providers:
            self.tracer_provider, self.meter_provider = _given(self.options)
        else:
            self.tracer_provider, self.meter_provider, self._thread = _made(self.options)
        self.tracer = self.tracer_provider.get_tracer("vivavoce")

    def begin(self) -> None:
        """A session or a job reports from now on: send, in a thread."""
        if self._thread is not None:
            self._thread.begin()

    def __repr__(self) -> str:
        return f"Telemetry({self.options!r})"

    @property
    def meters(self) -> Meters:
        """The instruments, made once."""
        if self._meters is None:
            from vivavoce.agents.observe.meters import Meters

            self._meters = Meters(self.meter_provider.get_meter("vivavoce"), self)
        return self._meters

    @property
    def dropped_spans(self) -> int:
        """Spans that found the queue full, or that the endpoint did not take; 0 with providers of your own."""
        return 0 if self._thread is None else self._thread.dropped + self._thread.lost

    @property
    def waiting_spans(self) -> int:
        """Spans that wait to be sent; 0 with providers of your own."""
        return 0 if self._thread is None else self._thread.waiting

    def nudge(self) -> None:
        """Have the spans so far sent soon; nobody waits."""
        if self._thread is not None:
            self._thread.nudge()

    async def flush(self, limit: float | None = None, *, clock: Clock | None = None) -> bool:
        """Have everything so far sent, and wait for that at most `limit` (by default `flush_timeout`) seconds.

        Returns:
            Whether it was tried; what is late is still sent, if there is time.
        """
        return await self._wait(self._flushing(), limit, clock)

    async def aclose(self, limit: float | None = None, *, clock: Clock | None = None) -> bool:
        """Flush and end; providers of your own are only flushed. Calling it twice is fine."""
        if self._is_closed or self._thread is None:
            self._is_closed = True
            return await self.flush(limit, clock=clock)
        self._is_closed = True
        return await self._wait(self._thread.close(), limit, clock)

    def _flushing(self) -> Future[None]:
        if self._thread is not None:
            return self._thread.flush()
        from vivavoce.agents.observe.foreign import flush_providers

        timeout = int(self.options.flush_timeout * 1000)
        return flush_providers((self.tracer_provider, self.meter_provider), timeout)

    async def _wait(self, done: Future[None], limit: float | None, clock: Clock | None) -> bool:
        limit = self.options.flush_timeout if limit is None else limit
        with (clock or LoopClock()).hold(), anyio.move_on_after(limit) as scope:
            await _awaited(done)
        if scope.cancelled_caught:
            logger.warning("Telemetry was not sent within %g s; nobody waits for the rest", limit)
        return not scope.cancelled_caught


async def _awaited(done: Future[None]) -> None:
    """Wait for what a thread does; unlike `asyncio.wrap_future`, it may be done when the loop is no more."""
    loop, is_over = asyncio.get_running_loop(), asyncio.Event()

    def tell(_: Future[None]) -> None:
        with suppress(RuntimeError):  # the loop has closed, so that nobody waits
            loop.call_soon_threadsafe(is_over.set)

    if not done.done():
        done.add_done_callback(tell)
        await is_over.wait()


def telemetry_for(given: TelemetryOptions | Telemetry | None) -> tuple[Telemetry | None, bool]:
    """Return what a session that was given this reports to, and whether it is the session's own.

    Nothing given: what the job has, else what the environment asks for, else nothing.
    """
    if is_disabled():
        return None, False
    if isinstance(given, Telemetry):
        return given, False
    if given is None and (shared := job_telemetry.get()) is not None:
        return shared, False
    options = given or options_from_environment()
    if options is None:
        return None, False
    from vivavoce.agents.observe import session_telemetry  # noqa: F401 - loaded now, and not when the call begins

    return Telemetry(options), True


def _given(options: TelemetryOptions) -> tuple[TracerProvider, MeterProvider]:
    from opentelemetry import metrics, trace

    tracers, meters = options.tracer_provider, options.meter_provider
    if options.use_global:
        tracers, meters = tracers or trace.get_tracer_provider(), meters or metrics.get_meter_provider()
    return tracers or trace.NoOpTracerProvider(), meters or metrics.NoOpMeterProvider()


def _made(options: TelemetryOptions) -> tuple[TracerProvider, MeterProvider, ExportThread]:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

    from vivavoce.agents.observe.export_thread import ExportThread

    spans, metrics = _exporters(options)
    reader = None
    if metrics is not None:
        reader = InMemoryMetricReader(metrics._preferred_temporality, metrics._preferred_aggregation)
    thread = ExportThread(
        _limits(options),
        spans=spans,
        metrics=metrics,
        reader=reader,
        now=LoopClock().wall,  # for intervals of minutes; it needs no loop
    )
    facts = {"service.instance.id": new_id("instance")}
    name = options.service_name or os.environ.get("OTEL_SERVICE_NAME", "")
    if name or "service.name=" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        facts["service.name"] = name or "vivavoce"
    resource = Resource.create(facts)
    sampler = None if options.sampling is None else ParentBased(TraceIdRatioBased(options.sampling))
    tracers = TracerProvider(sampler, resource, shutdown_on_exit=False)
    tracers.add_span_processor(thread)
    meters = MeterProvider([reader] if reader is not None else [], resource, shutdown_on_exit=False)
    return tracers, meters, thread


def _exporters(options: TelemetryOptions) -> tuple[SpanExporter | None, MetricExporter | None]:
    protocol = _protocol(options)
    make_spans, make_metrics = _exporter_classes(protocol)
    wants_spans = os.environ.get("OTEL_TRACES_EXPORTER", "otlp") != "none"
    wants_metrics = os.environ.get("OTEL_METRICS_EXPORTER", "otlp") != "none"
    headers = dict(options.headers) or None
    timeout = options.export_timeout
    endpoint = None if options.endpoint is None else options.endpoint.rstrip("/")

    def at(path: str) -> str | None:
        return f"{endpoint}/v1/{path}" if endpoint is not None and protocol == "http/protobuf" else endpoint

    return (
        make_spans(at("traces"), headers=headers, timeout=timeout) if wants_spans else None,
        make_metrics(at("metrics"), headers=headers, timeout=timeout) if wants_metrics else None,
    )


def _protocol(options: TelemetryOptions) -> str:
    return options.protocol or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "") or "http/protobuf"


def _exporter_classes(protocol: str) -> tuple[Callable[..., SpanExporter], Callable[..., MetricExporter]]:
    if protocol == "http/protobuf":
        from opentelemetry.exporter.otlp.proto.http import metric_exporter as http_metrics
        from opentelemetry.exporter.otlp.proto.http import trace_exporter as http_spans

        return http_spans.OTLPSpanExporter, http_metrics.OTLPMetricExporter
    if protocol != "grpc":
        raise ConfigurationError(f"OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf or grpc, got {protocol!r}")
    try:
        from opentelemetry.exporter.otlp.proto.grpc import metric_exporter, trace_exporter
    except ImportError as error:
        raise ConfigurationError('OTLP over grpc needs the extra grpc: pip install "vivavoce[grpc]"') from error
    return trace_exporter.OTLPSpanExporter, metric_exporter.OTLPMetricExporter


def _limits(options: TelemetryOptions) -> ExportLimits:
    from vivavoce.agents.observe.export_thread import ExportLimits

    def number(name: str, default: float) -> float:
        given = os.environ.get(name, "")
        try:
            return float(given) if given and float(given) > 0 else default
        except ValueError:
            logger.warning("%s must be a number above 0, got %r; %g is taken", name, given, default)
            return default

    queue = options.max_queue or int(number("OTEL_BSP_MAX_QUEUE_SIZE", 2048))
    return ExportLimits(
        max_queue=queue,
        max_batch=min(queue, int(number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512))),
        span_delay=number("OTEL_BSP_SCHEDULE_DELAY", 5000) / 1000,
        metric_interval=number("OTEL_METRIC_EXPORT_INTERVAL", 60_000) / 1000,
    )
