"""Registration: one worker's connection to its server: dialling, the register reply, closing, the next try. Pure.

Its owner, the supervisor, passes inputs in and effects on; `next_deadline()` returns when
`pass_deadlines()` is due.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from vivavoce.agents.worker.effects import Connect, ConnectionLost, Disconnect, Effect, ReportRetry
from vivavoce.agents.worker.protocol import Registered

REGISTER_LIMIT = 10.0
"""Seconds from dialling to the register reply."""

BACKOFF_STEP = 2.0
MAX_BACKOFF = 10.0


class Phase(Enum):
    """The state of the connection."""

    APART = "no connection"
    DIALLING = "not registered yet"
    REGISTERED = "registered"
    CLOSING = "closing"


class Registration:
    """Decides about one worker's connections, of which there is one at a time.

    Args:
        max_retry: Failed connections in a row after which the worker gives up.
        jitter: Returns 0 … 1 s to add to a back-off, so that workers do not all reconnect at once.
    """

    def __init__(self, max_retry: int, jitter: Callable[[], float]) -> None:
        self._max_retry = max_retry
        self._jitter = jitter
        self._is_open = False
        self._closing_reason = ""
        self._connect_at: float | None = None
        self._register_deadline = 0.0
        self._retries = 0
        self.phase = Phase.APART
        self.number = 0
        """Of the connection, counted from 1."""
        self.worker_id = ""
        """The server's name for the worker; empty before the first register reply."""
        self.failure = ""
        """Why no further connection is tried; empty while one is."""

    def begin(self, now: float) -> None:
        """Have the first connection made now."""
        if self.phase is Phase.APART and not self.number:
            self._connect_at = now

    def is_current(self, connection: int) -> bool:
        """Return whether messages of that connection count."""
        return connection == self.number and self.phase in (Phase.DIALLING, Phase.REGISTERED)

    def opened(self, connection: int) -> bool:
        """Record that the websocket is open; return whether the worker registers on it."""
        if connection != self.number or self.phase is not Phase.DIALLING:
            return False
        self._is_open = True
        return True

    def registered(self, message: Registered) -> None:
        """Record the register reply."""
        self.phase = Phase.REGISTERED
        self._retries = 0
        self.worker_id = message.worker_id

    def close(self, reason: str = "") -> list[Effect]:
        """Close the connection; `reason` explains the loss that follows."""
        self.phase = Phase.CLOSING
        self._closing_reason = reason
        return [Disconnect(connection=self.number)]

    def left(self) -> None:
        """Record the loss of a connection that the worker has closed because it ends."""
        self.phase = Phase.APART
        self._closing_reason = ""

    def lost(self, lost: ConnectionLost, now: float) -> list[Effect]:
        """Record the loss of the connection: the next try follows, or `failure` says why none does."""
        reason, self._closing_reason = self._closing_reason or lost.reason, ""
        if self.phase is Phase.DIALLING and self._is_open:
            reason = f"the server hung up before it had registered the worker ({reason}); see its log"
        self.phase = Phase.APART
        if self.failure:
            return []
        self._retries += 1
        if (lost.is_refused and not self.worker_id) or self._retries > self._max_retry:
            tries = "" if lost.is_refused else f" (tried {self._retries} times)"
            self.failure = f"could not register with the LiveKit server: {reason}{tries}"
            return []
        delay = min(BACKOFF_STEP * (self._retries - 1), MAX_BACKOFF) + self._jitter()
        self._connect_at = now + delay
        return [ReportRetry(reason=reason, delay=delay, attempt=self._retries)]

    def next_deadline(self) -> float | None:
        """Return when `pass_deadlines()` is due; None if time changes nothing."""
        deadlines = [] if self._connect_at is None else [self._connect_at]
        if self.phase is Phase.DIALLING:
            deadlines.append(self._register_deadline)
        return min(deadlines, default=None)

    def pass_deadlines(self, now: float) -> list[Effect]:
        """Dial if it is time, and close a connection on which the register reply is late."""
        if self._connect_at is not None and self._connect_at <= now:
            return self._dial(now)
        if self.phase is Phase.DIALLING and self._register_deadline <= now:
            return self.close(f"the server did not register the worker within {REGISTER_LIMIT:g} s; see its log")
        return []

    def _dial(self, now: float) -> list[Effect]:
        self._connect_at = None
        self.number += 1
        self._is_open = False
        self.phase = Phase.DIALLING
        self._register_deadline = now + REGISTER_LIMIT
        return [Connect(connection=self.number)]
