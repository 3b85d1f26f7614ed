"""SpeechRequests: takes the speeches and the interruptions that an application asks for, in any thread."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from dataclasses import replace

from vivavoce.agents.core.call_site import calling_tool
from vivavoce.agents.core.inbox import InterruptedFromThread
from vivavoce.agents.core.speech_handle import SpeechControl, SpeechHandle
from vivavoce.agents.session.turns.speeches import Speeches
from vivavoce.agents.session.turns.wake_up_call import WakeUpCall
from vivavoce.agents.speech.request import SpeechRequest, checked_priority, checked_when_busy
from vivavoce.agents.speech.transcripts import TranscriptFeed
from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.core.checks import check_flag

logger = logging.getLogger(__name__)


class SpeechRequests:
    """Makes each request an input of the session's loop, with the code that asks; the turn machine decides.

    Args:
        transcripts: Gets the records of speeches that are discarded at once.
    """

    def __init__(self, speeches: Speeches, transcripts: TranscriptFeed, wake_up: WakeUpCall) -> None:
        self._context = speeches.session
        self._speeches = speeches
        self._transcripts = transcripts
        self._wake_up = wake_up

    def ask(
        self,
        kind: i.SpeechKind,
        request: SpeechRequest,
        *,
        interruptible: bool,
        priority: int,
        when_busy: i.WhenBusy | None,
    ) -> SpeechHandle:
        """Make a speech and ask for the floor; raises as `AgentSession.say` and `reply`."""
        check_flag("interruptible", interruptible)
        asked = i.SpeechRequested(
            speech_id="",
            kind=kind,
            interruptible=interruptible,
            priority=checked_priority(priority),
            when_busy=checked_when_busy(kind, when_busy),
            is_whole=isinstance(request.text, str),
        )
        self._context.check_open()
        speech = self._speeches.make(kind, interruptible=interruptible)
        if kind == "reply" and not request.instructions.strip():
            logger.warning("reply() was given no instructions; it is discarded")
            speech.set_outcome("discarded")
            self._context.inbox.on_loop(lambda: self._transcripts.turn(self._speeches.discard(speech.handle)))
        else:
            request.check_for(self._context.live.capabilities, self._context.session.pipeline.name)
            self._enter(speech, request, replace(asked, speech_id=speech.id))
        return speech.handle

    def _enter(self, speech: SpeechControl, request: SpeechRequest, asked: i.SpeechRequested) -> None:
        """Register the speech on the session's loop, with the hook, the tool or the callback that asks for it."""
        hooks, tool = self._context.hooks, calling_tool()
        hook, callback, turn_hook = hooks.here("agent hook"), hooks.here("callback"), hooks.here("turn hook")
        by_hook = hook is not None
        request = replace(request, by_hook=by_hook)
        asked = replace(asked, by_hook=by_hook, by_wake_up=self._wake_up.is_running_here)
        if tool is not None:
            asked = replace(asked, from_tool_of=tool.speech_id, from_call=tool.call_id)

        def enter() -> None:
            if self._context.closing.is_over:  # it closed while the call came over from its thread
                speech.set_outcome("cancelled")
                return
            for run in (hook, callback):
                if run is not None:
                    run.speaks(speech.handle)
            if turn_hook is None or turn_hook.is_over:
                self._speeches.request(speech, request, asked)
            else:
                turn_hook.speaks(speech.handle)
                hook_of = turn_hook.answer_id
                self._speeches.request(speech, request, replace(asked, hook_of=hook_of, by_body=not hook_of))

        self._context.inbox.on_loop(enter)

    def interrupt(self, *, force: bool) -> Awaitable[None]:
        """Ask for the end of the agent's speech; the result and the errors: `AgentSession.interrupt`."""
        check_flag("force", force)
        context = self._context
        context.check_open()
        hook, tool = context.hooks.here("turn hook"), calling_tool()
        request = i.InterruptRequested(
            force=force,
            from_tool_of="" if tool is None else tool.speech_id,
            hook_of="" if hook is None else hook.answer_id,
        )
        context.inbox.post(request)
        if context.inbox.is_here:
            return context.inbox.barrier(self._speeches.audio_stopped)
        return InterruptedFromThread()
