"""StoreHealth: whether a session's store answers; an outage is one `error` event, however many calls fail in it."""

from __future__ import annotations

import logging

from vivavoce.agents.core.context import SessionContext
from vivavoce.pipelines.core.errors import describe

logger = logging.getLogger(__name__)

SOURCE = "memory"
"""The source of its `error` events."""


class StoreHealth:
    """Notes how the session's own calls to its store end."""

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self.is_failing = False
        """Whether the last call failed."""

    def worked(self) -> None:
        """A call was made."""
        self.is_failing = False

    def failed(self, error: Exception) -> None:
        """A call failed, and will be made again."""
        if not self.is_failing:
            logger.warning("The session's store failed, its writes wait: %s", describe(error))
            self._context.report_error(error, SOURCE, is_recovered=True)
        logger.debug("A call to the session's store failed", exc_info=error)
        self.is_failing = True

    def lost(self, error: Exception) -> None:
        """A write is lost."""
        logger.error("%s", describe(error))
        self._context.report_error(error, SOURCE)
