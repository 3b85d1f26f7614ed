"""Admission: the tokens that webhooks give out, each of which admits one stream, once, for a while."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from vivavoce.agents.transports.media_stream.webhook import IncomingCall

VALID_SECONDS = 30.0
MOST_WAITING = 10_000
"""Calls that may wait for their streams."""


class Admission:
    """The calls that were answered and whose streams have not come yet.

    Args:
        now: Returns seconds of a clock that goes on steadily.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._waiting: dict[str, tuple[float, IncomingCall]] = {}

    @property
    def waiting(self) -> int:
        """The calls whose streams have not come yet, and may."""
        self._forget()
        return len(self._waiting)

    def mint(self, call: IncomingCall) -> str:
        """Return a token for the stream of a call: letters and digits, since some vendors take nothing else."""
        self._forget()
        while len(self._waiting) >= MOST_WAITING:
            self._waiting.pop(next(iter(self._waiting)))
        token = secrets.token_hex(16)
        self._waiting[token] = self._now() + VALID_SECONDS, call
        return token

    def admit(self, token: str) -> IncomingCall | None:
        """Return the call of a token that holds; None for a token that is none, was used, or is too old."""
        self._forget()
        found = self._waiting.pop(token, None)
        return None if found is None else found[1]

    def _forget(self) -> None:
        now = self._now()
        while self._waiting:
            oldest = next(iter(self._waiting))
            if self._waiting[oldest][0] > now:
                return
            del self._waiting[oldest]
