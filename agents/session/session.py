"""AgentSession: the face of one conversation. Each method is one call of the part that owns the work."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

import anyio
from typing_extensions import TypeVar

from vivavoce.agents.agent import Agent
from vivavoce.agents.audio.background_audio import BackgroundAudioSource
from vivavoce.agents.audio.given_audio import GivenAudio
from vivavoce.agents.budget.options import budget_of
from vivavoce.agents.core.event_source import EventSource, unknown_attribute
from vivavoce.agents.core.handoff import Handoff
from vivavoce.agents.core.pipeline_change import PipelineChange
from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.graphs.options import graph_of
from vivavoce.agents.history.history import SessionHistory
from vivavoce.agents.knowledge.options import knowledge_of
from vivavoce.agents.memory.memory import SessionMemory
from vivavoce.agents.memory.options import memory_of
from vivavoce.agents.peers.options import peers_of
from vivavoce.agents.records import CloseReport, SessionReport, TurnRecord, UsageRecord
from vivavoce.agents.session.life.task import SessionLifecycle
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.session.parts import build_parts
from vivavoce.agents.session.turns.caller import SessionInput
from vivavoce.agents.session.turns.wake_up_call import OnWakeUp, WakeUpTimer
from vivavoce.agents.speech.flow import ConversationFlow
from vivavoce.agents.speech.request import reply_request, say_request
from vivavoce.agents.states import AgentState, CloseReason, UserState, checked_reason
from vivavoce.agents.tasks.task import AgentTask
from vivavoce.agents.telephony.options import telephony_of
from vivavoce.agents.transports.options import RoomOptions
from vivavoce.agents.turn.inputs import WhenBusy
from vivavoce.agents.turn.options import WakeUp
from vivavoce.pipelines.core.checks import check_instance
from vivavoce.pipelines.core.old_names import old_members
from vivavoce.pipelines.llm.tools import ToolChoice
from vivavoce.pipelines.media.frame import VideoFrame
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.speech import ComponentSet

if TYPE_CHECKING:
    from livekit import rtc

    from vivavoce.agents.audio.recording.session_recording import SessionRecording
    from vivavoce.agents.budget.budget import Budget
    from vivavoce.agents.core.stage_observers import Stage, StageObserver
    from vivavoce.agents.extension.extension import Extension
    from vivavoce.agents.graphs.runtime.session_graph import SessionGraph
    from vivavoce.agents.knowledge.session_knowledge import SessionKnowledge
    from vivavoce.agents.peers.session_peers import SessionPeers
    from vivavoce.agents.telephony.telephony import Telephony
    from vivavoce.pipelines.denoise.base import Denoiser
    from vivavoce.pipelines.io import Transport
    from vivavoce.pipelines.llm.base import LLM
    from vivavoce.pipelines.stt.base import STT
    from vivavoce.pipelines.tts.base import TTS
    from vivavoce.pipelines.turn_detector.base import TurnDetector
    from vivavoce.pipelines.vad.base import VAD

UserdataT = TypeVar("UserdataT", default=None)
ResultT = TypeVar("ResultT")

SETTABLE = ("userdata", "on_wake_up", "wake_up")
"""Public attributes of a session that an application may set."""


class AgentSession(EventSource, Generic[UserdataT]):
    """One conversation between a caller and an agent.

    Calls only enqueue, from any event loop and any thread (there `asyncio.run(session.close())`); its own loop decides.

    Args:
        agent: The agent that has the conversation first.
        pipeline: Listens, thinks and speaks; it serves one session at a time. Without one, given texts (`say()`, a
            flow, a graph) go out in writing, and tools, dialogues and memory work.
        conversation_flow: Answers the caller in place of the pipeline's model.
        wake_up: Seconds of silence before `on_wake_up` runs once, or a `WakeUp` for repeats; None: no wake-up.
        background_audio: Sounds under the conversation from its start, or while the agent thinks.
        userdata: Yours; tools get it by their `RunContext`. JSON data, a dataclass or a pydantic model: anything else
            cannot be kept by `snapshot()`, nor for a crash (`CrashSafety`); put clients and connections on the agent.
        options: Everything else.
        id: For records and logs, and the key of its memory: with the store and the id of a session that has ended, its
            memory goes on. Made if not given.
    Raises:
        ConfigurationError: Agent and pipeline do not fit.
    """

    def __init__(
        self,
        agent: Agent,
        pipeline: Pipeline | None = None,
        conversation_flow: ConversationFlow | None = None,
        wake_up: float | WakeUp | None = None,
        background_audio: BackgroundAudioSource | Sequence[BackgroundAudioSource] | None = None,
        *,
        userdata: UserdataT | None = None,
        options: SessionOptions | None = None,
        id: str | None = None,
    ) -> None:
        parts = build_parts(self, agent, pipeline, conversation_flow, wake_up, background_audio, userdata, options, id)
        super().__init__(parts.context.log.emitter)
        self._parts = parts
        self._created_at = parts.context.clock.wall()
        self._input = SessionInput(parts.context, parts.caller)
        self._wake_up_timer = WakeUpTimer(parts.context)
        self._lifecycle = SessionLifecycle(parts)

    if not TYPE_CHECKING:
        __getattr__ = old_members(
            change_pipeline="update_pipeline",
            change_component="update_components",
            set_conversation_flow="update_flow",
            dialogue="graph",
        )

    def __setattr__(self, name: str, value: object) -> None:
        """Set `userdata`, `on_wake_up` or `wake_up`; a subclass may have attributes of its own.

        Raises:
            AttributeError: There is no such attribute, or it cannot be set.
        """
        is_made = "_lifecycle" in vars(self)
        if is_made and not name.startswith("_") and name not in SETTABLE:
            if isinstance(getattr(AgentSession, name, None), property):
                raise AttributeError(f"{name!r} of a session cannot be set; {', '.join(SETTABLE)} can")
            if type(self) is AgentSession and not hasattr(AgentSession, name):
                raise unknown_attribute(name, SETTABLE)
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"AgentSession({self.id!r}, agent={self.agent.id!r}, state={self.agent_state.value!r})"

    # --- life

    async def start(
        self,
        room: rtc.Room | Transport | None = None,
        *,
        participant: str | None = None,
        room_options: RoomOptions | None = None,
        resume_from: Mapping[str, Any] | None = None,
    ) -> None:
        """Start the conversation, once; return when `on_enter` has ended, with the speech that it awaits.

        An `on_enter` that awaits an `AgentTask` is not waited for. The call goes on: `wait_closed()` waits for its end.

        Args:
            room: A connected room, or a transport; None for the room of the job that this code runs in. Outside of a
                job a session that neither hears nor sounds needs none.
            participant: Identity of the participant to talk to; None: the participant of the job, else the first caller
                in the room.
            room_options: How to take part in the room.
            resume_from: The result of another session's `snapshot()`: this one goes on with its history, userdata and
                memory, and answers a turn that had no answer yet; the agent must be the one that
                `resume_from["agent"]` names, and its `on_enter` is not called.
        Raises:
            SessionError: It was started before, or a step took longer than `start_step`.
            SessionClosedError: It was closed before, or before it got to `on_enter`.
            ConfigurationError: An argument is of another kind, no room was given and the code runs in no job,
                `resume_from` does not fit, or there is no such file of background audio.
            StoreError: Another session has the memory, and `resume_from` is not given.
            RoomError: Another session uses the transport, or has used it. This one may start with another transport.
            VoiceError: A step failed; everything is rolled back and the session is closed.
        """
        await self._lifecycle.start(room, participant, room_options, resume_from)

    async def close(self, reason: CloseReason = CloseReason.USER_INITIATED) -> CloseReport:
        """Close, once; concurrent callers wait for the same close and get the same report.

        Within `close_timeout`, even when a step hangs; the report names it. Telemetry of its own is sent after that,
        within its `flush_timeout`.

        Raises:
            SessionError: It was called in code that the close waits for.
            ConfigurationError: `reason` is none.
        """
        return await self._lifecycle.close(checked_reason(reason))

    async def leave(self) -> CloseReport:
        """Close and leave the room."""
        return await self._lifecycle.close(CloseReason.USER_INITIATED, leaves=True)

    async def wait_closed(self) -> CloseReport:
        """Wait until the session has closed, for any reason.

        Raises:
            SessionNotStartedError: It was neither started nor closed.
            SessionError: It was called in code that the close waits for.
        """
        return await self._lifecycle.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):  # bounded by close_timeout
            await self.close()

    # --- speaking

    def say(
        self,
        text: str | AsyncIterator[str],
        *,
        audio: GivenAudio | None = None,
        interruptible: bool = True,
        add_to_history: bool = True,
        priority: int = 0,
        when_busy: WhenBusy = "queue",
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
        request = say_request(text, audio, add_to_history)
        return self._parts.requests.ask(
            "say", request, interruptible=interruptible, priority=priority, when_busy=when_busy
        )

    def reply(
        self,
        instructions: str,
        wait_for_playback: bool = True,
        *,
        interruptible: bool = True,
        frames: Sequence[VideoFrame] | None = None,
        tool_choice: ToolChoice | None = None,
        priority: int = 0,
        when_busy: WhenBusy | None = None,
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
        request = reply_request(instructions, wait_for_playback, frames, tool_choice)
        return self._parts.requests.ask(
            "reply", request, interruptible=interruptible, priority=priority, when_busy=when_busy
        )

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
        return self._parts.requests.interrupt(force=force)

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
        return self._parts.silence.hang_ups.ask(after_speech=after_speech)

    # --- waking up

    @property
    def on_wake_up(self) -> OnWakeUp | None:
        """Called when a silent caller is to be woken up, with the level if it takes an argument; sync or async.

        It runs beside the conversation and may speak and close. Set it at any time; None calls nothing.
        """
        return self._parts.silence.wake_up.callback

    @on_wake_up.setter
    def on_wake_up(self, callback: OnWakeUp | None) -> None:
        self._parts.silence.wake_up.set_callback(callback)

    @property
    def wake_up(self) -> WakeUp | None:
        """The wake-up of a silent caller; None: none. Set it at any time, as a number of seconds or a `WakeUp`.

        A new one counts from the moment of setting it, and begins with its first level.

        Raises:
            ConfigurationError: Set to something else, or to a hangup that the session's transport cannot do.
            SessionClosedError: Set after the close.
        """
        return self._parts.silence.wake_up.wake_up

    @wake_up.setter
    def wake_up(self, wake_up: float | WakeUp | None) -> None:
        self._parts.silence.wake_up.set_wake_up(wake_up)

    @property
    def wake_up_timer(self) -> WakeUpTimer:
        """Pauses, resumes and resets the wake-up of a silent caller."""
        return self._wake_up_timer

    # --- agent and pipeline

    def update_agent(self, agent: Agent) -> Handoff:
        """Hand the conversation to `agent`, after all speeches that play or wait now; await the result.

        Before `start()` it takes the place of the first one. How a handoff goes:
        `vivavoce.agents.session.handoffs.handoff`.

        Raises:
            ConfigurationError: It is no agent, or a task.
            CapabilityError: The agent's components or options (`overrides`) do not fit the pipeline.
            SessionClosedError: The session is closed.
            SessionError: The agent is in another session.
        """
        return self._parts.handoffs.ask(agent).handoff

    async def run_task(self, task: AgentTask[ResultT]) -> ResultT:
        """Run a sub-dialogue and return its result; the same as `await task` in code that this session runs.

        How tasks go: `vivavoce.agents.tasks.task`.

        Raises:
            TaskError: It ended without a result.
            SessionError: A task cannot be awaited here, or it is in another session.
            SessionNotStartedError, SessionClosedError: The session has no conversation now.
            ConfigurationError: `task` is none.
            CapabilityError: Its components or options (`overrides`) do not fit the pipeline.
        """
        check_instance("task", task, AgentTask)
        return await self._parts.tasks.run(task)

    def update_pipeline(self, pipeline: Pipeline, *, within: float = 60.0) -> PipelineChange:
        """Go on with another pipeline, from the next silence on; await the result to know the end.

        The conversation goes on: agent, history, tools stay. How it goes: `vivavoce.agents.session.components`.

        Args:
            within: Seconds, from when the new pipeline is open, in which that moment must come.
        Raises:
            SessionNotStartedError, SessionClosedError: Nothing can be changed now.
            ConfigurationError: It is no pipeline, or `within` is no wait; or the cost has a limit, and a component no
                price.
            CapabilityError: It can neither speak nor answer, does not see a caller whose video it is shown, or does not
                go with the session's flow or options, or with those of the agent that has the conversation.
        """
        self._parts.context.check_open()
        change = self._parts.pipelines.to_pipeline(pipeline, within)
        self._parts.context.inbox.on_loop(lambda: self._parts.pipelines.switch.request(change))
        return change.change

    def update_components(
        self,
        *,
        stt: STT | None = None,
        llm: LLM | None = None,
        tts: TTS | None = None,
        vad: VAD | None = None,
        denoise: Denoiser | None = None,
        turn_detector: TurnDetector | None = None,
        within: float = 60.0,
    ) -> PipelineChange:
        """Go on with other components, from the next silence on; await the result to know the end.

        All of them take over at one moment, as in `update_pipeline()`: the old recogniser hears a turn to its end, the
        old voice finishes the speech that plays, and an answer that waits for its tools goes on with the new ones. An
        llm and a tts alone wait for no turn. The streams of the other components stay. Components belong to the
        application, which closes the old ones too.

        Args:
            stt, llm, tts, vad, denoise, turn_detector: None keeps the present one. To go on without a denoiser, a turn
                detector or another component, call `update_pipeline()` with a pipeline that has none.
            within: Seconds, from when the new components are open, in which that moment must come.
        Raises:
            SessionNotStartedError, SessionClosedError: Nothing can be changed now.
            ConfigurationError: None is given, or one is of another port.
            CapabilityError: The pipeline has no use for one, such as a realtime pipeline for an llm, they do not go
                with its other components, or the llm does not see a caller whose video it is shown.
        """
        self._parts.context.check_open()
        components = ComponentSet(stt=stt, llm=llm, tts=tts, vad=vad, denoise=denoise, turn_detector=turn_detector)
        change = self._parts.pipelines.to_components(components, within)
        self._parts.context.inbox.on_loop(lambda: self._parts.pipelines.switch.request(change))
        return change.change

    def update_flow(self, flow: ConversationFlow | None) -> None:
        """Have `flow` answer from the caller's next turn on, or the model; clean the flow before it up.

        Raises:
            SessionClosedError: The session is closed.
            SessionError: The flow is in another session.
            ConfigurationError: A pipeline, in use or to come, cannot use a flow; or the session follows a graph.
        """
        self._parts.pipelines.change_flow(flow)

    def observe(
        self, stage: Stage, observer: Callable[[Any], Awaitable[None] | None], *, max_pending: int = 256
    ) -> StageObserver:
        """Watch a stage, before or after `start()`: the caller's transcripts ("stt": `UserInterim`, `UserFinal`), the
        model's events ("llm": `TextDelta`, `ToolCall` …) or the voice's audio ("tts": `AudioChunk`).

        The observer gets the items that the agent's stage hooks let through, one at a time, in a task of its own: the
        stage never waits for it. Items beyond `max_pending` that wait are dropped and counted. An observer that raises,
        or takes longer than `callback_timeout`, is closed, with an `error` event of source `observer`.

        Raises:
            ConfigurationError: There is no such stage, or `observer` is no function.
            SessionClosedError: The session is closed.
        """
        self._parts.context.check_not_closed()
        return self._parts.context.stage_observers.add(stage, observer, max_pending)

    def play_background_audio(self, source: BackgroundAudioSource) -> None:
        """Let a file sound under the conversation. It replaces the sound of its kind (ambience, thinking, hold).

        A file that turns out broken is an `error` event, and the conversation goes on.

        Raises:
            ConfigurationError: There is no such file.
            CapabilityError: An avatar plays the agent's audio.
            SessionNotStartedError, SessionClosedError: Nothing can be played now.
        """
        self._parts.background.play(source)

    def stop_background_audio(self) -> None:
        """Fade out everything that sounds in the background, for good; fine if nothing does."""
        self._parts.background.stop()

    def snapshot(self) -> dict[str, Any]:
        """Return the conversation so far as JSON data for `start(resume_from=...)`, at any time, also after the close.

        Its content: `vivavoce.agents.history.snapshot`.

        Raises:
            ConfigurationError: The userdata cannot be JSON; it says which part.
        """
        return self._parts.keeping.checkpoints.take()()

    def report(self) -> SessionReport:
        """Return everything kept so far."""
        return self._parts.report(self._lifecycle.report)

    @property
    def userdata(self) -> UserdataT | None:
        """The application's own; tools get it by their `RunContext`. Set it at any time. Kinds that can be kept: the
        constructor's `userdata`.
        """
        userdata: UserdataT | None = self._parts.context.userdata
        return userdata

    @userdata.setter
    def userdata(self, userdata: UserdataT | None) -> None:
        self._parts.context.set_userdata(userdata)

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
        return self._parts.keeping.recording.recording

    @property
    def memory(self) -> SessionMemory:
        """State that outlives the call, and that other processes share, if `SessionOptions.memory` names a store.

        After the close its values are still there, and its streams have ended. A first use then begins no task.
        """
        return memory_of(self._parts.extensions).face

    @property
    def budget(self) -> Budget:
        """The limits and the use of the call (`SessionOptions.budget`).

        Raises:
            ConfigurationError: The session has no budget.
        """
        return budget_of(self._parts.extensions)

    @property
    def graph(self) -> SessionGraph:
        """The place of the conversation in its graph (`SessionOptions.graph`).

        Raises:
            ConfigurationError: The session follows no graph.
        """
        return graph_of(self._parts.extensions)

    @property
    def knowledge(self) -> SessionKnowledge:
        """Answers from documents (`SessionOptions.knowledge`); raises as `graph`."""
        return knowledge_of(self._parts.extensions)

    @property
    def peers(self) -> SessionPeers:
        """The agents in other processes that the session talks with (`SessionOptions.peers`); raises as `graph`."""
        return peers_of(self._parts.extensions)

    @property
    def telephony(self) -> Telephony:
        """Keys, calls and transfers (`SessionOptions.telephony`); raises as `graph`."""
        return telephony_of(self._parts.extensions)

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
        """The agent that has the conversation."""
        return self._parts.context.live.agent

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline in use."""
        return self._parts.pipelines.switch.pipeline

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
