"""CloseSequence: runs the steps of a close, one after the other, within one budget."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import anyio

from vivavoce.agents.records import CloseStep
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import describe

logger = logging.getLogger(__name__)

STEP_RESERVE = 0.05
"""Part of the budget that is kept for each step still to come, so that a hanging one cannot starve them."""

Step = tuple[str, Callable[[], Awaitable[None]]]


class CloseSequence:
    """Runs steps; one that raises or hangs is named, and the later ones still run.

    Args:
        budget: Seconds over all steps.
    """

    def __init__(self, clock: Clock, budget: float) -> None:
        self._clock = clock
        self._budget = budget
        self._began = clock.now()
        self._told: list[Exception] = []

    @property
    def seconds(self) -> float:
        """How long the close has taken so far."""
        return self._clock.now() - self._began

    @property
    def seconds_left(self) -> float:
        """What is left of the budget, or the least that any step gets."""
        return self._limit(steps_to_come=0)

    def note(self, error: Exception) -> None:
        """Blame the running step for an error that a part of the session reported by itself."""
        self._told.append(error)

    async def run(self, steps: list[Step]) -> tuple[CloseStep, ...]:
        """Run `steps` in order and say how each of them went."""
        return tuple(
            [await self._run_step(name, step, len(steps) - index - 1) for index, (name, step) in enumerate(steps)]
        )

    def _limit(self, *, steps_to_come: int) -> float:
        reserve = STEP_RESERVE * self._budget
        return max(self._budget - self.seconds - steps_to_come * reserve, reserve)

    async def _run_step(self, name: str, step: Callable[[], Awaitable[None]], steps_to_come: int) -> CloseStep:
        started, error = self._clock.now(), ""
        limit = self._limit(steps_to_come=steps_to_come)
        try:
            with anyio.fail_after(limit):
                await step()
        except TimeoutError:
            error = f"did not end within {limit:.2f} s"
        except Exception as problem:  # noqa: BLE001 - the later steps still run, and the report names this one
            error = describe(problem)
            logger.warning("Closing: %s failed", name, exc_info=problem)
        told, self._told = self._told, []
        error = error or "; ".join(describe(problem) for problem in told)
        if error:
            logger.warning("Closing: %s %s", name, error)
        return CloseStep(name=name, seconds=self._clock.now() - started, error=error)
