"""CountedSpans and CountedLogs: the SDK's batch processors, with a count of undelivered items.

The SDK's processors queue, batch and export in daemon threads of their own. They have no count of the items that they
drop or that the endpoint refuses, and a full queue loses the oldest. So each item is counted before it enters the SDK's
queue, where a full one drops the newest, and each batch is counted when its export returns.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk._logs import LogRecordProcessor, ReadableLogRecord, ReadWriteLogRecord
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from vivavoce.pipelines.core.errors import describe

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import Span

logger = logging.getLogger(__name__)

BatchesT = TypeVar("BatchesT", BatchSpanProcessor, BatchLogRecordProcessor)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """How many items wait, how many are sent together, and seconds from one export to the next."""

    max_queue: int = 2048
    max_batch: int = 512
    delay: float = 5.0


class Counts:
    """Counts spans or log records, from any thread.

    Args:
        what: The items, for people: "spans".
        remedy: Advice where an endpoint never takes any.
        is_refused: Whether the endpoint is none: items count as lost, and nothing is tried.
    """

    def __init__(self, what: str, limits: BatchLimits, *, remedy: str = "", is_refused: bool = False) -> None:
        self._what = what
        self._remedy = f" ({remedy})" if remedy else ""
        self._max_queue = limits.max_queue
        self._is_refused = self._is_failing = is_refused
        self._is_closed = self._is_given_up = False
        self._lock = threading.Lock()
        self._in_hand = 0
        self.waiting = 0
        """Items in the queue."""
        self.dropped = 0
        """Items that found the queue full, or came after the end."""
        self.lost = 0
        """Items that were exported and not taken."""
        self.delivered = 0
        """Items that the endpoint took."""

    @property
    def unsettled(self) -> int:
        """Items that wait or are just being exported."""
        with self._lock:
            return self.waiting + self._in_hand

    @property
    def undelivered(self) -> int:
        """Items not delivered for which no one waits; an item that comes through after `give_up()` counts no more."""
        with self._lock:
            return self.dropped + self.lost + (self.waiting + self._in_hand if self._is_given_up else 0)

    def admit(self) -> bool:
        """Count an item; return whether there is room for it."""
        with self._lock:
            is_admitted = not self._is_closed and self.waiting < self._max_queue
            if is_admitted:
                self.waiting += 1
            else:
                self.dropped += 1
            return is_admitted

    def close(self) -> None:
        """Admit no more items; those that wait may still be sent."""
        self._is_closed = True

    def give_up(self) -> None:
        """Count as undelivered all that is not delivered by now."""
        self._is_given_up = True

    def export(self, size: int, export: Callable[[], bool]) -> bool:
        """Count a batch of `size` items that `export` hands over; return whether the endpoint took it."""
        with self._lock:
            self.waiting -= size
            self._in_hand += size
        is_delivered = False
        try:
            is_delivered = not self._is_refused and export()
        except Exception as error:  # noqa: BLE001 - whatever an exporter raises, the call goes on
            logger.debug("Exporting %s raised %s", self._what, describe(error))
        self._note(is_delivered, size)
        return is_delivered

    def _note(self, is_delivered: bool, size: int) -> None:
        with self._lock:
            self._in_hand -= size
            if is_delivered:
                self.delivered += size
            else:
                self.lost += size
            is_news, self._is_failing = is_delivered is self._is_failing, not is_delivered
        if is_news and is_delivered:
            message = "Telemetry is delivered again; %d %s were lost, %d dropped"
            logger.info(message, self.lost, self._what, self.dropped)
        elif is_news:
            message = "Telemetry (%s) cannot be delivered; calls go on, and this is said once%s"
            logger.warning(message, self._what, self._remedy)


class _Counted(Generic[BatchesT]):
    """A batch processor of the SDK, behind the count. It is made, with its thread, for the first item.

    Args:
        make: The class of the batch processor.
        exporter: Exports its batches and counts them.
    """

    def __init__(
        self, make: Callable[..., BatchesT], exporter: _SpanExporter | _LogExporter, counts: Counts, limits: BatchLimits
    ) -> None:
        self.counts = counts
        self._make: Callable[..., BatchesT] = make
        self._exporter = exporter
        self._limits = limits
        self._lock = threading.Lock()
        self._batches: BatchesT | None = None

    def _made(self) -> BatchesT:
        with self._lock:
            if self._batches is None:
                self._batches = self._make(
                    self._exporter,
                    max_queue_size=self._limits.max_queue,
                    schedule_delay_millis=self._limits.delay * 1000,
                    max_export_batch_size=self._limits.max_batch,
                    meter_provider=NoOpMeterProvider(),
                )
        return self._batches

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Export all items so far; blocks for as long as the exporter does."""
        return self._batches is None or self._batches.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Export all items so far, and end."""
        self.counts.close()
        if self._batches is None:
            self._exporter.shutdown()
        else:
            self._batches.shutdown()  # type: ignore[no-untyped-call]  # that of log records has no types


class CountedSpans(_Counted[BatchSpanProcessor], SpanProcessor):
    """Exports the spans that are sampled. The SDK's thread begins with the first one."""

    def __init__(self, exporter: SpanExporter, counts: Counts, limits: BatchLimits) -> None:
        super().__init__(BatchSpanProcessor, _SpanExporter(exporter, counts), counts, limits)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Nothing is done when a span begins."""

    def on_end(self, span: ReadableSpan) -> None:
        """Take a span."""
        if span.context.trace_flags.sampled and self.counts.admit():
            self._made().on_end(span)


class CountedLogs(_Counted[BatchLogRecordProcessor], LogRecordProcessor):
    """Exports log records. The SDK's thread begins with the first one."""

    def __init__(self, exporter: LogRecordExporter, counts: Counts, limits: BatchLimits) -> None:
        super().__init__(BatchLogRecordProcessor, _LogExporter(exporter, counts), counts, limits)

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        """Take a log record."""
        if self.counts.admit():
            self._made().on_emit(log_record)


class _SpanExporter(SpanExporter):
    def __init__(self, exporter: SpanExporter, counts: Counts) -> None:
        self._exporter = exporter
        self._counts = counts

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        is_taken = self._counts.export(len(spans), lambda: self._exporter.export(spans) is SpanExportResult.SUCCESS)
        return SpanExportResult.SUCCESS if is_taken else SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self._exporter.shutdown()


class _LogExporter(LogRecordExporter):
    def __init__(self, exporter: LogRecordExporter, counts: Counts) -> None:
        self._exporter: Any = exporter  # its shutdown is not typed
        self._counts = counts

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        is_taken = self._counts.export(
            len(batch), lambda: self._exporter.export(batch) is LogRecordExportResult.SUCCESS
        )
        return LogRecordExportResult.SUCCESS if is_taken else LogRecordExportResult.FAILURE

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 10_000) -> bool:
        return True
