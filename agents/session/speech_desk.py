"""SpeechDesk: takes what is to be said, and gives a handle for it."""

from __future__ import annotations

import logging
from dataclasses import replace

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.speech_handle import SpeechControl, SpeechHandle, running_tool_of
from vivavoce.agents.session.checks import check_when_busy, checked_priority
from vivavoce.agents.session.pipelines.switch import PipelineSwitch
from vivavoce.agents.session.runtime import SessionRuntime
from vivavoce.agents.session.wiring import check_speech
from vivavoce.agents.speech.request import SpeechRequest
from vivavoce.agents.tools.executor import running_call
from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.core.checks import check_flag
from vivavoce.pipelines.core.ids import new_id

logger = logging.getLogger(__name__)


class SpeechDesk:
    """Makes a handle for each `say` and `reply` and has the runtime ask for the floor."""

    def __init__(self, context: SessionContext, runtime: SessionRuntime, pipelines: PipelineSwitch) -> None:
        self._context = context
        self._runtime = runtime
        self._pipelines = pipelines

    def ask(
        self,
        kind: i.SpeechKind,
        request: SpeechRequest,
        *,
        interruptible: bool,
        priority: int,
        when_busy: i.WhenBusy | None,
    ) -> SpeechHandle:
        """Ask for the floor; nothing is decided on the caller's stack.

        Raises:
            SessionNotStartedError, SessionClosedError: It cannot speak now.
            CapabilityError: The pipeline cannot do that.
            ConfigurationError: An argument is of another kind.
        """
        check_flag("interruptible", interruptible)
        priority = checked_priority(priority)
        check_when_busy(kind, when_busy)
        self._context.check_open()
        if kind == "reply" and not request.instructions.strip():
            return self._discard(interruptible)
        check_speech(self._context.live.capabilities, self._pipelines.pipeline.name, request)
        speech = self._speech(kind, interruptible)
        hook = self._context.hooks.here("agent hook")
        if hook is not None:
            request = replace(request, by_hook=True)
        asked = i.SpeechRequested(
            speech_id=speech.id,
            kind=kind,
            interruptible=interruptible,
            priority=priority,
            when_busy=when_busy,
            by_hook=request.by_hook,
            from_tool_of=running_tool_of.get(),
            from_call=running_call.get(),
            by_wake_up=self._runtime.wake_up_call.is_running_here,
            is_whole=isinstance(request.text, str),
        )
        turn_hook = self._context.hooks.here("turn hook")

        def enter() -> None:
            if self._context.closing.is_over:  # it closed while the call came over from its thread
                speech.set_outcome("cancelled")
                return
            if hook is not None:
                hook.speaks(speech.handle)
            if turn_hook is None or turn_hook.is_over:
                self._runtime.request_speech(speech, request, asked)
            else:
                turn_hook.speaks(speech.handle)
                self._runtime.request_speech(speech, request, replace(asked, hook_of=turn_hook.answer_id))

        self._context.inbox.on_loop(enter)
        return speech.handle

    def _discard(self, interruptible: bool) -> SpeechHandle:
        logger.warning("reply() was given no instructions; it is discarded")
        speech = self._speech("reply", interruptible)
        speech.set_outcome("discarded")
        self._context.inbox.on_loop(lambda: self._runtime.discard(speech.handle))
        return speech.handle

    def _speech(self, kind: i.SpeechKind, interruptible: bool) -> SpeechControl:
        return SpeechControl(new_id("speech"), kind, interruptible=interruptible, post=self._context.inbox.post)
