"""TurnPredictor: the stage of a turn detector: one question at a time, within a limit, in the background."""

from __future__ import annotations

import logging

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.pipelines.core.boundary import Expected, provider_errors
from vivavoce.pipelines.core.errors import ProviderError, ProviderTimeoutError
from vivavoce.pipelines.core.reopening import Reopening
from vivavoce.pipelines.events import PipelineFailed, UserTurnPredicted
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.pipeline import PipelineContext
from vivavoce.pipelines.turn_detector.base import EndOfTurnPrediction, TurnContext, TurnDetector, TurnDetectorStream

logger = logging.getLogger(__name__)

COMPLETE = EndOfTurnPrediction(complete=True, probability=1.0)
"""The verdict that is used when the detector gives none."""

VERDICTS = Expected(EndOfTurnPrediction, complete=bool, probability=(int, float))
"""The verdicts that `TurnDetectorStream.predict()` may return."""


class TurnPredictor(Reopening[TurnDetectorStream]):
    """Asks one session's detector and emits its verdicts, `UserTurnPredicted`.

    `ask()`, `forget()` and `push()` are synchronous and may be called from anywhere on the loop; `run()` does the work.
    A failure is emitted as `PipelineFailed`. The turn then counts as complete.

    Args:
        limit: Seconds for one verdict, after which the turn counts as complete.
    """

    def __init__(self, detector: TurnDetector, limit: float, context: PipelineContext) -> None:
        super().__init__(detector.open, detector.provider, clock=context.clock, on_failure=self._report)
        self._limit = limit
        self._emit = context.emit
        self._question: TurnContext | None = None
        self._asked = anyio.Event()
        self._scope = anyio.CancelScope()
        self._life = anyio.CancelScope()
        self._is_left = False

    def push(self, frame: AudioFrame) -> None:
        """Have the detector hear a frame of the caller."""
        if self.stream is None:
            return
        try:
            self.stream.push(frame)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary to the detector's code: the next frame gets a new stream
            self.failed(error)

    def ask(self, question: TurnContext) -> None:
        """Ask the detector; an older question that is still open gets no verdict."""
        self._scope.cancel()
        self._question = question
        self._asked.set()

    def forget(self) -> None:
        """Drop the open question, since the user speaks again."""
        self._scope.cancel()
        self._question = None

    def leave(self) -> None:
        """End `run()`, and emit nothing more: another detector has taken over."""
        self._is_left = True
        self._life.cancel()

    async def serve(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Run `run()` as a part of its own."""
        task_status.started()
        await self.run()

    async def run(self) -> None:
        """Answer questions until cancelled, or until left."""
        with self._life:
            await self._answer()

    async def _answer(self) -> None:
        while True:
            await self._asked.wait()
            self._asked = anyio.Event()
            if self._question is None:
                continue
            question, self._question = self._question, None
            with anyio.CancelScope() as self._scope:
                verdict = await self._predict(question)
            if not self._scope.cancel_called:
                self._emit(UserTurnPredicted(verdict.complete, verdict.probability))

    async def _predict(self, question: TurnContext) -> EndOfTurnPrediction:
        stream = self.stream
        if stream is None:  # given up
            return COMPLETE
        try:
            with anyio.fail_after(self._limit), provider_errors(self.provider):
                verdict = await stream.predict(question)
                VERDICTS.check(verdict, self.provider)
                return verdict
        except TimeoutError:
            error: ProviderError = ProviderTimeoutError(f"no verdict within {self._limit} s", provider=self.provider)
        except ProviderError as failure:
            error = failure
        logger.warning("no end-of-turn verdict, the turn counts as complete: %s", error)
        self._report(error)
        return COMPLETE

    def _report(self, error: ProviderError, has_given_up: bool = False) -> None:
        if not self._is_left:
            self._emit(PipelineFailed(error, True, "turn_detector"))
