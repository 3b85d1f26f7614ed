"""CloseSequence: runs the steps of a close, one after the other, within one budget. The steps: `close.py`.

`write_report` writes the report of the session to a file behind them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import anyio
import anyio.to_thread

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.hooks import Run
from vivavoce.agents.records import CloseStep, SessionReport
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import describe

logger = logging.getLogger(__name__)

STEP_RESERVE = 0.05
"""Part of the budget that is kept for each step still to come, so that a hanging one cannot starve them."""

UNWIND_SHARE = 0.5
"""Part of that reserve for the `finally` blocks of a step that is cut."""

REPORT_LIMIT = 2.0
"""Seconds for the report; the session does not wait longer for a slow disk."""

Step = tuple[str, Callable[[], Awaitable[None] | None]]
"""Name and call of a step. A call that leaves nothing to wait for returns None; the step takes no task then."""


class CloseSequence:
    """Runs steps; one that raises, hangs or ignores its cancellation is named, and the later ones still run.

    Args:
        budget: Seconds over all steps.
    """

    def __init__(self, context: SessionContext, budget: float) -> None:
        self._context = context
        self._budget = budget
        self._began = context.clock.now()
        context.closing.begin()

    @property
    def seconds(self) -> float:
        """How long the close has taken so far."""
        return self._context.clock.now() - self._began

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._budget - self.seconds)

    def side_by_side(self, calls: Sequence[Callable[[], Awaitable[None]]]) -> Awaitable[None] | None:
        """Make `calls`, the application's, in the running step. The error of one is noted, and all run to their end."""
        return self._side_by_side(calls) if calls else None

    async def _side_by_side(self, calls: Sequence[Callable[[], Awaitable[None]]]) -> None:
        async def make(call: Callable[[], Awaitable[None]]) -> None:
            try:
                await Run(self._context.hooks, "close step", "it").make(call)
            except Exception as error:  # noqa: BLE001 - user code: a failure must not cost the others their cleanup
                self._context.closing.note(error)

        async with anyio.create_task_group() as group:
            for call in calls:
                group.start_soon(make, call)

    async def run(self, steps: list[Step]) -> tuple[CloseStep, ...]:
        """Run `steps` in order and return how each of them went; a reserve is left for the work after them."""
        return tuple([await self._run_step(name, step, len(steps) - index) for index, (name, step) in enumerate(steps)])

    async def _run_step(self, name: str, step: Callable[[], Awaitable[None] | None], to_come: int) -> CloseStep:
        started, reserve = self._context.clock.now(), STEP_RESERVE * self._budget
        limit = max(self.seconds_left - to_come * reserve, reserve)
        unwind = UNWIND_SHARE * reserve
        with self._context.observer.phase_step("close", name) as watch:
            raised: list[BaseException] = []
            hung = ""
            try:
                waits = step()
            except Exception as error:  # noqa: BLE001 - a bug of ours: the later steps still run
                waits, raised = None, [error]
            if waits is not None:
                run = self._context.hooks.start(
                    "close step", f"closing: {name}", lambda: waits, limit - unwind, source=None, is_shielded=True
                )
                await run.finish(unwind)
                if run.late is not None:
                    stubborn = "" if run.is_over else " and ignores its cancellation"
                    hung = f"did not end within {limit:.2f} s{stubborn}"
                if run.error is not None and run.error is not run.late:
                    raised = [run.error]
            errors = [*raised, *self._context.closing.take_errors()]
            for problem in errors:
                watch.failed(problem)
        problems = [*filter(None, [hung]), *map(describe, errors)]
        for problem in raised:
            logger.debug("Closing: %s failed", name, exc_info=problem)
        if problems:
            logger.warning("Closing: %s: %s", name, "; ".join(problems))
        return CloseStep(name=name, seconds=self._context.clock.now() - started, error="; ".join(problems))


async def write_report(path: Path, report: SessionReport, clock: Clock) -> None:
    """Write the report in a thread; a failure is logged only, since the session has closed.

    Only the owner may read the file, since it holds the conversation's words if `capture_content` is on.
    """
    from vivavoce.agents.reports.files import write_new

    with clock.hold(), anyio.move_on_after(REPORT_LIMIT) as scope:
        try:
            written = await anyio.to_thread.run_sync(write_new, path, report, abandon_on_cancel=True)
        except Exception as error:  # noqa: BLE001 - disks fail, and the application's values may not be JSON
            logger.error("The report of session %s cannot be written to %s: %s", report.session_id, path, _told(error))
        else:
            logger.info("The report of session %s is %s", report.session_id, written)
    if scope.cancelled_caught:
        logger.error(
            "The report of session %s was not written to %s within %g s", report.session_id, path, REPORT_LIMIT
        )


def _told(error: Exception) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else describe(error)
