"""StageRun: application code in a stream of the session, such as an `llm_stage`: it runs whenever an item is wanted.

The stream waits for the code, and with it the answer, or the caller's words. A wait of the code for something that
comes after them would never end, so it is refused at once. Code that the hook starts in tasks of its own may wait for
anything.
"""

from __future__ import annotations

from asyncio import current_task
from contextlib import AbstractContextManager
from contextvars import Token
from typing import Protocol

from vivavoce.agents.core.application_code import application_code, reads_streams
from vivavoce.agents.core.call_site import CallSite, call_site, call_sites


class Limits(Protocol):
    """The limits of a stream."""

    def standing_still(self) -> AbstractContextManager[None]:
        """Return a block in which the limits do not count."""
        ...


class StageRun(CallSite):
    """One run of a hook.

    Args:
        name: Such as `"llm_stage"`.
        holds_up: The part of the conversation that waits for the hook, such as "the answer".
        limits: Have a `standing_still()` for waits of the hook that have limits of their own.
    """

    def __init__(self, name: str, holds_up: str, limits: Limits) -> None:
        super().__init__()
        self.name = name
        self.holds_up = holds_up
        self.limits = limits
        self._tasks: list[int] = []
        """The tasks that run its code now; one is in it as often as it has begun."""

    @property
    def is_over(self) -> bool:
        """Whether none of its code runs."""
        return not self._tasks

    @property
    def runs_here(self) -> bool:
        """Whether the calling task runs its code."""
        return id(current_task()) in self._tasks

    def code(self) -> application_code:
        """Return a block for code of the hook, which ends with nothing worse than an `Exception`."""
        return _Code(self)

    def begin(self) -> tuple[Token[CallSite | None], int]:
        """Note that the calling task runs the stage's code from here on."""
        task_id = id(current_task())
        self._tasks.append(task_id)
        return call_site.set(self), task_id

    def end(self, token: Token[CallSite | None], task_id: int) -> None:
        """Note that the calling task has left the stage's code."""
        call_site.reset(token)
        self._tasks.remove(task_id)


class _Code(application_code):
    __slots__ = ("_begun", "_reading", "_run")

    def __init__(self, run: StageRun) -> None:
        super().__init__(run.name)
        self._run = run
        self._reading = reads_streams()

    def __enter__(self) -> None:
        super().__enter__()
        self._begun = self._run.begin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._run.end(*self._begun)
        super().__exit__(kind, error, trace)

    async def __aenter__(self) -> None:
        await super().__aenter__()
        self._reading.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._reading.__exit__()
        await super().__aexit__(kind, error, trace)


def calling_stage() -> StageRun | None:
    """Return the run of a hook of a stage whose code the calling task is, if it is."""
    return next((site for site in call_sites() if isinstance(site, StageRun) and site.runs_here), None)
