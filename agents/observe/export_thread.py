"""ExportThread: hands spans and metrics to their exporters, in one daemon thread, off every event loop.

The SDK's own batch processor has no flush with a limit and no count of what it drops, and a thread for each signal that
a fork revives; so this one is ours, the exporters are the SDK's. What takes spans never waits: a full queue drops the
newest and counts it. An exporter that hangs holds up this thread only; the interpreter does not wait for it either.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, set_value
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExporter, MetricExportResult
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from vivavoce.pipelines.core.errors import describe

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import Span

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportLimits:
    """How much waits and when it is sent: spans, spans, seconds, seconds."""

    max_queue: int = 2048
    max_batch: int = 512
    span_delay: float = 5.0
    metric_interval: float = 60.0


class ExportThread(SpanProcessor):
    """Takes ended spans, and collects metrics when they are due.

    Args:
        spans, metrics: Exporters; either may be absent.
        reader: What metrics are read from.
    """

    def __init__(
        self,
        limits: ExportLimits,
        *,
        spans: SpanExporter | None,
        metrics: MetricExporter | None,
        reader: InMemoryMetricReader | None,
        now: Callable[[], float],
    ) -> None:
        self._limits = limits
        self._spans = spans
        self._metrics = metrics
        self._reader = reader
        self._now = now
        self._queue: deque[ReadableSpan] = deque()
        self._wake = threading.Event()
        self._flushes: deque[Future[None]] = deque()
        self._is_closing = False
        self._is_failing = False
        self.dropped = 0
        """Spans that found the queue full, or came after the end."""
        self.lost = 0
        """Spans that were handed to the exporter and could not be delivered."""
        self.delivered = 0
        """Spans that the endpoint took."""
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
        if self._spans is None or not span.context.trace_flags.sampled:
            return
        if self._is_closing or len(self._queue) >= self._limits.max_queue:
            self.dropped += 1
            return
        self._queue.append(span)
        if len(self._queue) >= self._limits.max_batch:
            self._wake.set()

    @property
    def waiting(self) -> int:
        """Spans in the queue."""
        return len(self._queue)

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
        self._wake.set()
        return done

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
            self._wake.wait(limits.span_delay)
            self._wake.clear()
            is_closing = self._is_closing
            flushes = [self._flushes.popleft() for _ in range(len(self._flushes))]
            self._send_spans()
            if flushes or is_closing or self._now() >= metrics_due:
                metrics_due = self._now() + limits.metric_interval
                self._send_metrics()
            for done in flushes:
                done.set_result(None)
            if is_closing and not self._flushes:
                break
        for exporter in (self._spans, self._metrics):
            if exporter is not None:
                self._end(exporter)

    def _send_spans(self) -> None:
        for _ in range(-(-len(self._queue) // self._limits.max_batch)):  # what comes meanwhile waits for the next time
            size = min(len(self._queue), self._limits.max_batch)
            batch = [self._queue.popleft() for _ in range(size)]
            assert self._spans is not None
            try:
                is_delivered = self._spans.export(batch) is SpanExportResult.SUCCESS
            except Exception as error:  # noqa: BLE001 - whatever an exporter raises, the call goes on
                is_delivered = False
                logger.debug("Exporting spans raised %s", describe(error))
            self._note(is_delivered, size)

    def _note(self, is_delivered: bool, size: int) -> None:
        if is_delivered:
            self.delivered += size
        else:
            self.lost += size
        if is_delivered is self._is_failing:
            self._is_failing = not is_delivered
            if is_delivered:
                logger.info("Telemetry is delivered again; %d spans were lost, %d dropped", self.lost, self.dropped)
            else:
                logger.warning("Telemetry cannot be delivered; calls go on, and this is said once")

    def _send_metrics(self) -> None:
        if self._metrics is None or self._reader is None:
            return
        try:
            data = self._reader.get_metrics_data()
            if data is not None and self._metrics.export(data) is not MetricExportResult.SUCCESS:
                logger.debug("Metrics were not delivered; the next ones hold them too")
        except Exception as error:  # noqa: BLE001 - as above
            logger.debug("Exporting metrics raised %s", describe(error))

    def _end(self, exporter: SpanExporter | MetricExporter) -> None:
        try:
            exporter.shutdown()
        except Exception as error:  # noqa: BLE001 - as above
            logger.debug("Closing an exporter raised %s", describe(error))
