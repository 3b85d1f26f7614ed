"""The telemetry to which the running code reports: the option's, else the job's, else the environment's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vivavoce.agents.telemetry.observer import NO_OBSERVER, SessionObserver
from vivavoce.agents.telemetry.options import (
    TelemetryOptions,
    has_providers,
    is_disabled,
    options_from_environment,
)
from vivavoce.agents.telemetry.telemetry import Telemetry, TelemetryControl
from vivavoce.pipelines.core.clock import Clock

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricReader

logger = logging.getLogger(__name__)

job_telemetry: ContextVar[TelemetryControl | None] = ContextVar("job_telemetry", default=None)
"""The worker's, in its jobs: for sessions that are given none."""


def telemetry_for(
    given: TelemetryOptions | Telemetry | None, reader: MetricReader | None = None
) -> tuple[TelemetryControl | None, bool]:
    """Return the telemetry of a session with that option, and whether it is the session's own.

    With None: the job's, else one that the environment asks for, else none.

    Args:
        reader: Reads the metrics too, those of an application's own meter provider excepted; with one there is always
            a telemetry, unless the environment disables it.
    """
    if is_disabled():
        return None, False
    if isinstance(given, Telemetry):
        return TelemetryControl.of(given), False
    if given is None and (shared := job_telemetry.get()) is not None:
        return shared, False
    options = given or options_from_environment()
    if reader is not None:
        options, reader = _read_by(reader, options)
    if options is None:
        return None, False
    from vivavoce.agents.telemetry import session_telemetry  # noqa: F401 - loaded now, and not when the call begins

    return TelemetryControl(options, reader), True


def observer_for(
    given: tuple[TelemetryControl | None, bool],
    *,
    session_id: str,
    clock: Clock,
    parts: Sequence[tuple[str, str, str]],
    facts: Callable[[], Mapping[str, Any]],
    capture_content: bool,
) -> SessionObserver:
    """Return the observer by which a session reports to its telemetry; it does nothing without one.

    Args:
        given: The result of `telemetry_for`.
        parts: Kind, provider and model of each component of the session's pipeline.
        facts: Returns the attributes of the session's agent, pipeline and options.
    """
    telemetry, is_own = given
    if telemetry is None:
        return NO_OBSERVER
    telemetry.begin()
    from vivavoce.agents.telemetry.session_telemetry import SessionTelemetry

    return SessionTelemetry(
        telemetry,
        is_own=is_own,
        session_id=session_id,
        clock=clock,
        parts=parts,
        facts=facts,
        capture_content=capture_content,
    )


def _read_by(
    reader: MetricReader, options: TelemetryOptions | None
) -> tuple[TelemetryOptions | None, MetricReader | None]:
    """Return options whose provider has the reader, and the reader if a provider is still to be made for it."""
    if options is not None and (options.meter_provider is not None or options.use_global):
        logger.info("the worker's /metrics has no figures of sessions: they go to the application's meter provider")
        return options, None
    if options is not None and not has_providers(options):
        return options, reader
    from opentelemetry.sdk.metrics import MeterProvider

    meters = MeterProvider([reader], shutdown_on_exit=False)
    return replace(options or TelemetryOptions(), meter_provider=meters), None
