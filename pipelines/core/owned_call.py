"""OwnedCall: foreign code in a task of its own, awaited within a limit, then cut, then abandoned.

No code can end a task that swallows its cancellation; here such a task does not hold up the tasks that wait for it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

import anyio

from vivavoce.pipelines.core.errors import describe
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors

logger = logging.getLogger(__name__)

UNWIND_LIMIT = 2.0
"""Seconds that a cut call gets for its `finally` blocks."""


class OwnedCall:
    """One call. Start `run` in a task group; that group is the owner.

    Args:
        what: For logs, such as `"the entrypoint of job AJ_1"`.
        call: The foreign code.
        on_error: Called with an exception, as it happens.
        is_shielded: Whether only `cut()` cancels it, not the end of its group.
    """

    def __init__(
        self,
        what: str,
        call: Callable[[], Awaitable[object]],
        on_error: Callable[[BaseException], None] | None = None,
        *,
        is_shielded: bool = False,
    ) -> None:
        self._what = what
        self._call = call
        self._on_error = on_error or self._log
        self._scope = anyio.CancelScope(shield=is_shielded)
        self._done = anyio.Event()

    async def run(self) -> None:
        """Make the call; it lets no exception out."""
        try:
            with self._scope, strays_as_errors(self._what):
                await self._call()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code fails alone; its owner receives the error
            self._on_error(error)
        finally:
            self._done.set()

    def cut(self) -> None:
        """Cancel the call."""
        self._scope.cancel()

    async def finish(self, limit: float, unwind: float = UNWIND_LIMIT) -> None:
        """Wait for the end of the call, cutting it after `limit` seconds; return `unwind` seconds later in any case."""
        await finish_all([self], limit, unwind)

    async def wait(self) -> None:
        """Wait for the end of the call, however long."""
        await self._done.wait()

    @property
    def what(self) -> str:
        """For logs."""
        return self._what

    @property
    def is_done(self) -> bool:
        """Whether the call has ended, in any way."""
        return self._done.is_set()

    @property
    def is_cut(self) -> bool:
        """Whether it was cut."""
        return self._scope.cancel_called

    def _log(self, error: BaseException) -> None:
        logger.error("%s failed: %s", self._what, describe(error))
        logger.debug("%s failed", self._what, exc_info=error)


async def finish_all(calls: Sequence[OwnedCall], limit: float, unwind: float = UNWIND_LIMIT) -> None:
    """Wait for the end of all calls, cutting after `limit` seconds those that still run.

    Returns in any case, `unwind` seconds after the cut at the latest; calls that still run then are abandoned and
    logged.
    """
    with anyio.move_on_after(limit):
        for call in calls:
            await call.wait()
    late = [call for call in calls if not call.is_done]
    for call in late:
        logger.warning("%s took longer than %.1f s and is cut", call.what, limit)
        call.cut()
    with anyio.move_on_after(unwind):
        for call in late:
            await call.wait()
    for call in late:
        if not call.is_done:
            logger.error("%s ignores its cancellation and is left behind", call.what)
