"""QuietLimit: a limit for the application's code that counts only while no speech is going on, and anew after each.

Such code may await its own speech, which has limits of its own and often takes longer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import anyio


class QuietLimit:
    """The limit of one call.

    Args:
        seconds: Without speech, after which the call is cancelled.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._scope: anyio.CancelScope | None = None  # made with the call: a session is made without a loop too
        self._is_agent_busy = False
        self._is_lifted = False

    @contextmanager
    def limiting(self) -> Iterator[anyio.CancelScope]:
        """Limit what is done inside; the scope tells whether it was cancelled."""
        with anyio.CancelScope(deadline=self._deadline()) as self._scope:
            yield self._scope

    def agent_is(self, *, busy: bool) -> None:
        """Tell whether any speech is going on; at every step."""
        if busy != self._is_agent_busy:
            self._is_agent_busy = busy
            self._update()

    def lift(self) -> None:
        """From now on somebody else bounds the call."""
        self._is_lifted = True
        self._update()

    def _update(self) -> None:
        if self._scope is not None:
            self._scope.deadline = self._deadline()

    def _deadline(self) -> float:
        return math.inf if self._is_agent_busy or self._is_lifted else anyio.current_time() + self._seconds
