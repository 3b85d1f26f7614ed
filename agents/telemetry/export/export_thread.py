"""ExportThread: hands spans, log records and metrics to their exporters, in one daemon thread, off every event loop.

The SDK's own batch processors have no flush with a limit and no count of what they drop, and a thread for each signal
that a fork revives; so this one is ours, the exporters are the SDK's. What takes spans and records never waits: a full
queue drops the newest and counts it. An exporter that hangs holds up this thread only; the interpreter does not wait
for it either.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, Context, attach, set_value
from opentelemetry.sdk._logs import LogRecordProcessor, ReadableLogRecord, ReadWriteLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExporter, MetricExportResult
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from vivavoce.agents.telemetry.export.export_queue import ExportQueue
from vivavoce.pipelines.core.errors import describe

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Span

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportLimits:
    """How much waits (spans, log records) and when it is sent (seconds)."""

    max_queue: int = 2048
    max_batch: int = 512
    max_logs: int = 2048
    max_log_batch: int = 512
    delay: float = 5.0
    metric_interval: float = 60.0


class ExportThread(SpanProcessor, LogRecordProcessor):
    """Takes ended spans and log records, and collects metrics when they are due.

    Args:
        spans, logs, metrics: Exporters; each may be absent.
        reader: What metrics are read from.
    """

    def __init__(
        self,
        limits: ExportLimits,
        *,
        spans: SpanExporter | None,
        logs: LogRecordExporter | None,
        metrics: MetricExporter | None,
        reader: InMemoryMetricReader | None,
        now: Callable[[], float],
    ) -> None:
        self._limits = limits
        self._exporters = [exporter for exporter in (spans, logs, metrics) if exporter is not None]
        self._metrics = metrics
        self._reader = reader
        self._now = now
        self.spans = None if spans is None else _span_queue(spans, limits)
        """What waits to be sent and what became of it; None: spans are not sent."""
        self.logs = None if logs is None else _log_queue(logs, limits)
        """Likewise."""
        self._wake = threading.Event()
        self._flushes: deque[Future[None]] = deque()
        self._is_closing = False
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    # --- from any thread, never waiting

    def begin(self) -> None:
        """Start the thread, the first time."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="vivavoce telemetry", daemon=True)
                self._thread.start()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Nothing is done when a span begins."""

    def on_end(self, span: ReadableSpan) -> None:
        """Take a span."""
        if span.context.trace_flags.sampled and self.spans is not None and self.spans.put(span):
            self._wake.set()

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        """Take a log record, without the context that it was made in, which may hold much."""
        if self.logs is None:
            return
        record, resource = log_record.log_record, log_record.resource
        assert resource is not None  # the provider's own logger sets it
        record.context = Context()
        if self.logs.put(_readable(log_record, resource)):
            self._wake.set()

    def nudge(self) -> None:
        """Ask for the spans so far to be sent now and not when they are due."""
        self._wake.set()

    def flush(self) -> Future[None]:
        """Ask for everything so far to be sent; the result is there when that was tried."""
        done: Future[None] = Future()
        if self._thread is None or not self._thread.is_alive():
            done.set_result(None)
            return done
        self._flushes.append(done)
        self._wake.set()
        return done

    def close(self) -> Future[None]:
        """As `flush()`, and let the thread end after that."""
        done = self.flush()
        self._is_closing = True
        for queue in (self.spans, self.logs):
            if queue is not None:
                queue.close()
        self._wake.set()
        return done

    @property
    def unsettled(self) -> str:
        """What is neither delivered nor lost yet, in words; empty if that is nothing."""
        named = (("spans", self.spans), ("log records", self.logs))
        left = [f"{queue.unsettled} {what}" for what, queue in named if queue is not None and queue.unsettled]
        return ", ".join(left)

    def give_up(self) -> None:
        """Nobody waits any more for what is not delivered."""
        for queue in (self.spans, self.logs):
            if queue is not None:
                queue.give_up()

    def refuse(self, signal: str) -> None:
        """Try nothing for `traces`, `logs` or `metrics`: their endpoint is none. What comes is counted as lost."""
        if signal == "metrics":
            self._metrics = None
        elif (queue := self.spans if signal == "traces" else self.logs) is not None:
            queue.refuse()

    # --- for whoever waits: blocking

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait until all is sent, at most so long; tell whether it was."""
        try:
            self.flush().result(timeout_millis / 1000)
        except TimeoutError:
            return False
        return True

    def shutdown(self) -> None:
        """Let the thread end; nobody waits."""
        self.close()

    # --- the thread

    def _run(self) -> None:
        attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))  # an instrumented HTTP client must not trace its exports
        limits, metrics_due = self._limits, self._now() + self._limits.metric_interval
        while True:
            self._wake.wait(limits.delay)
            self._wake.clear()
            is_closing = self._is_closing
            flushes = [self._flushes.popleft() for _ in range(len(self._flushes))]
            for queue in (self.spans, self.logs):
                if queue is not None:
                    queue.send()
            if flushes or is_closing or self._now() >= metrics_due:
                metrics_due = self._now() + limits.metric_interval
                self._send_metrics()
            for done in flushes:
                done.set_result(None)
            if is_closing and not self._flushes:
                break
        for exporter in self._exporters:
            self._end(exporter)

    def _send_metrics(self) -> None:
        if self._metrics is None or self._reader is None:
            return
        try:
            data = self._reader.get_metrics_data()
            if data is not None and self._metrics.export(data) is not MetricExportResult.SUCCESS:
                logger.debug("Metrics were not delivered; the next ones hold them too")
        except Exception as error:  # noqa: BLE001 - as above
            logger.debug("Exporting metrics raised %s", describe(error))

    def _end(self, exporter: SpanExporter | LogRecordExporter | MetricExporter) -> None:
        try:
            exporter.shutdown()
        except Exception as error:  # noqa: BLE001 - as above
            logger.debug("Closing an exporter raised %s", describe(error))


def _span_queue(exporter: SpanExporter, limits: ExportLimits) -> ExportQueue[ReadableSpan]:
    def export(batch: Sequence[ReadableSpan]) -> bool:
        return exporter.export(batch) is SpanExportResult.SUCCESS

    return ExportQueue("spans", export, max_queue=limits.max_queue, max_batch=limits.max_batch)


def _log_queue(exporter: LogRecordExporter, limits: ExportLimits) -> ExportQueue[ReadableLogRecord]:
    def export(batch: Sequence[ReadableLogRecord]) -> bool:
        return exporter.export(batch) is LogRecordExportResult.SUCCESS

    return ExportQueue(
        "logs",
        export,
        max_queue=limits.max_logs,
        max_batch=limits.max_log_batch,
        remedy="for an endpoint that takes none: OTEL_LOGS_EXPORTER=none",
    )


def _readable(record: ReadWriteLogRecord, resource: Resource) -> ReadableLogRecord:
    return ReadableLogRecord(
        log_record=record.log_record,
        resource=resource,
        instrumentation_scope=record.instrumentation_scope,
        limits=record.limits,
    )
