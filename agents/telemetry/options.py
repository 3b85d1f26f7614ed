"""TelemetryOptions: the destinations of traces, metrics and logs. The `OTEL_*` variables supply missing values."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from vivavoce.pipelines.core.checks import check_choice, check_function, check_number, check_text, check_whole
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

AttributeValue = str | bool | int | float

Redact = Callable[[str, AttributeValue], AttributeValue | None]
"""Takes an attribute's name and value; returns the value to send, None for nothing."""

Protocol = Literal["http/protobuf", "grpc"]

ENDPOINTS = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
)
"""Variables that turn telemetry on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryOptions:
    """The telemetry of a session. No part of it can delay, break or block a call.

    Spans carry words, instructions, and arguments and results of tools only with the session's `capture_content`; texts
    of foreign errors in log records likewise; metrics never do, and none ever a key or a header.
    `OTEL_TRACES_EXPORTER`, `OTEL_METRICS_EXPORTER` and `OTEL_LOGS_EXPORTER` of `none` leave a signal out.

    Log records are those of `vivavoce` that pass the level of its logger, logged in sessions and jobs; for your own put
    a `SessionLogHandler()` on a logger of yours.

    Each option: docs/options.md.
    """

    endpoint: str | None = None
    """An OTLP endpoint: `http://host:4318` (http/protobuf; `/v1/traces` and so on are added) or `http://host:4317`
    (grpc). None: `OTEL_EXPORTER_OTLP_ENDPOINT` and its variants.
    """
    protocol: Protocol | None = None
    """`grpc` needs the extra of that name. None: `OTEL_EXPORTER_OTLP_PROTOCOL`, else http/protobuf."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with each export, such as an API key; besides `OTEL_EXPORTER_OTLP_HEADERS`."""
    sampling: float | None = None
    """Share of calls traced, 0 … 1, if no outer trace decides; None: `OTEL_TRACES_SAMPLER`, else all."""
    service_name: str = ""
    """Empty: `OTEL_SERVICE_NAME`, else `vivavoce`."""
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    """On every span and log record of the session, such as a tenant; not on metrics, where each value would be a
    series."""
    redact: Redact | None = field(default=None, repr=False)
    """Called for every attribute that vivavoce puts on spans and log records, and for a record's message by the name
    `body`; if it raises, the attribute is left out. Attributes of your own code, also on the span of the tool that runs
    it, are up to that code.
    """
    export_timeout: float = 10.0
    """Seconds for one export, tries included; in a thread, so that no call waits for it."""
    flush_timeout: float = 1.0
    """Seconds that `close()` waits, after the session has left its room and is closed, for its telemetry to be sent; at
    most this long, beside `close_timeout`. A session that shares a `Telemetry`, as those of a worker do, does not wait:
    its maker does, in `aclose()`.
    """
    max_queue: int | None = None
    """Spans that may wait for the endpoint, and log records; more are dropped and counted. None:
    `OTEL_BSP_MAX_QUEUE_SIZE` and `OTEL_BLRP_MAX_QUEUE_SIZE`, else 2048."""
    tracer_provider: TracerProvider | None = field(default=None, repr=False)
    """A provider of your own in place of an endpoint: metrics and log records are not sent unless their providers are
    given too. It is flushed at the end, in a thread, and never shut down. Its processors run on the event loop: one
    that sends each span as it ends (`SimpleSpanProcessor` with an exporter of the network) blocks every call of the
    process and causes a warning; use `BatchSpanProcessor`.
    """
    meter_provider: MeterProvider | None = field(default=None, repr=False)
    """As `tracer_provider`, for metrics."""
    logger_provider: LoggerProvider | None = field(default=None, repr=False)
    """As `tracer_provider`, for log records."""
    use_global: bool = False
    """Whether to use the process's global tracer and meter providers, which you have set; vivavoce never sets them. A
    global logger provider's own handler sees the records of `vivavoce` by itself."""

    def __post_init__(self) -> None:
        check_choice("protocol", self.protocol, (None, "http/protobuf", "grpc"))
        if self.endpoint is not None:
            check_text("endpoint", self.endpoint)
        if self.endpoint is not None and not self.endpoint.startswith(("http://", "https://")):
            raise ValueError(f"endpoint must begin with http:// or https://, got {self.endpoint!r}")
        if self.endpoint is not None and has_providers(self):
            raise ValueError(f"need either endpoint or providers of your own, got {self.endpoint!r} and providers")
        check_number("sampling", self.sampling, at_least=0, or_none=True)
        if self.sampling is not None and self.sampling > 1:
            raise ConfigurationError(f"sampling must lie in 0 … 1, got {self.sampling!r}")
        for name in ("export_timeout", "flush_timeout"):
            check_number(name, getattr(self, name), above=0, unit="s")
        check_whole("max_queue", self.max_queue, at_least=1, or_none=True)
        check_function("redact", self.redact, or_none=True, remedy="of an attribute's name and value")


def has_providers(options: TelemetryOptions) -> bool:
    """Return whether telemetry goes to providers of the application's."""
    given = (options.tracer_provider, options.meter_provider, options.logger_provider)
    return options.use_global or any(provider is not None for provider in given)


def options_from_environment() -> TelemetryOptions | None:
    """Return the options that `OTEL_*` requests, None if it requests nothing."""
    if is_disabled() or not any(os.environ.get(name) for name in ENDPOINTS):
        return None
    return TelemetryOptions()


def sends_logs_by_environment() -> bool:
    """Whether `OTEL_*` alone has logs sent."""
    return options_from_environment() is not None and os.environ.get("OTEL_LOGS_EXPORTER", "otlp") != "none"


def is_disabled(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether `OTEL_SDK_DISABLED` turns telemetry off, in spite of the code."""
    return environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
