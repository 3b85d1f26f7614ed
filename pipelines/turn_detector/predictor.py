"""Asking a turn detector in the background: one question at a time, a limit, and nothing for stale ones."""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio

from vivavoce.pipelines.core.errors import ProviderError, ProviderTimeoutError
from vivavoce.pipelines.turn_detector.base import EndOfTurnPrediction, TurnContext, TurnDetectorStream

logger = logging.getLogger(__name__)

COMPLETE = EndOfTurnPrediction(complete=True, probability=1.0)
"""What counts when there is no verdict."""


class TurnPredictor:
    """Puts questions to one session's detector and hands the verdicts to a callback.

    `ask()` and `forget()` are synchronous and may be called from anywhere on the loop; the work is done in `run()`.

    Args:
        stream: The detector; whoever opened it closes it.
        on_verdict: Called with each verdict that is still wanted.
        limit: Seconds for one verdict, after which the turn counts as complete.
        provider: The detector's name, for errors.
    """

    def __init__(
        self,
        stream: TurnDetectorStream,
        on_verdict: Callable[[EndOfTurnPrediction], None],
        *,
        limit: float,
        provider: str,
    ) -> None:
        self._stream = stream
        self._on_verdict = on_verdict
        self._limit = limit
        self._provider = provider
        self._question: TurnContext | None = None
        self._asked = anyio.Event()
        self._scope = anyio.CancelScope()

    def ask(self, question: TurnContext) -> None:
        """Ask; a question that is still open is stale by this."""
        self._scope.cancel()
        self._question = question
        self._asked.set()

    def forget(self) -> None:
        """Drop the open question: the user speaks again."""
        self._scope.cancel()
        self._question = None

    async def run(self) -> None:
        """Answer questions until cancelled."""
        while True:
            await self._asked.wait()
            self._asked = anyio.Event()
            if self._question is None:
                continue
            question, self._question = self._question, None
            with anyio.CancelScope() as self._scope:
                verdict = await self._predict(question)
            if not self._scope.cancel_called:
                self._on_verdict(verdict)

    async def _predict(self, question: TurnContext) -> EndOfTurnPrediction:
        try:
            with anyio.fail_after(self._limit):
                return await self._stream.predict(question)
        except TimeoutError:
            error: ProviderError = ProviderTimeoutError(f"no verdict within {self._limit} s", provider=self._provider)
        except ProviderError as failure:
            error = failure
        logger.warning("no end-of-turn verdict, the turn counts as complete: %s", error)
        return COMPLETE
