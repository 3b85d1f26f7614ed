"""The W3C trace context of the current span, for requests to others: an MCP server, another HTTP service."""

from __future__ import annotations

import sys


def trace_headers() -> dict[str, str]:
    """Return `traceparent` (and `tracestate`) of the current span; empty without tracing.

    Source: W3C Trace Context, level 1.
    """
    if "opentelemetry.trace" not in sys.modules:  # then no span is current, and no module needs to be loaded
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers
