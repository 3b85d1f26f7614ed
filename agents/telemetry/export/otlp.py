"""Senders: providers of the SDK and exporters of OTLP, as options and `OTEL_*` variables say.

Nothing is set globally, and nothing is registered for the interpreter's exit.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection
from functools import cached_property
from typing import Any

from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from vivavoce.agents.telemetry.export.counted import BatchLimits, CountedLogs, CountedSpans, Counts
from vivavoce.agents.telemetry.export.endpoints import NEEDS_GRPC, Signal, exporter_protocol, is_left_out
from vivavoce.agents.telemetry.options import TelemetryOptions
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.ids import new_id

logger = logging.getLogger(__name__)


class Senders:
    """The SDK's providers, with exporters of OTLP. Threads begin with the first span, log record or instrument.

    Args:
        refused: Signals whose endpoint is none: their items count as lost, and nothing is tried.
        reader: Reads the metrics too, from now on: their provider, with the exporter beside it, is made at once.

    Raises:
        ConfigurationError: The options' protocol needs an extra that is not installed.
    """

    def __init__(
        self, options: TelemetryOptions, refused: Collection[Signal], reader: MetricReader | None = None
    ) -> None:
        resource = _resource(options)
        sampler = None if options.sampling is None else ParentBased(TraceIdRatioBased(options.sampling))
        self.tracers = TracerProvider(sampler, resource, shutdown_on_exit=False)
        self.spans: Counts | None = None
        """None: spans are not sent."""
        if (exporter := _exporter(options, "traces")) is not None:
            limits = _limits(options, "BSP")
            self.spans = Counts("spans", limits, is_refused="traces" in refused)
            self.tracers.add_span_processor(CountedSpans(exporter, self.spans, limits))
        self.loggers: LoggerProvider | None = None
        self.logs: Counts | None = None
        """None: log records are not sent."""
        if (exporter := _exporter(options, "logs")) is not None:
            limits = _limits(options, "BLRP")
            remedy = "for an endpoint that takes none: OTEL_LOGS_EXPORTER=none"
            self.logs = Counts("logs", limits, remedy=remedy, is_refused="logs" in refused)
            self.loggers = LoggerProvider(resource, shutdown_on_exit=False, meter_provider=NoOpMeterProvider())
            self.loggers.add_log_record_processor(CountedLogs(exporter, self.logs, limits))
        self._resource = resource
        self._metrics = _exporter(options, "metrics")
        self._are_metrics_refused = "metrics" in refused
        self._reader = reader
        if reader is not None:  # it is asked before the first session has an instrument
            _ = self.meters

    @cached_property
    def meters(self) -> MeterProvider:
        """The meter provider; the first use begins its thread."""
        readers = [] if self._reader is None else [self._reader]
        if self._metrics is not None and not self._are_metrics_refused:
            interval = _number("OTEL_METRIC_EXPORT_INTERVAL", 60_000)
            readers.append(PeriodicExportingMetricReader(self._metrics, export_interval_millis=interval))
        return MeterProvider(readers, self._resource, shutdown_on_exit=False)

    @property
    def unsettled(self) -> str:
        """Items that are neither delivered nor lost yet, in words; empty if there are none."""
        named = (("spans", self.spans), ("log records", self.logs))
        left = [f"{counts.unsettled} {what}" for what, counts in named if counts is not None and counts.unsettled]
        return ", ".join(left)

    def give_up(self) -> None:
        """Count as undelivered all that is not delivered by now."""
        for counts in (self.spans, self.logs):
            if counts is not None:
                counts.give_up()


def _resource(options: TelemetryOptions) -> Resource:
    facts = {"service.instance.id": new_id("instance")}
    name = options.service_name or os.environ.get("OTEL_SERVICE_NAME", "")
    if name or "service.name=" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        facts["service.name"] = name or "vivavoce"
    return Resource.create(facts)


def _exporter(options: TelemetryOptions, signal: Signal) -> Any:
    """Return the signal's exporter; None where it is left out."""
    if is_left_out(signal):
        return None
    protocol = exporter_protocol(options, signal)
    endpoint = None if options.endpoint is None else options.endpoint.rstrip("/")
    if endpoint is not None and protocol == "http/protobuf":
        endpoint = f"{endpoint}/v1/{signal}"
    headers = dict(options.headers) or None
    return _exporter_class(protocol, signal)(endpoint, headers=headers, timeout=options.export_timeout)


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


def _limits(options: TelemetryOptions, of: str) -> BatchLimits:
    max_queue = options.max_queue or int(_number(f"OTEL_{of}_MAX_QUEUE_SIZE", 2048))
    return BatchLimits(
        max_queue=max_queue,
        max_batch=min(max_queue, int(_number(f"OTEL_{of}_MAX_EXPORT_BATCH_SIZE", 512))),
        delay=_number(f"OTEL_{of}_SCHEDULE_DELAY", 5000) / 1000,
    )


def _number(name: str, default: float) -> float:
    """Return a variable's number; one that is wrong is warned of and not taken."""
    given = os.environ.get(name, "")
    try:
        return float(given) if given and float(given) > 0 else default
    except ValueError:
        logger.warning("%s must be a number above 0, got %r; %g is taken", name, given, default)
        return default
