"""Changes: wakes the tasks that wait for a state to change."""

from __future__ import annotations

import anyio


class Changes:
    """The changes of one state. A task waits for the next one, and looks at the state again.

    `while not part.is_ready: await part.changes.wait()`
    """

    def __init__(self) -> None:
        self._next = anyio.Event()

    def note(self) -> None:
        """Wake all tasks that wait: the state has changed."""
        changed, self._next = self._next, anyio.Event()
        changed.set()

    async def wait(self) -> None:
        """Wait for the next change."""
        await self._next.wait()
