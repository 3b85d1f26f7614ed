"""SessionParts: the parts of one session, built bottom up: each part is given the parts below it, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from vivavoce.agents.agent import Agent, Session
from vivavoce.agents.audio.background_audio import BackgroundAudio, BackgroundAudioSource
from vivavoce.agents.audio.frame_hooks import FrameHooks
from vivavoce.agents.audio.playout import Playout
from vivavoce.agents.audio.recording.session_recording import RecordingControl
from vivavoce.agents.budget.amounts import NO_BUDGET
from vivavoce.agents.budget.options import BudgetOptions
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.extension.attachments import Attachments
from vivavoce.agents.extension.extension import Extension
from vivavoce.agents.guard.guarding import Guarding, guards_agent, guards_caller
from vivavoce.agents.history.checkpoint_feed import CheckpointFeed
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.memory.control import MemoryControl
from vivavoce.agents.memory.memory import SessionMemory
from vivavoce.agents.memory.options import MemoryOptions, UnusedMemory
from vivavoce.agents.replies.replies import RichReplies
from vivavoce.agents.session.components.requests import PipelineRequests
from vivavoce.agents.session.components.switch import PipelineSwitch
from vivavoce.agents.session.handoffs.agent_hooks import AgentHooks
from vivavoce.agents.session.handoffs.handoff import Handoffs
from vivavoce.agents.session.handoffs.session_agents import SessionAgents
from vivavoce.agents.session.handoffs.tasks import Tasks
from vivavoce.agents.session.life.hang_ups import HangUps
from vivavoce.agents.session.life.last_words import LastWords
from vivavoce.agents.session.life.preparing import AgentSetup, Preparing
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.session.turns.caller import Caller
from vivavoce.agents.session.turns.speeches import Speeches
from vivavoce.agents.session.turns.turn_records import TurnRecords
from vivavoce.agents.session.turns.turn_taking import TurnTaking
from vivavoce.agents.session.turns.wake_up_call import WakeUpCall
from vivavoce.agents.session.wiring import make_machine
from vivavoce.agents.speech.context import AnswerSources, ReplyContext
from vivavoce.agents.speech.flow import ConversationFlow, FlowRunner
from vivavoce.agents.speech.preemptive_replies import PreemptiveReplies
from vivavoce.agents.speech.request_window import RequestWindow
from vivavoce.agents.speech.seeing import Seeing
from vivavoce.agents.speech.transcripts import TranscriptFeed
from vivavoce.agents.tools.calls import ToolCalls
from vivavoce.agents.traces.trace_writer import TraceWriter, make_trace_writer
from vivavoce.agents.turn.machine import TurnMachine
from vivavoce.agents.turn.options import WakeUp
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.io import Transport
from vivavoce.pipelines.pipeline import Pipeline

if TYPE_CHECKING:
    from vivavoce.agents.budget.budget import Budget


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SessionParts:
    """The parts of one session, from the lowest to the highest."""

    context: SessionContext
    options: SessionOptions
    trace: TraceWriter | None
    history: HistoryControl
    recording: RecordingControl
    preparing: Preparing
    setup: AgentSetup
    session_agents: SessionAgents
    agent_hooks: AgentHooks
    handoffs: Handoffs
    tools: ToolCalls
    frame_hooks: FrameHooks
    transcripts: TranscriptFeed
    playout: Playout
    background: BackgroundAudio
    flows: FlowRunner
    attempts: PreemptiveReplies
    caller: Caller
    pipelines: PipelineSwitch
    pipeline_requests: PipelineRequests
    machine: TurnMachine
    records: TurnRecords
    checkpoints: CheckpointFeed
    last_words: LastWords
    wake_up_call: WakeUpCall
    speeches: Speeches
    tasks: Tasks
    hang_ups: HangUps
    extensions: Attachments

    @property
    def memory(self) -> SessionMemory:
        """The memory as applications know it; to ask for it is to use it."""
        memory = self.extensions.face(MemoryOptions)
        assert isinstance(memory, SessionMemory)
        return memory

    @property
    def budget(self) -> Budget:
        """The budget as applications know it.

        Raises:
            ConfigurationError: There is none.
        """
        attached = self.extensions.of(BudgetOptions)
        if attached is None:
            raise ConfigurationError(NO_BUDGET)
        return cast("Budget", attached.face)

    def open(self, transport: Transport) -> None:
        """Link the parts to the transport; the pipeline is open by now."""
        self.caller.open()
        self.flows.open()
        self.transcripts.open(transport)
        self.playout.open(self.recording.wrap(transport.sink))
        self.background.open()
        self.speeches.open()
        self.handoffs.open(self.checkpoints.changed)
        self.extensions.open(transport, self.hang_ups, self.checkpoints.changed)


def build_parts(
    session: Session,
    agent: Agent,
    pipeline: Pipeline,
    *,
    flow: ConversationFlow | None,
    wake_up: WakeUp | None,
    background_audio: BackgroundAudioSource | Sequence[BackgroundAudioSource] | None,
    options: SessionOptions,
    session_id: str | None,
) -> SessionParts:
    """Build the parts of `session`, bottom up.

    Raises:
        ConfigurationError: An option, the background audio, the pipeline's way to take turns or a price does not fit.
    """
    context = _make_context(session, agent, pipeline, options, session_id)
    hook_limit = options.speech.hook_timeout
    trace = make_trace_writer(options.trace_path, context.id, context.clock)
    history = HistoryControl(context, judges_caller=guards_caller(options.guard))
    record = None if trace is None else trace.record
    extensions = Attachments(context, history, _extensions(options), limit=hook_limit, record=record)
    memory = extensions.of(MemoryOptions)
    assert isinstance(memory, MemoryControl), "each session has a memory"
    memory.replies.open(rich_replies := RichReplies(context))
    recording = RecordingControl(context, options.recording)
    setup = AgentSetup(context, preparing := Preparing(context.clock, options.start_step))
    pipelines = PipelineSwitch(context, pipeline, history, turns := TurnTaking(context, options), options=options)
    flows = FlowRunner(context, flow, limit=hook_limit)
    requests = PipelineRequests(context, pipelines, flows, turns, options, extensions)
    session_agents = SessionAgents(context, history, setup, on_floor=memory.streams.took_floor, limit=hook_limit)
    agent_hooks = AgentHooks(context, limit=hook_limit)
    handoffs = Handoffs(context, history, setup, requests, session_agents, agent_hooks, limit=hook_limit)
    machine, records = make_machine(options, pipeline, wake_up, trace), TurnRecords(context, options, extensions)
    checkpoints = CheckpointFeed(context, history, machine, extensions.take, lambda: handoffs.root.id)
    memory.snapshots.open(partial(checkpoints.take, only_ids=True))
    tools = _make_tools(context, options, history, checkpoints, handoffs, extensions)
    frame_hooks, seeing = FrameHooks(context), Seeing(context.live)
    transcripts = TranscriptFeed(on_final=memory.streams.note_transcript)
    playout = Playout(context.clock, on_written=frame_hooks.spoken, on_progress=transcripts.agent_progress)
    background = BackgroundAudio(context, playout, background_audio)
    replies = _make_replies(context, options, history, tools, AnswerSources(flows, extensions), playout, seeing)
    caller = Caller(context, playout, background, recording, frame_hooks, seeing, rich_replies)
    speeches = Speeches(replies, machine, records, handoffs)
    return SessionParts(
        context=context,
        options=options,
        trace=trace,
        history=history,
        recording=recording,
        preparing=preparing,
        setup=setup,
        session_agents=session_agents,
        agent_hooks=agent_hooks,
        handoffs=handoffs,
        tools=tools,
        frame_hooks=frame_hooks,
        transcripts=transcripts,
        playout=playout,
        background=background,
        flows=flows,
        attempts=PreemptiveReplies(replies, with_voice=options.preemptive_tts and not guards_agent(options.guard)),
        caller=caller,
        pipelines=pipelines,
        pipeline_requests=requests,
        machine=machine,
        records=records,
        checkpoints=checkpoints,
        last_words=LastWords(context, apology=options.apology, limit=options.speech.hook_timeout),
        wake_up_call=WakeUpCall(context, limit=options.callback_timeout),
        speeches=speeches,
        tasks=Tasks(context, handoffs, requests, agent_hooks, tools, speeches),
        hang_ups=HangUps(context, speeches, playout, caller),
        extensions=extensions,
    )


def _extensions(options: SessionOptions) -> list[Extension]:
    """Return the extensions of a session, in their order."""
    own = (options.memory or UnusedMemory(), options.budget, options.graph, options.dialogues)
    return [*(one for one in own if one is not None), *options.extensions]


def _make_tools(
    context: SessionContext,
    options: SessionOptions,
    history: HistoryControl,
    checkpoints: CheckpointFeed,
    handoffs: Handoffs,
    extensions: Attachments,
) -> ToolCalls:
    return ToolCalls(
        context,
        history,
        checkpoints,
        timeout=options.tool_timeout,
        max_threads=options.max_tool_threads,
        hand_off=handoffs.from_tool,
        take_result=extensions.take_tool_result,
    )


def _make_replies(
    context: SessionContext,
    options: SessionOptions,
    history: HistoryControl,
    tools: ToolCalls,
    sources: AnswerSources,
    playout: Playout,
    seeing: Seeing,
) -> ReplyContext:
    return ReplyContext(
        context,
        history=history,
        tools=tools,
        sources=sources,
        playout=playout,
        window=RequestWindow(options.context_window, seeing, context.report_error, limit=options.speech.hook_timeout),
        guarding=Guarding(context, history, options.guard),
        limits=options.speech,
    )


def _make_context(
    session: Session,
    agent: Agent,
    pipeline: Pipeline,
    options: SessionOptions,
    session_id: str | None,
) -> SessionContext:
    return SessionContext(
        session,
        session_id or new_id("session"),
        options.clock,
        agent=agent,
        capabilities=pipeline.capabilities,
        callback_timeout=options.callback_timeout,
    )
