"""Faults that the turn machine reports, as errors for the application: of its policies, and of the machine itself."""

from __future__ import annotations

import logging
from collections.abc import Callable

from vivavoce.agents.turn.effects import DeadlineDropped, PolicyFailed
from vivavoce.pipelines.core.errors import SessionError

logger = logging.getLogger(__name__)


def report_turn_error(effect: PolicyFailed | DeadlineDropped, report: Callable[..., None]) -> None:
    """Hand the fault to `report(error, source, is_recovered=...)`."""
    if isinstance(effect, PolicyFailed):
        logger.debug("InterruptionOptions.%s failed:\n%s", effect.option, effect.details)
        message = f"InterruptionOptions.{effect.option}: {effect.problem}; the default was taken"
        report(SessionError(message), "policy", is_recovered=False)
        return
    message = (
        f"{effect.due} was due at {effect.at:.3f} s of the session's clock and changed nothing; it was passed over. "
        "Report this as a fault of vivavoce, with a trace (VIVAVOCE_TRACE)"
    )
    logger.error("The turn machine: %s", message)
    report(SessionError(message), "turn", is_recovered=True)
