"""Endpoints that the environment names: a wrong one leads to a clear warning, and never breaks a call.

`TelemetryOptions(endpoint=…)` raises for an endpoint without a scheme. A variable is read when a call begins, where
nothing may raise. The SDK would accept it, and each export would fail with an error of the HTTP library.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Literal

from vivavoce.agents.telemetry.options import TelemetryOptions

logger = logging.getLogger(__name__)

Signal = Literal["traces", "metrics", "logs"]

SIGNALS: tuple[Signal, ...] = ("traces", "metrics", "logs")
COMMON = "OTEL_EXPORTER_OTLP_ENDPOINT"
SCHEMES = ("http://", "https://")
GRPC = "opentelemetry.exporter.otlp.proto.grpc"
NEEDS_GRPC = 'OTLP over grpc needs the extra grpc: pip install "vivavoce[grpc]"'


def refused_signals(options: TelemetryOptions) -> list[Signal]:
    """Return the signals without a usable endpoint, and warn of each variable once.

    Over gRPC an endpoint needs no scheme. Source: OpenTelemetry specification, OTLP exporter configuration.
    """
    unsupported = {signal: reason for signal in SIGNALS if (reason := _why_unsupported(options, signal))}
    for reason in dict.fromkeys(unsupported.values()):
        signals = ", ".join(signal for signal in unsupported if unsupported[signal] == reason)
        logger.warning("%s; calls go on, and their %s are not sent", reason, signals)
    refused = {signal: variable for signal, variable in _without_scheme(options) if signal not in unsupported}
    for variable in dict.fromkeys(refused.values()):
        logger.warning(
            "%s must begin with http:// or https://, such as http://localhost:4318, got %r; calls go on, "
            "and their %s are not sent",
            variable,
            without_secrets(os.environ[variable]),
            ", ".join(signal for signal in refused if refused[signal] == variable),
        )
    return [*unsupported, *refused]


def exporter_protocol(options: TelemetryOptions, signal: Signal) -> str:
    """Return the protocol of the exporter: `protocol_of`, or HTTP in place of one that we lack by the environment."""
    return "http/protobuf" if _why_unsupported(options, signal) else protocol_of(options, signal)


def is_left_out(signal: Signal) -> bool:
    """Whether the environment turns that signal off."""
    return os.environ.get(f"OTEL_{signal.upper()}_EXPORTER", "otlp") == "none"


def protocol_of(options: TelemetryOptions, signal: Signal) -> str:
    """Return the protocol of that signal, from the options or the environment."""
    return options.protocol or named_protocol(os.environ, signal)


def named_protocol(environment: Mapping[str, str], signal: Signal) -> str:
    """Return the protocol of that signal from the environment."""
    own = environment.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL")
    return own or environment.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"


def _why_unsupported(options: TelemetryOptions, signal: Signal) -> str:
    """Return why we cannot speak the protocol that the environment names for a signal; empty if we can."""
    protocol = protocol_of(options, signal)
    if options.protocol is not None or is_left_out(signal) or protocol == "http/protobuf":
        return ""
    if protocol != "grpc":
        return f"OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf or grpc, got {protocol!r}"
    return NEEDS_GRPC if find_spec(GRPC) is None else ""


def _without_scheme(options: TelemetryOptions) -> Iterator[tuple[Signal, str]]:
    """Yield each HTTP signal whose endpoint is no URL, with the variable that names it."""
    if options.endpoint is not None:
        return
    for signal in SIGNALS:
        if is_left_out(signal) or protocol_of(options, signal) != "http/protobuf":
            continue
        own = f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT"
        variable = own if os.environ.get(own) else COMMON
        endpoint = os.environ.get(variable, "")
        if endpoint and not endpoint.lower().startswith(SCHEMES):
            yield signal, variable


def without_secrets(endpoint: str) -> str:
    """Return it without user, password and query."""
    scheme, ends, rest = endpoint.partition("?")[0].rpartition("://")
    return scheme + ends + rest.rpartition("@")[2]
