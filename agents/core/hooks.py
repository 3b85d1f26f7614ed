"""HookRun: one run of `on_enter` or `on_exit`, what it has spoken, and how long it may take."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

import anyio

from vivavoce.agents.agent import Session
from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.pipelines.core.checks import awaited
from vivavoce.pipelines.core.owned_call import UNWIND_LIMIT

logger = logging.getLogger(__name__)


class HookRun:
    """Runs a hook in the calling task. What the hook, and what it starts, asks to be spoken belongs to it.

    Args:
        name: "on_enter" or "on_exit".
        session: The one that the agent comes to or goes from.
    """

    def __init__(self, name: str, hook: Callable[[], Awaitable[None]], session: Session) -> None:
        self.name = name
        self.session = session
        self.handles: list[SpeechHandle] = []
        self._hook = hook
        self._scope = anyio.CancelScope()
        self._over = anyio.Event()
        self._news = anyio.Event()

    @property
    def is_over(self) -> bool:
        """Whether the hook has returned, raised or been cut."""
        return self._over.is_set()

    async def run(self) -> None:
        """Run the hook; what it raises comes out."""
        _running_hook.set(self)  # in this task, and in what the hook starts
        try:
            with self._scope:
                await awaited(self.name, self._hook())
        finally:
            self._over.set()
            self._news.set()

    def take(self, handle: SpeechHandle) -> None:
        """The hook asked for that speech."""
        self.handles.append(handle)
        self._news.set()

    def cut(self) -> None:
        """Cancel the hook."""
        self._scope.cancel()

    async def finish(self, limit: float) -> bool:
        """Wait for the hook and for what it has spoken; False if it had to be cut.

        Args:
            limit: Seconds that it may take, counted anew from the end of each speech that it asked for.
        """
        while not self.is_over:
            await self._spoken()
            if self.is_over:
                break
            self._news = anyio.Event()
            with anyio.move_on_after(limit) as waiting:
                await self._news.wait()
            if waiting.cancelled_caught:
                self.cut()
                with anyio.move_on_after(UNWIND_LIMIT):
                    await self._over.wait()
                if not self.is_over:
                    logger.error("%s ignores its cancellation and is left behind", self.name)
                return False
        await self._spoken()
        return True

    async def wait(self) -> None:
        """Wait for the end of the hook, however long."""
        await self._over.wait()

    async def _spoken(self) -> None:
        for handle in self.handles:  # which may grow meanwhile
            await handle


_running_hook: ContextVar[HookRun | None] = ContextVar("running_hook", default=None)


def running_hook(session: Session) -> HookRun | None:
    """Return the hook of that session which the calling code is part of, while it runs."""
    hook = _running_hook.get()
    return None if hook is None or hook.is_over or hook.session is not session else hook
