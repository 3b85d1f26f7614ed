"""Conversation: the part of a session's face that an application uses while it runs: speaking, waking up, reading."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vivavoce.agents.agent import Agent
from vivavoce.agents.audio.given_audio import GivenAudio
from vivavoce.agents.core.call_site import calling_tool
from vivavoce.agents.core.event_source import EventSource
from vivavoce.agents.core.inbox import InterruptedFromThread
from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.graphs.options import graph_of
from vivavoce.agents.history.history import SessionHistory
from vivavoce.agents.memory.memory import SessionMemory
from vivavoce.agents.records import TurnRecord, UsageRecord
from vivavoce.agents.session.checks import (
    check_when_busy,
    checked_priority,
    checked_reply,
    checked_say,
    old_member,
    wake_up_of,
)
from vivavoce.agents.session.parts import SessionParts
from vivavoce.agents.session.turns.caller import SessionInput
from vivavoce.agents.session.turns.wake_up_call import OnWakeUp, WakeUpTimer
from vivavoce.agents.session.wiring import check_speech
from vivavoce.agents.speech.flow import ConversationFlow
from vivavoce.agents.speech.request import SpeechRequest
from vivavoce.agents.states import AgentState, UserState
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.options import WakeUp
from vivavoce.pipelines.core.checks import check_flag
from vivavoce.pipelines.llm.tools import ToolChoice
from vivavoce.pipelines.media.frame import VideoFrame
from vivavoce.pipelines.pipeline import Pipeline

if TYPE_CHECKING:
    from vivavoce.agents.audio.recording.session_recording import SessionRecording
    from vivavoce.agents.budget.budget import Budget
    from vivavoce.agents.extension.extension import Extension
    from vivavoce.agents.graphs.runtime.session_graph import SessionGraph

logger = logging.getLogger(__name__)


class Conversation(EventSource):
    """Calls only enqueue an input, from any thread; the session's own loop then decides.

    Args:
        wake_up: How a silent caller is woken up.
    """

    def __init__(self, parts: SessionParts, wake_up: WakeUp | None) -> None:
        context = parts.context
        super().__init__(context.log.emitter)
        self._parts = parts
        self._wake_up = wake_up
        self._created_at = context.clock.wall()
        self._input = SessionInput(context, parts.caller)
        self._wake_up_timer = WakeUpTimer(context)

    if not TYPE_CHECKING:
        __getattr__ = old_member

    # --- speaking

    def say(
        self,
        text: str | AsyncIterator[str],
        *,
        audio: GivenAudio | None = None,
        interruptible: bool = True,
        add_to_history: bool = True,
        priority: int = 0,
        when_busy: i.WhenBusy = "queue",
    ) -> SpeechHandle:
        """Speak `text` as it is, without the model. Awaiting the handle means "played out".

        Args:
            text: Whole, or piece by piece: then of at most 100,000 characters, beyond which the speech fails.
            audio: Played instead of a synthesis of `text`, which it says: a frame, an async iterator of frames, or the
                path of a file (WAV; with the extra `audio` any kind). One that turns out broken fails the speech.
            interruptible: Whether the caller's words may cut it.
            priority: Of the speeches that wait, one with a higher priority is spoken earlier.
            when_busy: What to do when the caller or the agent has the floor: wait, give up, or take it. A speech that
                takes the floor speaks over the caller.
        Raises:
            SessionNotStartedError, SessionClosedError: It cannot speak now.
            CapabilityError: The pipeline has no voice.
            ConfigurationError: An argument is of another kind, there is no such file, or `text` is not whole where
                `audio` is given.
        """
        request = checked_say(text, audio, add_to_history)
        return self._ask("say", request, interruptible=interruptible, priority=priority, when_busy=when_busy)

    def reply(
        self,
        instructions: str,
        wait_for_playback: bool = True,
        *,
        interruptible: bool = True,
        frames: Sequence[VideoFrame] | None = None,
        tool_choice: ToolChoice | None = None,
        priority: int = 0,
        when_busy: i.WhenBusy | None = None,
    ) -> SpeechHandle:
        """Let the model speak, by `instructions` (for this once) and the history.

        Args:
            wait_for_playback: Whether awaiting the handle means "played out" or only "generated".
            frames: Pictures for the model.
            tool_choice: Which tools the model may call in its first step. With `none` no call is run, whatever it does.
            when_busy: What to do when the floor is taken: wait, give up, or take it. None: give up while another
                `reply()` runs, wait for the caller and for other speech.
        Raises:
            SessionNotStartedError, SessionClosedError: It cannot speak now.
            CapabilityError: The pipeline makes no replies, or its model does not see.
            ConfigurationError: An argument is of another kind.
        """
        request = checked_reply(instructions, wait_for_playback, frames, tool_choice)
        return self._ask("reply", request, interruptible=interruptible, priority=priority, when_busy=when_busy)

    def interrupt(self, *, force: bool = False) -> Awaitable[None]:
        """Stop the agent's speech and drop the speeches that wait, up to the first protected one.

        It acts when called; awaiting it means that the audio has stopped. Nothing to interrupt is fine. In a thread,
        such as a sync tool's, it acts too, but there it cannot be awaited.

        Answers that wait for their tools are cut too; tools without `cancel_on_interrupt` run on, and a late reply
        has their results. In a tool it stops other audio, such as a filler; the reply waiting for the tool goes on,
        unless its own words before the call still play. To cut that reply, call `RunContext.speech.interrupt()`. In a
        hook of a turn it stops the speech that the hook asked for, and the answer to the turn goes on.

        Args:
            force: Stop protected speech too.
        Raises:
            SessionNotStartedError, SessionClosedError: There is nothing to interrupt now.
            ConfigurationError: `force` is no bool.
        """
        check_flag("force", force)
        context = self._parts.context
        context.check_open()
        hook, tool = context.hooks.here("turn hook"), calling_tool()
        request = i.InterruptRequested(
            force=force,
            from_tool_of="" if tool is None else tool.speech_id,
            hook_of="" if hook is None else hook.answer_id,
        )
        context.inbox.post(request)
        if context.inbox.is_here:
            return context.inbox.barrier(self._parts.speeches.audio_stopped)
        return InterruptedFromThread()

    def hangup(self, *, after_speech: bool = True) -> Awaitable[None]:
        """Disconnect the caller. The session then closes, unless `RoomOptions.close_on_disconnect` is off.

        It acts when called; awaiting it means that the caller is disconnected. In a LiveKit room it needs the server's
        API: a worker's job has the keys, elsewhere `LIVEKIT_URL`, `LIVEKIT_API_KEY` and `LIVEKIT_API_SECRET` give them.

        Args:
            after_speech: Whether the caller first hears the speech that was asked for before this call; of the speech
                whose tool calls it, the words before the tool's call. False cuts all speech off.
        Raises:
            SessionNotStartedError, SessionClosedError: There is no caller to disconnect.
            ConfigurationError: The transport lacks something; the error names it.
            RoomError: When awaited: the server refused it, or did not answer. It is an `error` event too.
        """
        return self._parts.hang_ups.ask(after_speech=after_speech)

    def _ask(
        self,
        kind: i.SpeechKind,
        request: SpeechRequest,
        *,
        interruptible: bool,
        priority: int,
        when_busy: i.WhenBusy | None,
    ) -> SpeechHandle:
        """Make a speech and ask for the floor; nothing is decided on the caller's stack."""
        check_flag("interruptible", interruptible)
        priority = checked_priority(priority)
        check_when_busy(kind, when_busy)
        parts, context = self._parts, self._parts.context
        context.check_open()
        speech = parts.speeches.make(kind, interruptible=interruptible)
        if kind == "reply" and not request.instructions.strip():
            logger.warning("reply() was given no instructions; it is discarded")
            speech.set_outcome("discarded")
            context.inbox.on_loop(lambda: parts.transcripts.turn(parts.speeches.discard(speech.handle)))
            return speech.handle
        check_speech(context.live.capabilities, self.pipeline.name, request)
        hook, tool = context.hooks.here("agent hook"), calling_tool()
        if hook is not None:
            request = replace(request, by_hook=True)
        asked = i.SpeechRequested(
            speech_id=speech.id,
            kind=kind,
            interruptible=interruptible,
            priority=priority,
            when_busy=when_busy,
            by_hook=request.by_hook,
            from_tool_of="" if tool is None else tool.speech_id,
            from_call="" if tool is None else tool.call_id,
            by_wake_up=parts.wake_up_call.is_running_here,
            is_whole=isinstance(request.text, str),
        )
        turn_hook, callback = context.hooks.here("turn hook"), context.hooks.here("callback")

        def enter() -> None:
            if context.closing.is_over:  # it closed while the call came over from its thread
                speech.set_outcome("cancelled")
                return
            for run in (hook, callback):
                if run is not None:
                    run.speaks(speech.handle)
            if turn_hook is None or turn_hook.is_over:
                parts.speeches.request(speech, request, asked)
            else:
                turn_hook.speaks(speech.handle)
                hook_of = turn_hook.answer_id
                parts.speeches.request(speech, request, replace(asked, hook_of=hook_of, by_body=not hook_of))

        context.inbox.on_loop(enter)
        return speech.handle

    # --- waking up

    @property
    def on_wake_up(self) -> OnWakeUp | None:
        """Called when a silent caller is to be woken up, with the level if it takes an argument; sync or async.

        It runs beside the conversation and may speak and close. Set it at any time; None calls nothing.
        """
        return self._parts.wake_up_call.callback

    @on_wake_up.setter
    def on_wake_up(self, callback: OnWakeUp | None) -> None:
        self._parts.wake_up_call.set_callback(callback)

    @property
    def wake_up(self) -> WakeUp | None:
        """The wake-up of a silent caller; None: none. Set it at any time, as a number of seconds or a `WakeUp`.

        A new one counts from the moment of setting it, and begins with its first level.

        Raises:
            ConfigurationError: Set to something else, or to a hangup that the session's transport cannot do.
            SessionClosedError: Set after the close.
        """
        return self._wake_up

    @wake_up.setter
    def wake_up(self, wake_up: float | WakeUp | None) -> None:
        wanted = wake_up_of(wake_up)
        context = self._parts.context
        if context.inbox.is_bound or context.closing.is_over:
            context.check_open()
        if wanted is not None and wanted.then == "hangup":
            self._parts.caller.check_hangup()
        self._wake_up = wanted
        context.inbox.post(i.WakeUpChanged(wanted))

    @property
    def wake_up_timer(self) -> WakeUpTimer:
        """Pauses, resumes and resets the wake-up of a silent caller."""
        return self._wake_up_timer

    # --- reading

    @property
    def id(self) -> str:
        """For records and logs, and the key of its memory in a store; a resumed session's key is `memory.id`."""
        return self._parts.context.id

    @property
    def created_at(self) -> float:
        """When this object was made, in seconds since 1970."""
        return self._created_at

    @property
    def history(self) -> SessionHistory:
        """The conversation: the words that were said and heard, and the tool calls."""
        return self._parts.history.history

    @property
    def recording(self) -> SessionRecording:
        """Records the call."""
        return self._parts.recording.recording

    @property
    def memory(self) -> SessionMemory:
        """State that outlives the call, and that other processes share, if `SessionOptions.memory` names a store.

        After the close its values are still there, and its streams have ended. A first use then begins no task.
        """
        return self._parts.memory

    @property
    def budget(self) -> Budget:
        """The limits and the use of the call (`SessionOptions.budget`).

        Raises:
            ConfigurationError: The session has no budget.
        """
        return self._parts.budget

    @property
    def graph(self) -> SessionGraph:
        """The place of the conversation in its graph (`SessionOptions.graph`).

        Raises:
            ConfigurationError: The session follows no graph.
        """
        return graph_of(self._parts.extensions)

    def extension(self, kind: type[Extension]) -> Any:
        """Return what an extension of the session offers its application (`Attached.face`).

        Args:
            kind: The class of the extension.
        Raises:
            ConfigurationError: The session has no extension of that kind.
        """
        return self._parts.extensions.face(kind)

    @property
    def input(self) -> SessionInput:
        """Another way to the caller's turns: mute, type, commit and clear them, and read the newest picture."""
        return self._input

    @property
    def agent(self) -> Agent:
        """Who has the conversation."""
        return self._parts.context.live.agent

    @property
    def pipeline(self) -> Pipeline:
        """How it listens, thinks and speaks."""
        return self._parts.pipelines.pipeline

    @property
    def conversation_flow(self) -> ConversationFlow | None:
        """The flow that answers the caller in place of the model; None: the model."""
        return self._parts.flows.flow

    @property
    def current_speech(self) -> SpeechHandle | None:
        """The speech that has the floor."""
        return self._parts.speeches.current

    @property
    def agent_state(self) -> AgentState:
        """The agent's present activity."""
        return self._parts.machine.agent_state

    @property
    def user_state(self) -> UserState:
        """The user's present activity."""
        return self._parts.machine.user_state

    @property
    def turns(self) -> tuple[TurnRecord, ...]:
        """Records of all turns that have ended."""
        return tuple(self._parts.context.log.turns)

    @property
    def usage(self) -> UsageRecord:
        """Usage of models and voices so far."""
        return self._parts.context.log.usage
