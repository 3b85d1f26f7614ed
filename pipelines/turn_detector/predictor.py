"""Asking a turn detector in the background: one question at a time, a limit, and nothing for stale ones."""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio

from vivavoce.pipelines.core.boundary import Expected, provider_errors
from vivavoce.pipelines.core.errors import ProviderError, ProviderTimeoutError
from vivavoce.pipelines.core.reopening import Reopening
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.turn_detector.base import EndOfTurnPrediction, TurnContext, TurnDetectorStream

logger = logging.getLogger(__name__)

COMPLETE = EndOfTurnPrediction(complete=True, probability=1.0)
"""What counts when there is no verdict."""


VERDICTS = Expected(EndOfTurnPrediction, complete=bool, probability=(int, float))
"""What `TurnDetectorStream.predict()` may return."""


class TurnPredictor:
    """Puts questions to one session's detector and hands the verdicts to a callback.

    `ask()`, `forget()` and `push()` are synchronous and may be called from anywhere on the loop; the work is done in
    `run()`.

    Args:
        stream: The detector; whoever opened it closes it.
        on_verdict: Called with each verdict that is still wanted.
        on_failure: Called with each failure of a verdict, which counts as complete.
        limit: Seconds for one verdict, after which the turn counts as complete.
    """

    def __init__(
        self,
        stream: Reopening[TurnDetectorStream],
        on_verdict: Callable[[EndOfTurnPrediction], None],
        *,
        on_failure: Callable[[ProviderError], None],
        limit: float,
    ) -> None:
        self._stream = stream
        self._on_verdict = on_verdict
        self._on_failure = on_failure
        self._limit = limit
        self._provider = stream.provider
        self._question: TurnContext | None = None
        self._asked = anyio.Event()
        self._scope = anyio.CancelScope()

    def push(self, frame: AudioFrame) -> None:
        """Have the detector hear a frame of the caller."""
        if self._stream.stream is None:
            return
        try:
            self._stream.stream.push(frame)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary to the detector's code: the next frame gets a new one
            self._stream.failed(error)

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
        stream = self._stream.stream
        if stream is None:  # given up
            return COMPLETE
        try:
            with anyio.fail_after(self._limit), provider_errors(self._provider):
                verdict = await stream.predict(question)
                VERDICTS.check(verdict, self._provider)
                return verdict
        except TimeoutError:
            error: ProviderError = ProviderTimeoutError(f"no verdict within {self._limit} s", provider=self._provider)
        except ProviderError as failure:
            error = failure
        logger.warning("no end-of-turn verdict, the turn counts as complete: %s", error)
        self._on_failure(error)
        return COMPLETE
