"""SpeechHandle: what `say()` and `reply()` return."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import Any

from vivavoce.agents.records import TurnOutcome
from vivavoce.agents.turn.inputs import InterruptRequested, SpeechKind, SpeechProtected
from vivavoce.pipelines.core.checks import check_flag, check_function
from vivavoce.pipelines.core.errors import SessionError, located

logger = logging.getLogger(__name__)

running_tool_of: ContextVar[str] = ContextVar("running_tool_of", default="")
"""In a tool's task, the id of the speech that called it."""

running_speech: ContextVar[SpeechHandle | None] = ContextVar("running_speech", default=None)
"""In a speech's task and what it starts, its handle."""


def holds_floor() -> bool:
    """Tell whether the calling code is what a speech waits for with the floor in its hands; tools are not."""
    speech = running_speech.get()
    return speech is not None and not speech.is_done and not running_tool_of.get()


class SpeechHandle:
    """One speech. Awaiting it resolves when everything it started is played out or dropped, whatever its outcome.

    Awaiting raises nothing but a `SessionError` where it could never resolve: in a tool that the speech itself runs.

    Args:
        tell: Enqueues an input of the turn machine and returns at once, from any thread.
    """

    def __init__(
        self,
        speech_id: str,
        kind: SpeechKind,
        *,
        interruptible: bool,
        tell: Callable[[InterruptRequested | SpeechProtected], None],
    ) -> None:
        self.id = speech_id
        self.kind = kind
        self.interruptible = interruptible
        self._tell = tell
        self._done = asyncio.Event()
        self._outcome: TurnOutcome | None = None
        self._error: Exception | None = None
        self._heard_text = ""
        self._played_seconds = 0.0
        self._callbacks: list[Callable[[SpeechHandle], None]] = []

    def __repr__(self) -> str:
        return f"SpeechHandle({self.id!r}, {self.kind!r}, outcome={self._outcome!r})"

    def __await__(self) -> Generator[Any, Any, None]:
        return self._wait().__await__()

    async def _wait(self) -> None:
        if running_tool_of.get() == self.id and not self._done.is_set():
            raise SessionError(
                f"speech {self.id!r} cannot be awaited inside a tool that it runs: it ends after the tool; "
                "return from the tool, or say() something else and await that"
            )
        await self._done.wait()

    @property
    def is_done(self) -> bool:
        """Whether the handle has resolved."""
        return self._done.is_set()

    @property
    def outcome(self) -> TurnOutcome | None:
        """What became of it; None until it is known."""
        return self._outcome

    @property
    def interrupted(self) -> bool:
        """Whether it was cut short while it could be heard."""
        return self._outcome == "interrupted"

    @property
    def heard_text(self) -> str:
        """What the caller has heard of it; grows step by step."""
        return self._heard_text

    @property
    def played_seconds(self) -> float:
        """Seconds of it that were played."""
        return self._played_seconds

    def exception(self) -> Exception | None:
        """Return what made it fail, if it has failed."""
        return self._error

    def interrupt(self, *, force: bool = False) -> None:
        """Stop it; a protected one needs `force`. Await the handle to know when it has stopped.

        Raises:
            ConfigurationError: `force` is no bool.
        """
        check_flag("force", force)
        self._tell(InterruptRequested(force=force, speech_id=self.id))

    def disallow_interruptions(self) -> None:
        """Protect it from now on: only `force` cuts it. Nothing happens if it is over or has been cut."""
        self.interruptible = False
        self._tell(SpeechProtected(self.id))

    def add_done_callback(self, callback: Callable[[SpeechHandle], None]) -> None:
        """Call `callback` once with the handle when it resolves, at once if it has. It must not block.

        Raises:
            ConfigurationError: `callback` cannot be called.
        """
        check_function("callback", callback)
        if self._done.is_set():
            self._call(callback)
        else:
            self._callbacks.append(callback)

    # For the session: applications only read a handle and interrupt it.

    def add_heard(self, text: str, seconds: float) -> None:
        """For the session: note what was heard of one step."""
        self._heard_text = f"{self._heard_text} {text}".strip()
        self._played_seconds += seconds

    def set_outcome(self, outcome: TurnOutcome, error: Exception | None = None) -> None:
        """For the session: note the outcome and resolve."""
        if self._outcome is not None:  # left behind by a close that had given it an outcome
            return
        self._outcome = outcome
        self._error = error
        self.resolve()

    def resolve(self) -> None:
        """For the session: wake who awaits; the outcome may still be open when only the generation was waited for."""
        if self._done.is_set():
            return
        self._done.set()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            self._call(callback)

    def _call(self, callback: Callable[[SpeechHandle], None]) -> None:
        try:
            callback(self)
        except Exception as error:  # noqa: BLE001 - a user callback must not keep a speech from ending
            logger.error("A done callback of speech %s raised %s", self.id, located(error))
            logger.debug("It raised here", exc_info=error)
