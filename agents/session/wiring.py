"""Wiring: checks whether agent, pipeline and options fit, and makes the parts that depend on them."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vivavoce.agents.agent import Agent, AgentControl
from vivavoce.agents.current_job import current_job, has_job_ended, required_job, server_credentials
from vivavoce.agents.graphs.options import GraphOptions
from vivavoce.agents.job import CloseCall, WaitForClose
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.session.turns.turn_taking import check_turns, turn_traits, warn_of_waits
from vivavoce.agents.speech.flow import ConversationFlow, check_run
from vivavoce.agents.speech.request import SpeechRequest
from vivavoce.agents.states import CloseReason
from vivavoce.agents.telemetry.observer import NO_OBSERVER, SessionObserver
from vivavoce.agents.telemetry.telemetry import TelemetryControl
from vivavoce.agents.traces.trace_writer import TraceWriter
from vivavoce.agents.turn.machine import TurnMachine
from vivavoce.agents.turn.options import TurnOptions, WakeUp
from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError
from vivavoce.pipelines.io import Transport
from vivavoce.pipelines.media.audio_file import check_audio_file
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.pipeline import Pipeline, PipelineCapabilities
from vivavoce.pipelines.silent import SilentPipeline

if TYPE_CHECKING:
    from livekit import rtc

    from vivavoce.agents.transports.options import RoomOptions

logger = logging.getLogger(__name__)


def given_pipeline(pipeline: Pipeline | None) -> Pipeline:
    """Return the pipeline of a session, which may be given none."""
    return SilentPipeline() if pipeline is None else pipeline


def check_wiring(agent: Agent, pipeline: Pipeline) -> None:
    """Refuse an agent or a pipeline that can never work, the pipeline's fallbacks included.

    Raises:
        ConfigurationError: `agent` or `pipeline` is of another kind.
        CapabilityError: The pipeline can neither speak nor answer.
    """
    if not isinstance(agent, Agent):
        raise ConfigurationError(f"agent must be an Agent, got {shown(agent)}; make one: Agent('You help.')")
    AgentControl.of(agent)
    if not isinstance(pipeline, Pipeline):
        raise ConfigurationError(
            f"pipeline must be a Pipeline, got {shown(pipeline)}; for example CascadingPipeline(...)"
        )
    capabilities = pipeline.capabilities
    if not (capabilities.can_say or capabilities.can_reply):
        raise CapabilityError(pipeline.name, "can_say", "give the pipeline a tts, or a model that speaks")
    if pipeline.fallback is not None:
        check_wiring(agent, pipeline.fallback)


def warn_if_deaf(pipeline: Pipeline) -> None:
    """Log that callers could not speak to a pipeline, or to a fallback of it, that is about to be used.

    A pipeline that neither hears nor sounds is one of text.
    """
    capabilities = pipeline.capabilities
    if capabilities.can_reply and not capabilities.can_listen and not is_silent(pipeline):
        logger.warning("The pipeline answers but hears nothing; give it an stt, if callers are to speak")
    if pipeline.fallback is not None:
        warn_if_deaf(pipeline.fallback)


def is_silent(pipeline: Pipeline) -> bool:
    """Return whether a session with that pipeline neither hears nor sounds."""
    return not (pipeline.capabilities.can_listen or pipeline.capabilities.speaks)


def reason_of_failed_start() -> CloseReason:
    """Return why a session closes whose start has failed: by the end of its job, or by itself."""
    return CloseReason.JOB_ENDED if has_job_ended() else CloseReason.START_FAILED


def check_no_task(agent: Agent) -> None:
    """Refuse a task as the agent that has the conversation for good.

    Raises:
        ConfigurationError: `agent` is a task.
    """
    if AgentControl.of(agent).is_task:
        raise ConfigurationError(f"agent must be no task, got {agent.id!r}; await the task, in a hook or a tool")


def check_flow(flow: ConversationFlow | None, pipeline: Pipeline, options: SessionOptions) -> None:
    """Refuse a conversation flow that the pipeline, or its fallback, could not speak.

    Raises:
        ConfigurationError: It is of another kind, or the session follows a conversation graph.
        CapabilityError: The pipeline takes no text for its answers.
    """
    if flow is None:
        return
    if not isinstance(flow, ConversationFlow):
        raise ConfigurationError(f"conversation_flow must be a ConversationFlow, got {shown(flow)}; subclass it")
    check_run(flow)
    if any(isinstance(one, GraphOptions) for one in (options.graph, *options.extensions)):  # both would answer
        raise ConfigurationError(
            "a session follows a conversation graph or a ConversationFlow, got both; "
            "leave GraphOptions(…) or the flow out"
        )
    if not pipeline.capabilities.takes_flow:
        raise CapabilityError(
            pipeline.name, "takes_flow", "the text of a conversation flow needs a CascadingPipeline with a tts"
        )
    if pipeline.fallback is not None:
        check_flow(flow, pipeline.fallback, options)


def check_speech(capabilities: PipelineCapabilities, pipeline: str, request: SpeechRequest) -> None:
    """Refuse a `say` or `reply` that can never work.

    Raises:
        CapabilityError: The pipeline lacks the capability.
        ConfigurationError: Ready audio is of no use, is a file that is not there, or goes with a text still to come.
    """
    if request.audio is not None:
        if isinstance(request.audio, str | os.PathLike):
            check_audio_file(request.audio)
        elif not isinstance(request.audio, AudioFrame | AsyncIterator):
            raise ConfigurationError(
                "say(text, audio=...) needs an AudioFrame, an async iterator of them or the path of a file, "
                f"got {type(request.audio).__name__}"
            )
        if not isinstance(request.text, str):
            raise ConfigurationError(
                f"say(text, audio=...) needs the whole text as str, got {type(request.text).__name__}; join it first"
            )
    if request.text is not None:
        if not capabilities.can_say and request.audio is None:
            raise CapabilityError(pipeline, "can_say", "give the pipeline a tts, or say(text, audio=...)")
        return
    if not capabilities.can_reply:
        raise CapabilityError(
            pipeline, "can_reply", "give the pipeline an llm, such as CascadingPipeline(llm=...), or use say()"
        )
    if request.frames and not capabilities.supports_images:
        raise CapabilityError(pipeline, "supports_images", "use a model that sees, or reply() without frames")


def make_machine(
    options: SessionOptions, pipeline: Pipeline, wake_up: WakeUp | None, trace: TraceWriter | None
) -> TurnMachine:
    """Return the turn machine for these options.

    Raises:
        CapabilityError: As `check_turns`.
    """
    check_turns(options, pipeline, options.endpointing)
    warn_of_waits(pipeline, options.endpointing)
    turn_options = TurnOptions(
        endpointing=options.endpointing,
        interruption=options.interruption,
        wake_up=wake_up,
        away_after=options.away_after,
        max_errors=options.max_errors,
        traits=turn_traits(options, pipeline.capabilities),
    )
    return TurnMachine(turn_options) if trace is None else trace.recorded_machine(turn_options)


def make_observer(
    given: tuple[TelemetryControl | None, bool],
    options: SessionOptions,
    session_id: str,
    pipeline: Pipeline,
    facts: Callable[[], Mapping[str, Any]],
) -> SessionObserver:
    """Return the session's telemetry.

    Args:
        given: The destination, and whether it is the session's own.
        facts: Returns the attributes of the session's agent, pipeline and options.
    """
    telemetry, is_own = given
    if telemetry is None:
        return NO_OBSERVER
    telemetry.begin()
    from vivavoce.agents.telemetry.session_telemetry import SessionTelemetry

    parts = pipeline.capabilities.components
    return SessionTelemetry(
        telemetry,
        is_own=is_own,
        session_id=session_id,
        clock=options.clock,
        parts=parts,
        facts=facts,
        capture_content=options.capture_content,
    )


def make_transport(
    room: rtc.Room | Transport, participant: str | None, options: RoomOptions, clock: Clock
) -> Transport:
    """Return `room` itself if it is a transport, else one for a LiveKit room.

    Raises:
        ConfigurationError: A participant was named for a ready transport.
    """
    if isinstance(room, Transport):
        if participant is not None:
            raise ConfigurationError(
                f"participant={participant!r} goes with a LiveKit room, not with a ready transport"
            )
        return room
    from vivavoce.agents.transports.livekit import LiveKitTransport

    credentials = server_credentials()
    return LiveKitTransport(room, participant=participant, options=options, clock=clock, credentials=credentials)


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """Where a session takes place.

    Args:
        connect: Returns the connected transport.
        given: The transport that is there before; None: `connect` makes it.
        room, job_id: Names; empty for none.
    """

    connect: Callable[[], Awaitable[Transport]]
    given: Transport | None = None
    room: str = ""
    job_id: str = ""


@dataclass(frozen=True, slots=True)
class JobLink:
    """A session as its job sees it: the call that closes it, and the wait for its end."""

    close: CloseCall
    wait_closed: WaitForClose


def connecting(
    room: rtc.Room | Transport | None,
    participant: str | None,
    options: RoomOptions,
    clock: Clock,
    with_job: JobLink,
    *,
    hangs_up: bool,
    is_silent: bool,
) -> JoinPlan:
    """Return where the session takes place; in a job, count the session there.

    Args:
        is_silent: The session neither hears nor sounds: without a room and a job it takes place nowhere.
    Raises:
        ConfigurationError: No room was given and the code runs in no job, a participant goes with a transport, or the
            session `hangs_up` and the transport cannot.
    """
    if room is None and is_silent and current_job() is None:
        from vivavoce.agents.transports.text import TextTransport

        room = TextTransport()
    if room is not None:
        transport = make_transport(room, participant, options, clock)
        if hangs_up:
            transport.check_hangup()
        if (current := current_job()) is not None:
            current.session_begins(with_job.wait_closed)

        async def given() -> Transport:
            if current is not None:
                current.attach_session(with_job.close)
            return transport

        return JoinPlan(given, transport, room=getattr(room, "name", ""))
    job = required_job()
    job.session_begins(with_job.wait_closed)

    async def join() -> Transport:
        await job.connect(auto_subscribe=True)
        job.attach_session(with_job.close)
        whom = participant or job.job.participant_identity or None
        transport = make_transport(job.room, whom, options, clock)
        if hangs_up:
            transport.check_hangup()
        return transport

    return JoinPlan(join, room=job.job.room, job_id=job.job.id)
