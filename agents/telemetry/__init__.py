"""Telemetry of calls over OpenTelemetry: spans, metrics and log records.

`observer.SessionObserver` is the interface that a session calls. It does nothing unless telemetry is configured; then
`session_telemetry.SessionTelemetry` takes its place. Spans, instruments, batching and export are the SDK's:

* Spans that must be current around code of providers, tools and hooks are begun and ended with that code
  (`tracing/watches`). The parts of a turn in which no such code runs have no span before the turn is over; then their
  spans are made from the finished turn, with the times that they had (`tracing/part_spans`).
* A turn's metrics are recorded once, from its finished record (`metrics`).
* The SDK's batch processors send spans and log records. They neither count the items that they lose nor keep to the
  limit of a flush; so `export/counted` counts, and `export/flush` flushes and ends providers, ours and those of the
  application, in a thread that no call waits for longer than `flush_timeout`.

The flush is no step of a session's close: it follows the close. A hook that hangs would leave it no time of
`close_timeout`, and so cost the end of the traces that matter most; a slow endpoint would make a clean close look
broken.

On, telemetry may cost 50 ms of CPU a session-minute and 0.5 ms of latency. Measured (`tests/bench/tracing_cost.py`, two
cores): 50 ms and 1.1 ms. The latency is that of the SDK's spans between the end of speech and the first sound; spans
of our own would be faster, and two things to keep right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.core.lazy import lazy_names

if TYPE_CHECKING:
    from vivavoce.agents.telemetry.logs.log_export import SessionLogHandler
    from vivavoce.agents.telemetry.options import TelemetryOptions
    from vivavoce.agents.telemetry.telemetry import Telemetry

_PLACES = {
    "vivavoce.agents.telemetry.logs.log_export": "SessionLogHandler",
    "vivavoce.agents.telemetry.options": "TelemetryOptions",
    "vivavoce.agents.telemetry.telemetry": "Telemetry",
}

__all__ = [
    "SessionLogHandler",
    "Telemetry",
    "TelemetryOptions",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
