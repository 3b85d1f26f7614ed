"""A run of harnesses on a loop of virtual time of its own, and the time that several of them share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from vivavoce.agents.testing.run import Run
from vivavoce.pipelines.core.errors import first_error
from vivavoce.pipelines.testing import run_virtual

H = TypeVar("H")


def run_alone(main: Callable[[], Coroutine[Any, Any, None]], *, limit: float) -> None:
    """Run `main` on a loop of virtual time of its own.

    Args:
        limit: Virtual seconds after which the run counts as endless.
    Raises:
        RuntimeError: A loop runs already.
    """
    if _has_loop():
        raise RuntimeError(
            "run() brings a loop of virtual time of its own, and this test has a loop already: write `def` instead "
            "of `async def`, or `async with SessionHarness(...) as harness:` without run()"
        )
    try:
        run_virtual(main(), limit=limit)
    except BaseExceptionGroup as group:  # errors of the scenario and of the start, side by side
        raise first_error(group) from group


async def begun(scenario: Callable[[H], Awaitable[None]], harness: H) -> None:
    """Run a scenario of a test.

    Raises:
        TypeError: It is no async function.
    """
    going = scenario(harness)
    if not isinstance(going, Awaitable):
        raise TypeError(
            f"a scenario is an async function of the harness, got {scenario!r}, which returned "
            f"{going!r}: write `async def`"
        )
    await going


def _has_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class SharedTime:
    """The time of several harnesses: a session that ends while others run is checked when all of them are over."""

    def __init__(self) -> None:
        self.tasks_before = asyncio.all_tasks()
        self._ended: list[tuple[Run, Callable[[], None]]] = []

    def ended(self, run: Run, check: Callable[[], None]) -> None:
        """Note a session that was closed, and the check of its run."""
        self._ended.append((run, check))

    def check(self) -> None:
        """Check all runs.

        Raises:
            Exception: The first one that fails; the others are its notes.
        """
        failures: list[Exception] = []
        for run, check in reversed(self._ended):  # in the order of their starts
            run.count_timers()
            try:
                check()
            except Exception as error:  # noqa: BLE001 - raised below, as soon as all runs are checked
                error.add_note(f"in the session {run.session.id!r}")
                failures.append(error)
        for other in failures[1:]:
            failures[0].add_note("\n".join(["besides:", str(other), *other.__notes__]))
        if failures:
            raise failures[0]


_current: ContextVar[SharedTime | None] = ContextVar("vivavoce_shared_time", default=None)


def current_shared_time() -> SharedTime | None:
    """Return the time that the harnesses of the calling code share, if they share one."""
    return _current.get()


@contextmanager
def shared_time() -> Iterator[SharedTime]:
    """Let all harnesses that are entered in this context share their time."""
    token = _current.set(shared := SharedTime())
    try:
        yield shared
    finally:
        _current.reset(token)
