"""HangUp: the awaitable result of `session.hangup()`."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import anyio

from vivavoce.agents.core.inbox import LoopCall
from vivavoce.agents.core.stage_run import calling_stage
from vivavoce.pipelines.core.errors import SessionClosedError, SessionError, VoiceError


class HangUp:
    """One request; awaiting it means that the caller is disconnected. Not awaiting it is fine.

    Args:
        own: The id of the speech that asked by its code or by a tool of it; empty if none did.
        in_tool: Whether a tool asked.
        is_here: Whether it was asked on the session's loop.
        after_speech: Whether it waits for the speech before it.
    """

    def __init__(self, own: str, *, in_tool: bool, is_here: bool, after_speech: bool = True) -> None:
        self.own = own
        self._after_speech = after_speech
        self._waits_for_own = False
        """Whether it waits for words of the speech that asked."""
        self._begun: LoopCall | None = None
        self._is_running = False
        """Whether a task works on it, which sets `_done`."""
        self._done = anyio.Event()
        self._closing: anyio.Event | None = None
        """Set when no answer is begun any more, where the session closes now."""
        self._error: VoiceError | None = SessionClosedError("the session closed before the caller was disconnected")
        """The failure; None after a success. Before the end it says that the session closed."""
        self._in_tool = in_tool
        self._is_here = is_here

    def __await__(self) -> Generator[Any, Any, None]:
        return self._wait().__await__()

    async def _wait(self) -> None:
        if not self._is_here:
            raise SessionError(
                "hangup() was called in a thread, where it acts but cannot be awaited; await it on the session's loop"
            )
        if self._waits_for_own and not self._in_tool and not self._done.is_set():
            raise SessionError(
                f"hangup() cannot be awaited inside speech {self.own!r}, whose words it waits for: do not await it; it "
                "acts when they have been heard"
            )
        stage = calling_stage()
        if stage is not None and self._after_speech and not self._done.is_set():
            raise SessionError(
                f"hangup() cannot be awaited in {stage.name}: it waits for speech, and {stage.holds_up} waits for this "
                "code; do not await it: it acts when the speech has been heard"
            )
        assert self._begun is not None, "on the loop it is begun when it is asked for"
        await self._begun.reached.wait()
        if self._is_running:
            await self._done.wait()
        if self._error is not None:
            raise self._error
        if self._in_tool and self._closing is not None:
            await self._closing.wait()  # a tool that returned before would be answered by the model, without a caller

    def queue(self, begun: LoopCall, *, waits_for_own: bool) -> None:
        """Note its place in the inbox, and whether it waits for words of the speech that asked."""
        self._begun, self._waits_for_own = begun, waits_for_own

    def begin(self) -> None:
        """Note that a task works on it, which calls `end()`."""
        self._is_running = True

    def succeed(self, closing: anyio.Event | None) -> None:
        """Note that the caller is disconnected; `closing` is set when the session begins no answer any more."""
        self._error, self._closing = None, closing

    def fail(self, error: VoiceError) -> None:
        """Note the failure."""
        self._error = error

    def end(self) -> None:
        """Let the code that awaits it go on."""
        self._done.set()
