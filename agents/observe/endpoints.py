"""Endpoints that the environment names: one that cannot be meant is said clearly, and never breaks a call.

`TelemetryOptions(endpoint=…)` raises for one without a scheme, where whoever wrote it sees that. A variable is read
when a call begins, where nothing may be raised, and the SDK would take it, fail with each export and tell so in the
words of its HTTP library.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Literal

from vivavoce.agents.observe.options import TelemetryOptions

logger = logging.getLogger(__name__)

Signal = Literal["traces", "metrics", "logs"]

SIGNALS: tuple[Signal, ...] = ("traces", "metrics", "logs")
COMMON = "OTEL_EXPORTER_OTLP_ENDPOINT"
SCHEMES = ("http://", "https://")


def refused_signals(options: TelemetryOptions) -> list[Signal]:
    """Return the signals whose endpoint is none, having warned of each variable once.

    Over gRPC an endpoint needs no scheme. Source: OpenTelemetry specification, OTLP exporter configuration.
    """
    refused = dict(_without_scheme(options))
    for variable in dict.fromkeys(refused.values()):
        logger.warning(
            "%s must begin with http:// or https://, such as http://localhost:4318, got %r; calls go on, "
            "and their %s are not sent",
            variable,
            _without_secrets(os.environ[variable]),
            ", ".join(signal for signal in refused if refused[signal] == variable),
        )
    return list(refused)


def _without_scheme(options: TelemetryOptions) -> Iterator[tuple[Signal, str]]:
    """Yield each signal that goes over HTTP to something that is no URL, with the variable that says so."""
    if options.endpoint is not None:
        return
    for signal in SIGNALS:
        own = f"OTEL_EXPORTER_OTLP_{signal.upper()}_"
        is_left_out = os.environ.get(f"OTEL_{signal.upper()}_EXPORTER") == "none"
        named = os.environ.get(f"{own}PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        if is_left_out or (options.protocol or named or "http/protobuf") != "http/protobuf":
            continue
        variable = f"{own}ENDPOINT" if os.environ.get(f"{own}ENDPOINT") else COMMON
        endpoint = os.environ.get(variable, "")
        if endpoint and not endpoint.lower().startswith(SCHEMES):
            yield signal, variable


def _without_secrets(endpoint: str) -> str:
    """Return it without user, password and query."""
    return endpoint.rpartition("@")[2].partition("?")[0]
