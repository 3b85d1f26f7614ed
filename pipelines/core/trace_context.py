"""The W3C trace context of what is current, for requests to others: an MCP server, an HTTP service of one's own."""

from __future__ import annotations

import sys


def trace_headers() -> dict[str, str]:
    """Return `traceparent` (and `tracestate`) of the current span; empty where nothing is traced.

    Source: W3C Trace Context, level 1.
    """
    if "opentelemetry.trace" not in sys.modules:  # then no span is current, and nothing is to be loaded for that
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers
