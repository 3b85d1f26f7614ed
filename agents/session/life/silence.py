"""Silence: the parts of a session that act when its caller, or its agent, would stay silent; and how it hangs up."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import anyio

from vivavoce.agents.audio.playout import Playout
from vivavoce.agents.audio.utterance import Utterance
from vivavoce.agents.core.call_site import calling_tool
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.hang_up import HangUp
from vivavoce.agents.core.inbox import LoopCall
from vivavoce.agents.core.speech_handle import SpeechHandle, calling_speech
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.session.turns.caller import Caller
from vivavoce.agents.session.turns.speeches import Speeches
from vivavoce.agents.session.turns.wake_up_call import WakeUpCall
from vivavoce.agents.speech.last_words import LastWords
from vivavoce.agents.states import CloseReason
from vivavoce.agents.turn.options import WakeUp
from vivavoce.pipelines.core.checks import check_flag
from vivavoce.pipelines.core.errors import VoiceError, describe

logger = logging.getLogger(__name__)

NAME = "hangup"
LEFT_TO_ROOM = (CloseReason.USER_INITIATED, CloseReason.USER_AWAY)
"""The reasons with which the session closes only when its caller has left."""


class HangUps:
    """Takes the requests of one session. Each runs in the session's group; the close waits for it or cuts it."""

    def __init__(self, context: SessionContext, speeches: Speeches, playout: Playout, caller: Caller) -> None:
        self._context = context
        self._speeches = speeches
        self._playout = playout
        self._caller = caller

    def ask(self, *, after_speech: bool) -> HangUp:
        """Disconnect the caller; from any thread. Raises as `AgentSession.hangup`."""
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


class Silence:
    """Wakes a silent caller up, disconnects one who stays silent, and has words for an agent that has none.

    Args:
        wake_up: How a silent caller is woken up at first.
    """

    def __init__(
        self,
        context: SessionContext,
        caller: Caller,
        playout: Playout,
        speeches: Speeches,
        wake_up: WakeUp | None,
        *,
        options: SessionOptions,
    ) -> None:
        self.wake_up = WakeUpCall(context, wake_up, limit=options.callback_timeout)
        self.last_words = LastWords(context, apology=options.apology, limit=options.speech.hook_timeout)
        self.hang_ups = HangUps(context, speeches, playout, caller)
