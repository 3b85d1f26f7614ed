"""Telemetry: sends spans, metrics and log records; shared by sessions, closed by its maker.

Loading the SDK takes 0.2 s, once a process: a worker loads it before it takes jobs. Make one `Telemetry` for many
sessions of a process; a session with `TelemetryOptions` makes one of its own, with threads and connections.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from vivavoce.agents.telemetry.export.endpoints import refused_signals
from vivavoce.agents.telemetry.export.flush import flush_providers, shut_down_providers
from vivavoce.agents.telemetry.options import TelemetryOptions, has_providers
from vivavoce.pipelines.core.clock import Clock, LoopClock

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.trace import Tracer, TracerProvider

    from vivavoce.agents.telemetry.export.otlp import Senders
    from vivavoce.agents.telemetry.logs.log_export import LogExport
    from vivavoce.agents.telemetry.metrics.meters import Meters

logger = logging.getLogger(__name__)

NETWORK_EXPORTERS = "opentelemetry.exporter."
"""The package of the exporters that use the network; the SDK's own write to memory and to the console."""


class Telemetry:
    """Makes spans, metrics and log records of sessions and sends them.

    Args:
        options: The environment's `OTEL_*` variables stand in for options that are not given.
    Raises:
        ConfigurationError: The options' protocol needs an extra that is not installed. A protocol that only the
            environment names leads to a warning, and nothing is sent.
    """

    def __init__(self, options: TelemetryOptions | None = None) -> None:
        self._control = TelemetryControl(options or TelemetryOptions())

    def __repr__(self) -> str:
        return f"Telemetry({self.options!r})"

    @property
    def options(self) -> TelemetryOptions:
        """The given options."""
        return self._control.options

    @property
    def tracer_provider(self) -> TracerProvider:
        """For spans of your own and of instrumented clients, which then go where those of calls go.

        `tracer_provider.get_tracer("shop")`, `SomeInstrumentor().instrument(tracer_provider=…)`. Nothing is set
        globally; you may, by `trace.set_tracer_provider(…)`.
        """
        return self._control.tracer_provider

    @property
    def meter_provider(self) -> MeterProvider:
        """As `tracer_provider`, for metrics."""
        return self._control.meter_provider

    @property
    def logger_provider(self) -> LoggerProvider | None:
        """As `tracer_provider`, for log records; None: they are not sent."""
        return self._control.logger_provider

    @property
    def dropped_spans(self) -> int:
        """Spans that found the queue full, that the endpoint did not take, or that `aclose()` gave up waiting for.

        0 with providers of your own. A span that comes through after `aclose()` has ended is delivered after all.
        """
        return self._control.dropped_spans

    @property
    def delivered_spans(self) -> int:
        """Spans that the endpoint took; 0 with providers of your own."""
        return self._control.delivered_spans

    @property
    def waiting_spans(self) -> int:
        """Spans that wait to be sent; 0 with providers of your own."""
        return self._control.waiting_spans

    @property
    def dropped_logs(self) -> int:
        """As `dropped_spans`, for log records."""
        return self._control.dropped_logs

    @property
    def waiting_logs(self) -> int:
        """Log records that wait to be sent; 0 with providers of your own."""
        return self._control.waiting_logs

    async def flush(self, limit: float | None = None, *, clock: Clock | None = None) -> bool:
        """Have everything so far sent, and wait for that at most `limit` (by default `flush_timeout`) seconds.

        Returns:
            Whether it was tried in time, not whether the endpoint took it: see `delivered_spans` and `dropped_spans`.
            Items that are late are still sent, if there is time.
        """
        return await self._control.flush(limit, clock=clock)

    async def aclose(self, limit: float | None = None, *, clock: Clock | None = None) -> bool:
        """Flush and end; providers of your own are only flushed. Calling it twice is fine.

        Items not delivered when it ends are counted in `dropped_spans` and `dropped_logs`.

        Returns:
            As `flush()`: whether it was tried in time.
        """
        return await self._control.aclose(limit, clock=clock)


