"""HangUps: disconnects the caller, after the caller has heard the speech before."""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from typing import Any

import anyio

from vivavoce.agents.audio.playout import Playout
from vivavoce.agents.audio.utterance import Utterance
from vivavoce.agents.core.call_site import calling_tool
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.inbox import LoopCall
from vivavoce.agents.core.speech_handle import SpeechHandle, calling_speech
from vivavoce.agents.core.stage_run import calling_stage
from vivavoce.agents.session.turns.caller import Caller
from vivavoce.agents.session.turns.speeches import Speeches
from vivavoce.agents.states import CloseReason
from vivavoce.pipelines.core.checks import check_flag
from vivavoce.pipelines.core.errors import SessionClosedError, SessionError, VoiceError, describe

logger = logging.getLogger(__name__)

NAME = "hangup"
LEFT_TO_ROOM = (CloseReason.USER_INITIATED, CloseReason.USER_AWAY)
"""The reasons with which the session closes only when its caller has left."""


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
        self._error = error

    def end(self) -> None:
        """Let the code that awaits it go on."""
        self._done.set()


class HangUps:
    """Takes the requests of one session. Each runs in the session's group; the close waits for it or cuts it."""

    def __init__(self, context: SessionContext, speeches: Speeches, playout: Playout, caller: Caller) -> None:
        self._context = context
        self._speeches = speeches
        self._playout = playout
        self._caller = caller

    def ask(self, *, after_speech: bool) -> HangUp:
        """Disconnect the caller; from any thread.

        Raises:
            SessionNotStartedError, SessionClosedError: There is no caller to disconnect.
            ConfigurationError: The transport cannot; the error names the keys that it lacks.
        """
        check_flag("after_speech", after_speech)
        self._context.check_open()
        self._caller.transport.check_hangup()
        tool, speech = calling_tool(), calling_speech()
        own = tool.speech_id if tool is not None else "" if speech is None else speech.id
        here = self._context.inbox.is_here
        request = HangUp(own, in_tool=tool is not None, is_here=here, after_speech=after_speech)
        self._context.inbox.on_loop(lambda: self._begin(request, CloseReason.USER_INITIATED, after_speech=after_speech))
        return request

    @property
    def handles(self) -> list[SpeechHandle]:
        return self._speeches.handles

    def end_call(self, reason: CloseReason) -> None:
        """Disconnect the caller at once, and close the session for that reason; where the first fails, only close."""
        self._begin(HangUp("", in_tool=False, is_here=True), reason, after_speech=False)

    def after_silence(self) -> None:
        """Disconnect a caller who has answered no wake-up; where that fails, the session closes all the same."""
        self._begin(HangUp("", in_tool=False, is_here=True), CloseReason.USER_AWAY, after_speech=True)

    def _begin(self, request: HangUp, reason: CloseReason, *, after_speech: bool) -> None:
        before: list[SpeechHandle] = []
        own_words: Utterance | None = None
        if after_speech:
            before = [handle for handle in self._speeches.handles if handle.id != request.own]
            own_words = self._speeches.unplayed(request.own)

        async def work() -> None:
            try:
                if after_speech:
                    await self.heard(before, own_words)
                await self._caller.hang_up(reason)
                if reason not in LEFT_TO_ROOM:  # also where the room goes on without its caller
                    self._context.closing.request(reason)
                closing = self._context.closing
                request.succeed(closing.heard_out if closing.is_asked else None)
            except VoiceError as error:
                request.fail(error)
                self._failed(error, reason)
            finally:
                request.end()

        def begin() -> None:
            request.begin()
            self._context.hooks.start("callback", NAME, work)

        begun = LoopCall(begin)
        request.queue(begun, waits_for_own=own_words is not None)
        self._context.inbox.post(begun)

    async def heard(self, before: Sequence[SpeechHandle], own_words: Utterance | None = None) -> None:
        """Wait until the caller has heard those speeches, and the audio of the speech that asked.

        Raises:
            SessionNotStartedError: The session is not in its room yet.
        """
        transport = self._caller.transport  # raises before the room is joined
        if own_words is not None:
            await own_words.done.wait()
        for handle in before:
            await handle
            rest = self._speeches.unplayed(handle.id)
            if rest is not None:  # a handle may resolve when all is generated
                await rest.done.wait()
        await self._playout.drained()
        await anyio.sleep(transport.tail)

    def _failed(self, error: VoiceError, reason: CloseReason) -> None:
        logger.warning("The caller could not be disconnected: %s", describe(error))
        self._context.report_error(error, "room")
        if reason is not CloseReason.USER_INITIATED:
            self._context.closing.request(reason)
