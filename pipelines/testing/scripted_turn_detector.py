"""ScriptedTurnDetector: a turn detector with verdicts by a test's script."""

from __future__ import annotations

from typing import Self

import anyio

from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.testing.script import wait
from vivavoce.pipelines.turn_detector.base import (
    EndOfTurnPrediction,
    TurnContext,
    TurnDetector,
    TurnDetectorCapabilities,
    TurnDetectorStream,
)

Verdict = bool | ProviderError
"""Whether a turn is complete, or the error that is raised instead."""


class ScriptedTurnDetector(TurnDetector):
    """Answers the n-th question with the n-th verdict, or a question by the turn's last words, if `when()` has them.

    `ScriptedTurnDetector(False, True)`, or `ScriptedTurnDetector().when("a table for", False)`.

    Args:
        verdicts: The script.
        default: The verdict when the script has run out.
        delay: Seconds for each verdict; `HANG` for ever.
    """

    provider = "scripted"

    def __init__(
        self,
        *verdicts: Verdict,
        default: Verdict = True,
        delay: float = 0.0,
        capabilities: TurnDetectorCapabilities | None = None,
    ) -> None:
        self._verdicts = list(verdicts)
        self._keyed: list[tuple[str, Verdict]] = []
        self._default = default
        self._delay = delay
        self._capabilities = capabilities or TurnDetectorCapabilities()
        self.asked: list[TurnContext] = []
        """The questions, oldest first."""
        self.asked_at: list[float] = []
        """Loop times of the questions."""

    @property
    def capabilities(self) -> TurnDetectorCapabilities:
        """The given capabilities."""
        return self._capabilities

    def when(self, words: str, verdict: Verdict) -> Self:
        """Give this verdict on a turn that ends with `words`, in upper or lower case; the first match counts."""
        self._keyed.append((words.casefold(), verdict))
        return self

    def open(self) -> TurnDetectorStream:
        """Return a stream; all of them share the script."""
        return _Stream(self)

    async def judge(self, context: TurnContext) -> EndOfTurnPrediction:
        """Give the next verdict.

        Raises:
            ProviderError: The script raises it.
        """
        self.asked.append(context)
        self.asked_at.append(anyio.current_time())
        verdict = self._verdict(context.text.rstrip().casefold())
        await wait(self._delay)
        if isinstance(verdict, ProviderError):
            raise verdict
        return EndOfTurnPrediction(verdict, 0.9 if verdict else 0.1)

    def _verdict(self, text: str) -> Verdict:
        for words, verdict in self._keyed:
            if text.endswith(words):
                return verdict
        return self._verdicts.pop(0) if self._verdicts else self._default


class _Stream(TurnDetectorStream):
    """One session's questions."""

    def __init__(self, detector: ScriptedTurnDetector) -> None:
        self._detector = detector

    async def predict(self, context: TurnContext) -> EndOfTurnPrediction:
        return await self._detector.judge(context)
