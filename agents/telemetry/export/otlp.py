"""Senders: providers of the SDK, exporters of OTLP and the thread between them, as options and `OTEL_*` variables say.

Nothing is set globally, and nothing is registered for the interpreter's exit.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import LogRecordExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from vivavoce.agents.telemetry.export.endpoints import NEEDS_GRPC, Signal, exporter_protocol, is_left_out
from vivavoce.agents.telemetry.export.export_thread import ExportLimits, ExportThread
from vivavoce.agents.telemetry.options import TelemetryOptions
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.ids import new_id

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Senders:
    """What was made; `loggers` only where log records are wanted."""

    tracers: TracerProvider
    meters: MeterProvider
    loggers: LoggerProvider | None
    thread: ExportThread


class _Exporters(NamedTuple):
    """One for each signal that is wanted."""

    spans: SpanExporter | None
    metrics: MetricExporter | None
    logs: LogRecordExporter | None


def make_senders(options: TelemetryOptions) -> Senders:
    """Make them; nothing is sent before the thread begins.

    Raises:
        ConfigurationError: The options' protocol needs an extra that is not installed.
    """
    spans, metrics, logs = _exporters(options)
    reader = None
    if metrics is not None:
        reader = InMemoryMetricReader(metrics._preferred_temporality, metrics._preferred_aggregation)
    thread = ExportThread(
        _limits(options),
        spans=spans,
        logs=logs,
        metrics=metrics,
        reader=reader,
        now=LoopClock().wall,  # for intervals of minutes; it needs no loop
    )
    resource = _resource(options)
    sampler = None if options.sampling is None else ParentBased(TraceIdRatioBased(options.sampling))
    tracers = TracerProvider(sampler, resource, shutdown_on_exit=False)
    tracers.add_span_processor(thread)
    meters = MeterProvider([reader] if reader is not None else [], resource, shutdown_on_exit=False)
    loggers = None
    if logs is not None:
        loggers = LoggerProvider(resource, shutdown_on_exit=False, meter_provider=meters)
        loggers.add_log_record_processor(thread)
    return Senders(tracers, meters, loggers, thread)


def _resource(options: TelemetryOptions) -> Resource:
    facts = {"service.instance.id": new_id("instance")}
    name = options.service_name or os.environ.get("OTEL_SERVICE_NAME", "")
    if name or "service.name=" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        facts["service.name"] = name or "vivavoce"
    return Resource.create(facts)


def _exporters(options: TelemetryOptions) -> _Exporters:
    headers = dict(options.headers) or None
    endpoint = None if options.endpoint is None else options.endpoint.rstrip("/")

    def make(signal: Signal) -> Any:
        if is_left_out(signal):
            return None
        protocol = exporter_protocol(options, signal)
        at = f"{endpoint}/v1/{signal}" if endpoint is not None and protocol == "http/protobuf" else endpoint
        return _exporter_class(protocol, signal)(at, headers=headers, timeout=options.export_timeout)

    return _Exporters(make("traces"), make("metrics"), make("logs"))


def _exporter_class(protocol: str, signal: Signal) -> Callable[..., Any]:
    if protocol == "http/protobuf":
        from opentelemetry.exporter.otlp.proto.http import _log_exporter as http_logs
        from opentelemetry.exporter.otlp.proto.http import metric_exporter as http_metrics
        from opentelemetry.exporter.otlp.proto.http import trace_exporter as http_spans

        return {
            "traces": http_spans.OTLPSpanExporter,
            "metrics": http_metrics.OTLPMetricExporter,
            "logs": http_logs.OTLPLogExporter,
        }[signal]
    try:
        from opentelemetry.exporter.otlp.proto.grpc import _log_exporter, metric_exporter, trace_exporter
    except ImportError as error:
        raise ConfigurationError(NEEDS_GRPC) from error
    return {
        "traces": trace_exporter.OTLPSpanExporter,
        "metrics": metric_exporter.OTLPMetricExporter,
        "logs": _log_exporter.OTLPLogExporter,
    }[signal]


def _limits(options: TelemetryOptions) -> ExportLimits:
    def number(name: str, default: float) -> float:
        given = os.environ.get(name, "")
        try:
            return float(given) if given and float(given) > 0 else default
        except ValueError:
            logger.warning("%s must be a number above 0, got %r; %g is taken", name, given, default)
            return default

    delays = [number(f"OTEL_{of}_SCHEDULE_DELAY", 5000) / 1000 for of in ("BSP", "BLRP")]
    return ExportLimits(
        max_queue=options.max_queue or int(number("OTEL_BSP_MAX_QUEUE_SIZE", 2048)),
        max_batch=int(number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)),
        max_logs=options.max_queue or int(number("OTEL_BLRP_MAX_QUEUE_SIZE", 2048)),
        max_log_batch=int(number("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", 512)),
        delay=min(delays),  # one thread sends both
        metric_interval=number("OTEL_METRIC_EXPORT_INTERVAL", 60_000) / 1000,
    )
