"""A judge of a content guard, by words."""

from __future__ import annotations

import anyio

from vivavoce.agents import GuardedText, GuardVerdict


class Judge:
    """Gives the verdict of the first word that a text contains, `seconds` later, and keeps what it was asked."""

    def __init__(self, seconds: float = 0.0, **verdicts: GuardVerdict) -> None:
        self._seconds = seconds
        self._verdicts = verdicts
        self.given: list[GuardedText] = []

    @property
    def texts(self) -> list[str]:
        return [given.text for given in self.given]

    async def __call__(self, given: GuardedText) -> GuardVerdict | None:
        self.given.append(given)
        await anyio.sleep(self._seconds)
        return next((verdict for word, verdict in self._verdicts.items() if word in given.text), None)
