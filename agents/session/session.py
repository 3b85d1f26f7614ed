"""AgentSession: the face of one conversation."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

import anyio
from typing_extensions import TypeVar

from vivavoce.agents.agent import Agent, AgentControl
from vivavoce.agents.audio.background_audio import BackgroundAudioSource, checked_config
from vivavoce.agents.core.handoff import Handoff
from vivavoce.agents.core.pipeline_change import PipelineChange
from vivavoce.agents.history.snapshot import Snapshot, read_snapshot, take_snapshot
from vivavoce.agents.records import CloseReport, SessionReport
from vivavoce.agents.session.checks import check_session, check_start, checked_reason, unknown_attribute, wake_up_of
from vivavoce.agents.session.conversation import Conversation
from vivavoce.agents.session.handoffs.handoff_control import HandoffControl
from vivavoce.agents.session.life.start import TakeOver
from vivavoce.agents.session.life.task import SessionLifecycle
from vivavoce.agents.session.loop import SessionLoop
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.session.parts import build_parts
from vivavoce.agents.session.wiring import (
    JobLink,
    check_flow,
    check_no_task,
    check_wiring,
    connecting,
    given_pipeline,
    is_silent,
    make_observer,
    reason_of_failed_start,
    warn_if_deaf,
)
from vivavoce.agents.session_watch import SessionWatch, current_watch
from vivavoce.agents.speech.flow import ConversationFlow, FlowControl
from vivavoce.agents.states import CloseReason
from vivavoce.agents.tasks.task import AgentTask
from vivavoce.agents.telemetry.destination import telemetry_for
from vivavoce.agents.transports.options import DEFAULT_ROOM_OPTIONS, RoomOptions
from vivavoce.agents.turn.options import WakeUp
from vivavoce.pipelines.core.checks import check_instance
from vivavoce.pipelines.core.errors import SessionClosedError, SessionError, SessionNotStartedError
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.speech import ComponentSet

if TYPE_CHECKING:
    from livekit import rtc

    from vivavoce.agents.core.stage_observers import Stage, StageObserver
    from vivavoce.pipelines.denoise.base import Denoiser
    from vivavoce.pipelines.io import Transport
    from vivavoce.pipelines.llm.base import LLM
    from vivavoce.pipelines.stt.base import STT
    from vivavoce.pipelines.tts.base import TTS
    from vivavoce.pipelines.turn_detector.base import TurnDetector
    from vivavoce.pipelines.vad.base import VAD

logger = logging.getLogger(__name__)

UserdataT = TypeVar("UserdataT", default=None)
ResultT = TypeVar("ResultT")

SETTABLE = ("userdata", "on_wake_up", "wake_up")
"""Public attributes of a session that an application may set."""


class AgentSession(Conversation, Generic[UserdataT]):
    """One conversation between a caller and an agent.

    Calls only enqueue, from any task of the loop that it was started on and from threads; its own loop then decides.

    Args:
        agent: Who talks.
        pipeline: How it listens, thinks and speaks; one pipeline serves one session at a time. None: it does not; given
            texts (`say()`, a flow, a graph) go out in writing, and tools, dialogues and memory work.
        conversation_flow: Answers the caller in place of the pipeline's model.
        wake_up: After how many seconds of silence a caller is woken up, once, or how to go on then; None: never.
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
        check_session(options, id)
        check_wiring(agent, pipeline := given_pipeline(pipeline))
        warn_if_deaf(pipeline)
        check_no_task(agent)
        options = options or SessionOptions()
        self._telemetry = telemetry_for(options.telemetry)  # made here: it takes 0.5 s, for which no call should wait
        check_flow(conversation_flow, pipeline, options)
        self._userdata = userdata
        wanted = wake_up_of(wake_up)
        parts = build_parts(
            self,
            agent,
            pipeline,
            flow=conversation_flow,
            wake_up=wanted,
            background_audio=background_audio,
            options=options,
            session_id=id,
        )
        parts.pipeline_requests.check_agent(agent)
        super().__init__(parts, wanted)
        self._lifecycle = SessionLifecycle(parts, SessionLoop(parts))
        self._task: asyncio.Task[None] | None = None

    def __setattr__(self, name: str, value: object) -> None:
        """Set `userdata`, `on_wake_up` or `wake_up`; a subclass may have attributes of its own.

        Raises:
            AttributeError: There is no such attribute, or it cannot be set.
        """
        is_made = "_task" in vars(self)
        if is_made and not name.startswith("_") and name not in SETTABLE:
            if isinstance(getattr(AgentSession, name, None), property):
                raise AttributeError(f"{name!r} of a session cannot be set; {', '.join(SETTABLE)} can")
            if type(self) is AgentSession and not hasattr(AgentSession, name):
                raise unknown_attribute(name, SETTABLE)
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"AgentSession({self.id!r}, agent={self.agent.id!r}, state={self.agent_state.value!r})"

    @property
    def userdata(self) -> UserdataT | None:
        """The application's own; tools get it by their `RunContext`. Set it at any time. Kinds that can be kept: the
        constructor's `userdata`.
        """
        return self._userdata

    @userdata.setter
    def userdata(self, userdata: UserdataT | None) -> None:
        self._userdata = userdata

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
            VoiceError: A step failed; everything is rolled back and the session is closed.
        """
        check_start(room, participant, room_options, resume_from)
        context = self._parts.context
        if context.inbox.is_bound:
            raise SessionError("the session was started before; a session starts once, make another one")
        if context.closing.is_over:
            raise SessionClosedError("the session is closed; make another one")
        self._parts.background.check()
        room_options = room_options or DEFAULT_ROOM_OPTIONS
        resumed: Snapshot | TakeOver | None = None
        if resume_from is not None:
            resumed = self._read(resume_from)
        if (watch := current_watch()) is not None:
            room_options = replace(room_options, publish_turns=room_options.publish_turns or watch.publishes_turns)
            watch.session_begins(self)
            if resumed is None and watch.has_conversation:
                resumed = partial(self._take_over, watch)
        with_job = JobLink(self._close_with_job, self.wait_closed)
        place = connecting(
            room,
            participant,
            room_options,
            context.clock,
            with_job,
            hangs_up=self._wake_up is not None and self._wake_up.then == "hangup",
            is_silent=is_silent(self.pipeline),
        )
        if isinstance(resumed, Snapshot):
            self._resume(resumed)
        if place.given is not None:
            self._parts.caller.expect(place.given)
        observer = make_observer(self._telemetry, self._parts.options, self.id, self.pipeline, self._lifecycle.facts)
        context.start(observer, room=place.room, job_id=place.job_id)
        # The one task of the session; anyio's groups belong to the task that enters and leaves them, so start() and
        # close() cannot hold one.
        body = self._lifecycle.main(place.connect, room_options, resumed)
        self._task = asyncio.create_task(body, name=f"session {self.id}")
        try:
            await self._lifecycle.ready.wait()
        except BaseException:
            context.closing.request(reason_of_failed_start())
            with anyio.CancelScope(shield=True):  # bounded by close_timeout
                await self._join()
            raise
        if self._lifecycle.failure is not None:
            await self._join()
            raise self._lifecycle.failure
        if context.closing.is_asked:
            await self._join()

    async def close(self, reason: CloseReason = CloseReason.USER_INITIATED) -> CloseReport:
        """Close, once; concurrent callers wait for the same close and get the same report.

        Within `close_timeout`, even when a step hangs; the report names it. Telemetry of its own is sent after that,
        within its `flush_timeout`.

        Raises:
            SessionError: It was called in code that the close waits for.
            ConfigurationError: `reason` is none.
        """
        return await self._end(checked_reason(reason), leave=False)

    async def leave(self) -> CloseReport:
        """Close and leave the room."""
        return await self._end(CloseReason.USER_INITIATED, leave=True)

    async def wait_closed(self) -> CloseReport:
        """Wait until the session has closed, for any reason."""
        context = self._parts.context
        if not context.inbox.is_bound and not context.closing.is_over:
            raise SessionNotStartedError("the session was not started; call start() first")
        if context.inbox.is_bound:
            self._parts.context.hooks.check_may_await_close()
            await self._join()
        assert self._lifecycle.report is not None
        return self._lifecycle.report

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):  # bounded by close_timeout
            await self.close()

    # --- agent and pipeline

    def update_agent(self, agent: Agent) -> Handoff:
        """Hand the conversation to `agent`, after all speeches that play or wait now; await the result.

        Before `start()` it takes the place of the first one. How a handoff goes:
        `vivavoce.agents.session.handoffs.handoff`.

        Raises:
            CapabilityError: The agent's components or options (`overrides`) do not fit the pipeline.
            SessionClosedError: The session is closed.
            SessionError: The agent is in another session.
        """
        self._parts.pipeline_requests.check_agent(agent)
        check_no_task(agent)
        context = self._parts.context
        handoff = HandoffControl(context.hooks, agent)
        if not context.inbox.is_bound and not context.closing.is_over:
            self._parts.handoffs.request(handoff)
            return handoff.handoff
        context.check_open()
        AgentControl.of(agent).attach(self)
        context.inbox.on_loop(lambda: self._parts.handoffs.request(handoff))
        return handoff.handoff

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
            ConfigurationError: It is no pipeline, or does not go with the session's flow or options.
        """
        self._parts.context.check_open()
        change = self._parts.pipeline_requests.to_pipeline(pipeline, within)
        self._parts.context.inbox.on_loop(lambda: self._parts.pipelines.request(change))
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
            CapabilityError: The pipeline has no use for one, such as a realtime pipeline for an llm, or they do not go
                with its other components.
        """
        self._parts.context.check_open()
        components = ComponentSet(stt=stt, llm=llm, tts=tts, vad=vad, denoise=denoise, turn_detector=turn_detector)
        change = self._parts.pipeline_requests.to_components(components, within)
        self._parts.context.inbox.on_loop(lambda: self._parts.pipelines.request(change))
        return change.change

    def update_flow(self, flow: ConversationFlow | None) -> None:
        """From the caller's next turn on answer by `flow`, or by the model; the flow before it is cleaned up.

        Raises:
            SessionClosedError: The session is closed.
            SessionError: The flow is in another session.
            ConfigurationError: The pipeline cannot use a flow.
        """
        for pipeline in (self.pipeline, *self._parts.pipelines.to_come):
            check_flow(flow, pipeline, self._parts.options)
        context = self._parts.context
        if not context.inbox.is_bound and not context.closing.is_over:
            self._parts.flows.change_to(flow)
            return
        context.check_open()
        if flow is not None:
            FlowControl.of(flow).attach(self)
        context.inbox.on_loop(lambda: self._parts.flows.change_to(flow))

    def observe(
        self, stage: Stage, observer: Callable[[Any], Awaitable[None] | None], *, max_pending: int = 256
    ) -> StageObserver:
        """Watch a stage, before or after `start()`: the caller's transcripts ("stt": `UserInterim`, `UserFinal`), the
        model's events ("llm": `TextDelta`, `ToolCall` …) or the voice's audio ("tts": `AudioChunk`).

        It gets what the stage hooks of the agent let through, one item at a time, in a task of its own: the stage never
        waits for it. Items beyond `max_pending` that wait are dropped and counted. An observer that raises, or takes
        longer than `callback_timeout`, is closed, with an `error` event of source `observer`.

        Raises:
            ConfigurationError: There is no such stage, or `observer` is no function.
            SessionClosedError: The session is closed.
        """
        context = self._parts.context
        if context.inbox.is_bound or context.closing.is_over:
            context.check_open()
        return context.stage_observers.add(stage, observer, max_pending)

    def play_background_audio(self, source: BackgroundAudioSource) -> None:
        """Let a file sound under the conversation. It replaces the sound of its kind (ambience, or thinking).

        A file that turns out broken is an `error` event, and the conversation goes on.

        Raises:
            ConfigurationError: There is no such file.
            CapabilityError: An avatar plays the agent's audio.
            SessionNotStartedError, SessionClosedError: Nothing can be played now.
        """
        self._parts.context.check_open()
        self._parts.background.check_sink()
        config = checked_config(source)
        self._parts.context.inbox.call(lambda: self._parts.background.play(config))

    def stop_background_audio(self) -> None:
        """Fade out everything that sounds in the background, for good; fine if nothing does."""
        self._parts.context.check_open()
        self._parts.context.inbox.call(self._parts.background.stop)

    def snapshot(self) -> dict[str, Any]:
        """Return the conversation so far as JSON data for `start(resume_from=...)`, at any time, also after the close.

        Its content: `vivavoce.agents.history.snapshot`.

        Raises:
            ConfigurationError: The userdata cannot be JSON; it says which part.
        """
        return take_snapshot(
            session_id=self.id,
            agent=self._parts.handoffs.root.id,
            history=self._parts.history,
            userdata=self.userdata,
            turns=self._parts.machine.turns,
            extensions=self._parts.extensions.take,
            open_work=self._parts.checkpoints.open_work,
        )()

    def report(self) -> SessionReport:
        """Return everything kept so far."""
        return self._parts.context.log.report(
            self._lifecycle.report,
            pipeline=self.pipeline,
            agent_id=self.agent.id,
            recordings=self.recording.records,
        )

    # --- inside

    def _resume(self, resumed: Snapshot) -> None:
        self._parts.history.restore(resumed.history, resumed.last_sequence, unjudged=resumed.unjudged)
        self.userdata = resumed.userdata
        self._parts.extensions.restore(resumed.extensions)
        self._parts.checkpoints.resume(resumed.open_work)

    async def _take_over(self, watch: SessionWatch) -> Snapshot | None:
        data = await watch.take_over(self._read)
        if data is None:
            return None
        resumed = self._read(data)
        self._resume(resumed)
        return resumed

    def _read(self, data: Mapping[str, Any]) -> Snapshot:
        snapshot = read_snapshot(data, agent=self.agent.id, userdata=self.userdata)
        self._parts.extensions.check_taken(snapshot.extensions)
        return snapshot

    async def _close_with_job(self, reason: str) -> None:
        await self.close(CloseReason.JOB_ENDED)

    async def _end(self, reason: CloseReason, *, leave: bool) -> CloseReport:
        if not self._parts.context.inbox.is_bound:
            return await self._lifecycle.close_unstarted(reason)
        self._parts.context.hooks.check_may_await_close()
        self._parts.context.closing.request(reason, leaves=leave)
        await self._join()
        assert self._lifecycle.report is not None
        return self._lifecycle.report

    async def _join(self) -> None:
        """Wait for the close, and for the session's task unless something in it ignores its cancellation."""
        assert self._task is not None
        with self._parts.context.hooks.awaiting_close() as is_handler:
            await self._parts.context.closing.ended.wait()
        if is_handler:  # a part of that task
            return
        with anyio.move_on_after(self._lifecycle.seconds_left):
            await asyncio.wait({self._task})
        if not self._task.done():
            report = self._lifecycle.report
            late = ", ".join(step.name for step in report.steps if step.error) if report is not None else ""
            logger.error(
                "Session %s has closed; something ignores its cancellation and is left behind: %s",
                self.id,
                late or "a handler of its last events",
            )