class TelemetryControl:
    """The providers and exporters behind a `Telemetry`, for the sessions and jobs that report to it.

    Args:
        options: As given to the `Telemetry`.
        reader: Reads the metrics beside the exporter; only without providers of the application's own.
    Raises:
        ConfigurationError: As `Telemetry`.
    """

    def __init__(self, options: TelemetryOptions, reader: MetricReader | None = None) -> None:
        self.options = options
        self._senders: Senders | None = None
        self._meters: Meters | None = None
        self._is_closed = False
        self._nudge: Future[None] | None = None
        self.logger_provider: LoggerProvider | None
        if has_providers(options):
            self.tracer_provider, self._given_meters = _given(self.options)
            self.logger_provider = self.options.logger_provider
        else:
            from vivavoce.agents.telemetry.export.otlp import Senders

            self._senders = Senders(self.options, refused_signals(self.options), reader)
            self.tracer_provider, self.logger_provider = self._senders.tracers, self._senders.loggers
        self.tracer: Tracer = self.tracer_provider.get_tracer("vivavoce")
        self.logs: LogExport | None = None
        """Receives the log records of sessions and jobs; None: they are not sent."""
        if self.logger_provider is not None:
            from vivavoce.agents.telemetry.logs.log_export import LogExport

            self.logs = LogExport(self.logger_provider, self.options.attributes, self.options.redact)

    @staticmethod
    def of(telemetry: Telemetry) -> TelemetryControl:
        """Return the control of that telemetry."""
        return telemetry._control

    @property
    def meter_provider(self) -> MeterProvider:
        """See `Telemetry.meter_provider`."""
        return self._given_meters if self._senders is None else self._senders.meters

    def begin(self) -> None:
        """A session or a job reports from now on."""
        if self.logs is not None:
            self.logs.begin()

    @property
    def meters(self) -> Meters:
        """The instruments, made once."""
        if self._meters is None:
            from vivavoce.agents.telemetry.metrics.meters import Meters

            self._meters = Meters(self.meter_provider.get_meter("vivavoce"), self)
        return self._meters

    @property
    def dropped_spans(self) -> int:
        """See `Telemetry.dropped_spans`."""
        return 0 if self._senders is None or self._senders.spans is None else self._senders.spans.undelivered

    @property
    def delivered_spans(self) -> int:
        """See `Telemetry.delivered_spans`."""
        return 0 if self._senders is None or self._senders.spans is None else self._senders.spans.delivered

    @property
    def waiting_spans(self) -> int:
        """See `Telemetry.waiting_spans`."""
        return 0 if self._senders is None or self._senders.spans is None else self._senders.spans.waiting

    @property
    def dropped_logs(self) -> int:
        """See `Telemetry.dropped_logs`."""
        return 0 if self._senders is None or self._senders.logs is None else self._senders.logs.undelivered

    @property
    def waiting_logs(self) -> int:
        """See `Telemetry.waiting_logs`."""
        return 0 if self._senders is None or self._senders.logs is None else self._senders.logs.waiting

    def nudge(self) -> None:
        """Have the spans and log records so far sent soon, without waiting; providers of your own are left alone."""
        if self._senders is not None and (self._nudge is None or self._nudge.done()):
            providers = (self.tracer_provider, self.logger_provider)
            self._nudge = flush_providers(providers, int(self.options.flush_timeout * 1000))

    async def flush(self, limit: float | None = None, *, clock: Clock | None = None) -> bool:
        """See `Telemetry.flush`."""
        return await self._wait(flush_providers(self._providers, int(self.options.flush_timeout * 1000)), limit, clock)

    async def aclose(self, limit: float | None = None, *, clock: Clock | None = None) -> bool:
        """See `Telemetry.aclose`."""
        if self._is_closed or self._senders is None:
            return await self.flush(limit, clock=clock)
        self._is_closed = True
        providers = [provider for provider in self._providers if provider is not None]
        try:
            return await self._wait(shut_down_providers(providers), limit, clock)
        finally:
            self._senders.give_up()

    @property
    def _providers(self) -> tuple[TracerProvider, LoggerProvider | None, MeterProvider]:
        """Metrics come last: they count the spans and log records that were lost."""
        return self.tracer_provider, self.logger_provider, self.meter_provider

    async def _wait(self, done: Future[None], limit: float | None, clock: Clock | None) -> bool:
        limit = self.options.flush_timeout if limit is None else limit
        with (clock or LoopClock()).hold(), anyio.move_on_after(limit) as scope:
            await _awaited(done)
        if scope.cancelled_caught:
            left = "" if self._senders is None else self._senders.unsettled
            message = "Telemetry was not sent within %g s; the session does not wait for the rest%s"
            logger.warning(message, limit, f" ({left})" if left else "")
        return not scope.cancelled_caught


async def _awaited(done: Future[None]) -> None:
    """Wait for the work of a thread. Unlike with `asyncio.wrap_future`, the loop may close before the work is done."""
    loop, is_over = asyncio.get_running_loop(), asyncio.Event()

    def wake(_: Future[None]) -> None:
        with suppress(RuntimeError):  # the loop has closed: there is no waiter
            loop.call_soon_threadsafe(is_over.set)

    if not done.done():
        done.add_done_callback(wake)
        await is_over.wait()


def _blocking_exporter(provider: object) -> str:
    """Return the network exporter that the SDK's provider calls as a span ends; empty if it has none that is known."""
    processors = getattr(getattr(provider, "_active_span_processor", None), "_span_processors", ())
    for processor in processors:
        exporter = type(getattr(processor, "span_exporter", None))
        if type(processor).__name__ == "SimpleSpanProcessor" and exporter.__module__.startswith(NETWORK_EXPORTERS):
            return exporter.__name__
    return ""


def _given(options: TelemetryOptions) -> tuple[TracerProvider, MeterProvider]:
    from opentelemetry import metrics, trace

    tracers, meters = options.tracer_provider, options.meter_provider
    if options.use_global:
        tracers, meters = tracers or trace.get_tracer_provider(), meters or metrics.get_meter_provider()
    if tracers is not None and (exporter := _blocking_exporter(tracers)):
        logger.warning(
            "The tracer provider sends each span with %s as it ends, on the event loop, and all calls wait for that: "
            "use BatchSpanProcessor in place of SimpleSpanProcessor",
            exporter,
        )
    return tracers or trace.NoOpTracerProvider(), meters or metrics.NoOpMeterProvider()
