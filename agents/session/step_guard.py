"""StepGuard: reports each step of the decision loop that raises as an error event, so that the session continues."""

from __future__ import annotations

import logging

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.states import CloseReason
from vivavoce.pipelines.core.errors import located

logger = logging.getLogger(__name__)

MAX_FAILED_STEPS = 5
"""Steps in a row that may raise; the session closes with reason `error` at the next one."""

SOURCE = "decision loop"


class StepGuard:
    """Counts the steps that raised, one after the other.

    An input that raises is dropped, and so is an effect; the other effects of the step are carried out. Each is an
    `error` event of the source `decision loop`. A step without a failure resets the count.

    When more than `MAX_FAILED_STEPS` steps in a row have raised, the session closes.
    """

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self._failed_steps = 0
        self._error: Exception | None = None
        self.has_given_up = False
        """Whether the loop asks for no more deadlines, since each of them may raise."""

    def failed(self, error: Exception, at: object) -> None:
        """The step raised.

        Args:
            at: The input or the effect that raised.
        """
        kind = type(at).__name__
        logger.error("The decision loop goes on without %s, which raised %s", kind, located(error))
        logger.debug("It raised here", exc_info=error)
        self._context.report_error(error, SOURCE)
        self._error = error

    def step_ended(self) -> None:
        """The step is over, whether something in it has raised or not."""
        error, self._error = self._error, None
        self._failed_steps = 0 if error is None else self._failed_steps + 1
        if error is not None and self._failed_steps > MAX_FAILED_STEPS and not self.has_given_up:
            self.has_given_up = True
            self._context.closing.request(CloseReason.ERROR, error)
