"""The W3C trace context of the current span, for requests to others: an MCP server, another HTTP service, a peer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


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


@contextmanager
def trace_of(traceparent: str) -> Iterator[None]:
    """Make the span of a request that has come the current one, the parent of spans in the block; "" has no effect."""
    if not traceparent:
        yield
        return
    from opentelemetry.context import attach, detach
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    token = attach(TraceContextTextMapPropagator().extract({"traceparent": traceparent}))
    try:
        yield
    finally:
        detach(token)
