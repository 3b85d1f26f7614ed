"""StoreHealth: whether a session's store answers; an outage is one `error` event, however many calls fail in it."""

from __future__ import annotations

import logging

from vivavoce.agents.core.context import SessionContext
from vivavoce.pipelines.core.errors import describe

logger = logging.getLogger(__name__)

SOURCE = "memory"
"""The source of its `error` events."""


class StoreHealth:
    """Notes how the session's own calls to its store end. Parts that call the store themselves give their name as
    `by`."""

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self._failing: set[str] = set()

    @property
    def is_failing(self) -> bool:
        return bool(self._failing)

    def worked(self, by: str = "") -> None:
        """Note that a call succeeded. Other parts may still fail: a store that is full reads, but does not write."""
        self._failing -= {by, ""}

    def failed(self, error: Exception, by: str = "") -> None:
        """Note that a call failed and will be made again."""
        if not self._failing:
            logger.warning("The session's store failed, its writes wait: %s", describe(error))
            self._context.report_error(error, SOURCE, is_recovered=True)
        logger.debug("A call to the session's store failed", exc_info=error)
        self._failing.add(by)

    def lost(self, error: Exception) -> None:
        """Note that a write is lost."""
        logger.error("%s", describe(error))
        self._context.report_error(error, SOURCE)
