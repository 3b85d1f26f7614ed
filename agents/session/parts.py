"""SessionParts: the parts of one session, built bottom up: each part is given the parts below it, and nothing else.

A part that belongs to another one is built by it: the handoffs build the agents, their setup and their hooks, the
requests for pipelines build their switch. `build_parts` shows which part stands on which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from vivavoce.agents.agent import Agent
from vivavoce.agents.audio.background_audio import BackgroundAudio, BackgroundAudioSource
from vivavoce.agents.audio.frame_hooks import FrameHooks
from vivavoce.agents.audio.playout import Playout
from vivavoce.agents.audio.recording.session_recording import RecordingControl
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.extension.attachments import Attachments
from vivavoce.agents.guard.guarding import guards_caller
from vivavoce.agents.history.checkpoint_feed import CheckpointFeed
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.memory.options import memory_of
from vivavoce.agents.session.components.requests import PipelineRequests, pipeline_for
from vivavoce.agents.session.handoffs.handoff import Handoffs
from vivavoce.agents.session.handoffs.tasks import Tasks
from vivavoce.agents.session.life.silence import Silence
from vivavoce.agents.session.options import SessionOptions, checked_options, extensions_of
from vivavoce.agents.session.turns.caller import Caller
from vivavoce.agents.session.turns.speech_requests import SpeechRequests
from vivavoce.agents.session.turns.speeches import Speeches
from vivavoce.agents.session.turns.turn_taking import make_machine
from vivavoce.agents.session_type import Session
from vivavoce.agents.speech.context import AnswerSources, reply_context
from vivavoce.agents.speech.flow import ConversationFlow, FlowRunner
from vivavoce.agents.speech.transcripts import TranscriptFeed
from vivavoce.agents.speech.turn_records import TurnRecords
from vivavoce.agents.tools.calls import ToolCalls
from vivavoce.agents.traces.trace_writer import TraceWriter, make_trace_writer
from vivavoce.agents.turn.machine import TurnMachine
from vivavoce.agents.turn.options import WakeUp, wake_up_of
from vivavoce.pipelines.pipeline import Pipeline

if TYPE_CHECKING:
    from vivavoce.agents.records import CloseReport, SessionReport
    from vivavoce.pipelines.io import Transport


@dataclass(frozen=True, slots=True, eq=False)
class Keeping:
    """The parts that keep a call outside of its session: its decisions, its sound, its state for a crash."""

    trace: TraceWriter | None
    recording: RecordingControl
    checkpoints: CheckpointFeed


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SessionParts:
    """The parts of one session, from the lowest to the highest."""

    context: SessionContext
    options: SessionOptions
    history: HistoryControl
    extensions: Attachments
    flows: FlowRunner
    pipelines: PipelineRequests
    handoffs: Handoffs
    machine: TurnMachine
    records: TurnRecords
    keeping: Keeping
    tools: ToolCalls
    transcripts: TranscriptFeed
    playout: Playout
    background: BackgroundAudio
    caller: Caller
    speeches: Speeches
    silence: Silence
    requests: SpeechRequests
    tasks: Tasks

    def open(self, transport: Transport) -> None:
        """Link the parts to the transport; the pipeline is open by now."""
        self.caller.open()
        self.flows.open()
        self.transcripts.open(transport)
        self.playout.open(self.keeping.recording.wrap(transport.sink))
        self.background.open()
        self.speeches.open()
        self.handoffs.open(self.keeping.checkpoints.changed)

    def report(self, close: CloseReport | None) -> SessionReport:
        """Return everything that the session keeps; `close` is the report of its close, once there is one."""
        pipeline, recordings = self.pipelines.switch.pipeline, self.keeping.recording.records
        agent_id = self.context.live.agent.id
        return self.context.log.report(close, pipeline=pipeline, agent_id=agent_id, recordings=recordings)


def build_parts(
    session: Session,
    agent: Agent,
    pipeline: Pipeline | None,
    flow: ConversationFlow | None,
    wake_up: float | WakeUp | None,
    background_audio: BackgroundAudioSource | Sequence[BackgroundAudioSource] | None,
    userdata: object,
    options: SessionOptions | None,
    session_id: str | None,
) -> SessionParts:
    """Build the parts of `session`, bottom up.

    Raises:
        ConfigurationError: An argument is of another kind, or does not fit.
        CapabilityError: Agent, flow and pipeline do not fit.
    """
    options = checked_options(options, session_id)
    pipeline = pipeline_for(agent, pipeline, flow, options)
    wake_up, limit = wake_up_of(wake_up), options.speech.hook_timeout
    context = SessionContext(
        session, session_id, options.clock, agent, pipeline.capabilities, userdata, limit=options.callback_timeout
    )
    trace = make_trace_writer(options.trace_path, context.id, context.clock)
    history = HistoryControl(context, judges_caller=guards_caller(options.guard))
    record = None if trace is None else trace.record
    extensions = Attachments(context, history, extensions_of(options), limit=limit, record=record)
    memory, frame_hooks = memory_of(extensions), FrameHooks(context)
    flows = FlowRunner(context, flow, limit=limit)
    pipelines = PipelineRequests(context, pipeline, history, flows, extensions, options=options)
    handoffs = Handoffs(context, history, pipelines, on_floor=memory.streams.took_floor, options=options)
    machine = make_machine(options, pipeline, wake_up, trace)
    records = TurnRecords(context, extensions, captures_content=options.capture_content)
    checkpoints = CheckpointFeed(context, history, machine, extensions.take, lambda: handoffs.root.id)
    memory.snapshots.open(partial(checkpoints.take, only_ids=True))
    tools = ToolCalls(
        context, history, checkpoints, handoffs.from_tool, extensions.take_tool_result, timeout=options.tool_timeout
    )
    transcripts = TranscriptFeed(context.log, history.caller_words.voices, on_final=memory.streams.note_transcript)
    playout = Playout(context.clock, on_written=frame_hooks.spoken, on_progress=transcripts.agent_progress)
    background = BackgroundAudio(context, playout, background_audio)
    recording = RecordingControl(context, options.recording)
    caller = Caller(context, playout, background, recording, frame_hooks)
    memory.replies.open(caller.replies)
    replies = reply_context(
        context,
        history,
        tools,
        AnswerSources(flows, extensions),
        playout,
        caller.seeing,
        guard=options.guard,
        policy=options.context_window,
        limits=options.speech,
    )
    speeches = Speeches(replies, machine, records, handoffs, voice_ahead=options.preemptive_tts)
    silence = Silence(context, caller, playout, speeches, wake_up, options=options)
    extensions.open(silence.hang_ups, (checkpoints, memory.snapshots))
    pipelines.check_agent(agent)
    return SessionParts(
        context=context,
        options=options,
        history=history,
        extensions=extensions,
        flows=flows,
        pipelines=pipelines,
        handoffs=handoffs,
        machine=machine,
        records=records,
        keeping=Keeping(trace, recording, checkpoints),
        tools=tools,
        transcripts=transcripts,
        playout=playout,
        background=background,
        caller=caller,
        speeches=speeches,
        silence=silence,
        requests=SpeechRequests(speeches, transcripts, silence.wake_up),
        tasks=Tasks(context, handoffs, pipelines, tools, speeches),
    )
