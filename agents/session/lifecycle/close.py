"""CloseSequence: runs the steps of a close, one after the other, within one budget."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import anyio
from anyio.abc import TaskGroup

from vivavoce.agents.records import CloseStep
from vivavoce.agents.telemetry.observer import Watch
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import describe
from vivavoce.pipelines.core.owned_call import OwnedCall
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors

logger = logging.getLogger(__name__)

STEP_RESERVE = 0.05
"""Part of the budget that is kept for each step still to come, so that a hanging one cannot starve them."""

UNWIND_SHARE = 0.5
"""Part of that reserve which a step that is cut gets for its `finally` blocks."""

Step = tuple[str, Callable[[], Awaitable[None]]]


class CloseSequence:
    """Runs steps; one that raises, hangs or ignores its cancellation is named, and the later ones still run.

    Args:
        budget: Seconds over all steps.
        group: Owns the steps, each of which is a call of its own.
        watch: Makes what watches a step, by its name.
    """

    def __init__(self, clock: Clock, budget: float, group: TaskGroup, watch: Callable[[str], Watch]) -> None:
        self._clock = clock
        self._budget = budget
        self._group = group
        self._watch = watch
        self._began = clock.now()
        self._told: list[Exception] = []
        self._task_ids: set[int] = set()

    @property
    def seconds(self) -> float:
        """How long the close has taken so far."""
        return self._clock.now() - self._began

    @property
    def seconds_left(self) -> float:
        """What is left of the budget."""
        return max(0.0, self._budget - self.seconds)

    @property
    def is_running_here(self) -> bool:
        """Whether the calling code is what the running step waits for."""
        return anyio.get_current_task().id in self._task_ids

    def note(self, error: Exception) -> None:
        """Blame the running step for an error that a part of the session reported by itself."""
        self._told.append(error)

    async def side_by_side(self, calls: Sequence[Callable[[], Awaitable[None]]]) -> None:
        """Make `calls`, the application's, in the running step; one that raises is named and costs no other its end."""

        async def make(call: Callable[[], Awaitable[None]]) -> None:
            try:
                with strays_as_errors("it"):
                    await self._call(call)
            except Exception as error:  # noqa: BLE001 - user code: a failure must not cost the others their cleanup
                self.note(error)

        async with anyio.create_task_group() as group:
            for call in calls:
                group.start_soon(make, call)

    async def run(self, steps: list[Step]) -> tuple[CloseStep, ...]:
        """Run `steps` in order and say how each of them went; a reserve is left for what follows them."""
        return tuple([await self._run_step(name, step, len(steps) - index) for index, (name, step) in enumerate(steps)])

    async def _run_step(self, name: str, step: Callable[[], Awaitable[None]], to_come: int) -> CloseStep:
        started, reserve = self._clock.now(), STEP_RESERVE * self._budget
        limit = max(self.seconds_left - to_come * reserve, reserve)
        raised: list[BaseException] = []
        call = OwnedCall(f"closing: {name}", partial(self._call, step), raised.append, is_shielded=True)
        unwind = UNWIND_SHARE * reserve
        with self._watch(name) as watch:
            self._group.start_soon(call.run, name=f"closing: {name}")
            await call.finish(limit - unwind, unwind)
            for error in [*raised, *self._told]:
                watch.failed(error)
        problems = [describe(error) for error in [*raised, *self._told]]
        if call.is_cut:
            stubborn = "" if call.is_done else " and ignores its cancellation"
            problems.insert(0, f"did not end within {limit:.2f} s{stubborn}")
        for error in raised:
            logger.debug("Closing: %s failed", name, exc_info=error)
        self._told = []
        if problems:
            logger.warning("Closing: %s: %s", name, "; ".join(problems))
        return CloseStep(name=name, seconds=self._clock.now() - started, error="; ".join(problems))

    async def _call(self, step: Callable[[], Awaitable[None]]) -> None:
        task_id = anyio.get_current_task().id
        self._task_ids.add(task_id)
        try:
            await step()
        finally:
            self._task_ids.discard(task_id)
