"""SessionRuntime: the one loop that feeds the turn machine and carries its effects out, in order."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any

import anyio
from anyio.abc import TaskGroup

from vivavoce.agents import events as ev
from vivavoce.agents.agent import Agent
from vivavoce.agents.observe.turn_record import TurnRecordBuilder
from vivavoce.agents.records import TurnOutcome
from vivavoce.agents.session.history import SessionHistory
from vivavoce.agents.session.journal import Journal
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.session.tool_room import ToolRoom
from vivavoce.agents.session.transcripts import TranscriptFeed
from vivavoce.agents.speech.handle import SpeechHandle
from vivavoce.agents.speech.host import SpeechLimits, SpeechRequest
from vivavoce.agents.speech.playout import Playout, Utterance
from vivavoce.agents.speech.reply import Reply
from vivavoce.agents.states import CloseReason
from vivavoce.agents.tools.executor import ToolBatch
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.machine import TurnMachine
from vivavoce.pipelines.core.clock import Clock, TimerHandle
from vivavoce.pipelines.events import PipelineEvent, PipelineFailed, UserFinal, UserInterim
from vivavoce.pipelines.io import AudioSink, Transport
from vivavoce.pipelines.llm.base import Usage
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.pipeline import PipelineCapabilities, PipelineConnection

logger = logging.getLogger(__name__)


class SessionRuntime:
    """Runs a conversation from its first input to its last. All of it happens on the session's event loop.

    Args:
        request_close: Called when the conversation cannot or need not go on.
    """

    def __init__(
        self,
        machine: TurnMachine,
        *,
        clock: Clock,
        options: SessionOptions,
        journal: Journal,
        history: SessionHistory,
        request_close: Callable[[CloseReason, Exception | None], None],
        tools: ToolRoom,
    ) -> None:
        self.clock = clock
        self.limits: SpeechLimits = options.speech
        self.fade = options.interruption.fade
        self.journal = journal
        self.history = history
        self.tools = tools
        self._machine = machine
        self._request_close = request_close
        self._inbox: deque[i.TurnInput | PipelineFailed | Silence] = deque()
        self._wake = anyio.Event()
        self._timer: TimerHandle | None = None
        self._timer_at: float | None = None
        self._replies: dict[str, Reply] = {}
        self._held: str = ""
        self._links: _Links | None = None
        self._transcripts: TranscriptFeed | None = None

    # --- what a reply needs (SpeechHost)

    @property
    def _linked(self) -> _Links:
        assert self._links is not None, "the runtime is used before open()"
        return self._links

    @property
    def playout(self) -> Playout:
        """Where speech goes."""
        return self._linked.playout

    @property
    def agent(self) -> Agent:
        """Who has the conversation."""
        return self._linked.agent

    @property
    def connection(self) -> PipelineConnection:
        """The session's pipeline."""
        return self._linked.connection

    @property
    def capabilities(self) -> PipelineCapabilities:
        """What the pipeline can do."""
        return self._linked.capabilities

    def post(self, event: i.TurnInput | PipelineEvent) -> None:
        """Enqueue an input; nothing is decided on the caller's stack."""
        self._inbox.append(event)
        self._wake.set()

    def context(self) -> ChatContext:
        """Return a copy of the conversation for a model, calls still running included."""
        return self.tools.with_pending(self.history.copy())

    def run_tools(self, handle: SpeechHandle, calls: Sequence[ToolCall], turn_id: str) -> ToolBatch:
        """Run calls in the session's group, outside the reply's scope."""
        return self.tools.start(self._linked.group, handle, calls, self.agent.tools, turn_id)

    def add_usage(
        self,
        usage: Usage | None = None,
        *,
        characters: int = 0,
        audio_seconds: float = 0.0,
        heard_seconds: float = 0.0,
    ) -> None:
        """Count what was used."""
        self.journal.add_usage(usage, characters=characters, audio_seconds=audio_seconds, heard_seconds=heard_seconds)

    def report_error(self, error: Exception, source: str, *, is_recovered: bool = False) -> None:
        """Emit an `error` event."""
        self.journal.note(ev.ErrorOccurred, error=error, source=source, is_recovered=is_recovered)
        self._wake.set()

    def speech_ended(self, handle: SpeechHandle, outcome: TurnOutcome) -> None:
        """A reply is over: keep and emit its record."""
        reply = self._replies.pop(handle.id, None)
        if self._held == handle.id:
            self._release_hold()
        if reply is None or reply.is_withdrawn:
            return
        self._keep_record(reply.record, outcome)

    # --- set up by the lifecycle

    def open(
        self,
        *,
        group: TaskGroup,
        agent: Agent,
        connection: PipelineConnection,
        capabilities: PipelineCapabilities,
        transport: Transport,
        on_written: Callable[[AudioFrame], None] | None,
    ) -> None:
        """Take what the session is linked to."""
        self._transcripts = TranscriptFeed(transport)
        playout = Playout(
            _sink_of(transport),
            self.clock,
            on_started=self._on_played_first,
            on_finished=self._on_played_last,
            on_written=on_written,
            on_progress=self._transcripts.agent_progress,
        )
        self._links = _Links(group, agent, connection, capabilities, transport, playout)

    async def run(self) -> None:
        """Take inputs and deadlines until cancelled."""
        while True:
            while self._inbox:
                self.step(self._inbox.popleft())
            deadline = self._machine.next_deadline()
            if deadline is not None and deadline <= self.clock.now():
                self.step(i.Tick())
                continue
            self.journal.flush()
            if self._inbox:
                continue
            self._wake = anyio.Event()
            self._arm(deadline)
            await self._wake.wait()

    def step(self, event: i.TurnInput | PipelineFailed | Silence) -> None:
        """Let the machine take one input and carry out what it wants. Also called by the lifecycle while closing."""
        if isinstance(event, Silence):
            event.is_decided.set()
            return
        if isinstance(event, PipelineFailed):
            self._on_pipeline_failed(event)
            return
        if isinstance(event, UserFinal):
            self._on_user_words(event.text, is_final=True)
            self.add_usage(heard_seconds=event.audio_seconds)
        elif isinstance(event, UserInterim):
            self._on_user_words(event.text, is_final=False)
        for effect in self._machine.handle(event, now=self.clock.now()):
            self._apply(effect)

    def request_speech(self, handle: SpeechHandle, request: SpeechRequest, asked: i.SpeechRequested) -> None:
        """Register a `say` or `reply` and ask for the floor."""
        record = TurnRecordBuilder(handle.id, handle.kind, session_start=self.journal.started_at, now=self.clock.now())
        self._replies[handle.id] = Reply(self, handle, request, record)
        self.journal.note(ev.SpeechCreated, speech_id=handle.id, kind=handle.kind)
        self.post(asked)

    @property
    def live_handles(self) -> list[SpeechHandle]:
        """Handles of all speeches that are not over."""
        return [reply.handle for reply in self._replies.values()]

    @property
    def current_handle(self) -> SpeechHandle | None:
        """The handle of the speech that has the floor."""
        reply = self._replies.get(self._machine.current_speech_id)
        return reply.handle if reply else None

    # --- inputs

    def _on_pipeline_failed(self, event: PipelineFailed) -> None:
        self.report_error(event.error, event.component or "pipeline", is_recovered=event.recovered)
        if not event.recovered:
            self._request_close(CloseReason.ERROR, event.error)

    def _on_user_words(self, text: str, *, is_final: bool) -> None:
        if not text and not is_final:
            return
        if text:
            self.journal.note(ev.UserTranscript, turn_id=self._machine.open_turn_id, text=text, is_final=is_final)
        if self._transcripts is not None:
            self._transcripts.user(text, is_final=is_final)

    def _on_played_first(self, utterance: Utterance) -> None:
        assert utterance.started_at is not None
        reply = self._replies.get(utterance.speech_id)
        if reply is not None:
            reply.record.played(utterance.started_at)
        self.post(i.PlayoutStarted(utterance.speech_id, utterance.started_at))

    def _on_played_last(self, utterance: Utterance) -> None:
        reply = self._replies.get(utterance.speech_id)
        if reply is not None:
            reply.on_played(utterance)
        self.post(i.PlayoutFinished(utterance.speech_id, self.clock.now(), utterance.is_last))

    # --- effects

    def _apply(self, effect: fx.Effect) -> None:
        _APPLY[type(effect)](self, effect)

    def _set_agent_state(self, effect: fx.SetAgentState) -> None:
        self.journal.note(ev.AgentStateChanged, at=effect.at, old=effect.old, state=effect.state)
        self.journal.note_state("agent", effect.state, effect.at)
        if self._links is not None:
            self._links.transport.send_agent_state(effect.state)

    def _set_user_state(self, effect: fx.SetUserState) -> None:
        self.journal.note(ev.UserStateChanged, at=effect.at, old=effect.old, state=effect.state)
        self.journal.note_state("user", effect.state, effect.at)

    def _commit_user_turn(self, effect: fx.CommitUserTurn) -> None:
        self.connection.commit_audio()
        item = self.history.user_item(effect.turn_id) if effect.merged else None
        if item is not None:
            item = self.history.replace_text(item, effect.text)
        else:
            item = self.history.add_message("user", effect.text, turn_id=effect.turn_id)
        handle = SpeechHandle(effect.speech_id, "turn", interruptible=True, interrupt=self.interrupt_speech)
        record = TurnRecordBuilder(effect.turn_id, "turn", session_start=self.journal.started_at, now=self.clock.now())
        record.committed(effect.timing, effect.text)
        request = SpeechRequest(user_item=item, remote_reply_id=effect.remote_reply_id)
        self._replies[handle.id] = Reply(self, handle, request, record)
        self.journal.note(ev.SpeechCreated, turn_id=effect.turn_id, speech_id=handle.id, kind="turn")

    def interrupt_speech(self, speech_id: str, force: bool) -> None:
        """Enqueue the interruption of one speech."""
        self.post(i.InterruptRequested(force=force, speech_id=speech_id))

    def _add_backchannel(self, effect: fx.AddBackchannel) -> None:
        self.history.add_message("user", effect.text, turn_id=effect.turn_id, backchannel=True)

    def _amend_user_turn(self, effect: fx.AmendUserTurn) -> None:
        item = self.history.user_item(effect.turn_id)
        if item is not None and item.content != effect.text:
            self.history.replace_text(item, effect.text)
        reply = self._replies.get(effect.speech_id)
        if reply is not None:
            reply.record.user_text = effect.text

    def _drop_user_turn(self, effect: fx.DropUserTurn) -> None:
        if effect.reason == "transcript_missing":
            self.journal.note(ev.TranscriptMissing, turn_id=effect.turn_id)

    def _grant_floor(self, effect: fx.GrantFloor) -> None:
        reply = self._replies.get(effect.speech_id)
        if reply is None:
            return
        is_first = not reply.is_running
        reply.grant()
        if is_first:
            self._linked.group.start_soon(reply.run, name=f"speech {effect.speech_id}")

    def _cancel_speech(self, effect: fx.CancelSpeech) -> None:
        reply = self._replies.get(effect.speech_id)
        if reply is not None and reply.is_running:
            reply.cancel(effect.outcome, is_withdrawn=effect.is_withdrawn)
        # Only now, or a moment of what was held would be heard.
        if self._held == effect.speech_id:
            self._release_hold()
        if reply is None or reply.is_running:
            return
        # Nothing of it has begun: it is over here and now.
        if effect.outcome == "discarded":
            logger.info("Speech %s was discarded: another one is running", effect.speech_id)
        self.post(i.SpeechEnded(effect.speech_id, effect.outcome))
        reply.is_withdrawn = effect.is_withdrawn
        reply.handle.set_outcome(effect.outcome)
        self.speech_ended(reply.handle, effect.outcome)

    def _pause_speech(self, effect: fx.PauseSpeech) -> None:
        self._held = effect.speech_id
        self.playout.pause(self.fade)

    def _resume_speech(self, effect: fx.ResumeSpeech) -> None:
        reply = self._replies.get(effect.speech_id)
        if reply is not None:
            reply.record.mark("queue", "runtime", self.clock.now())
        self._release_hold()
        if effect.is_false_interruption:
            self.journal.note(ev.FalseInterruption, speech_id=effect.speech_id)

    def _release_hold(self) -> None:
        self._held = ""
        self.playout.resume()

    def _predict(self, effect: fx.PredictEndOfTurn) -> None:
        spoken = self.history.messages("assistant")
        self.connection.predict_end_of_turn(effect.text, spoken[-1].content if spoken else "")

    def _settle_audio(self, effect: fx.SettleAudio) -> None:
        self.connection.commit_audio()

    def _clear_audio(self, effect: fx.ClearAudio) -> None:
        self.connection.clear_audio()

    def _refuse_remote(self, effect: fx.RefuseRemoteReply) -> None:
        self.connection.refuse(effect.remote_reply_id)

    def _close_session(self, effect: fx.CloseSession) -> None:
        self._request_close(CloseReason(effect.reason), None)

    # --- records and timers

    def _keep_record(self, record: TurnRecordBuilder, outcome: TurnOutcome) -> None:
        built = record.build(outcome, self.clock.now())
        self.journal.turns.append(built)
        self.journal.note(ev.TurnCompleted, turn_id=built.turn_id, record=built)
        if self._transcripts is not None:
            self._transcripts.turn(built)
        self._wake.set()

    def _arm(self, deadline: float | None) -> None:
        if deadline == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = None if deadline is None else self.clock.call_at(deadline, self._on_deadline)

    def _on_deadline(self) -> None:
        self._timer = self._timer_at = None
        self._wake.set()

    def interrupt_all(self, *, force: bool) -> Silence:
        """Enqueue an interruption; the result can be awaited and means that the audio has stopped."""
        silence = Silence(self)
        self.post(i.InterruptRequested(force=force))
        self._inbox.append(silence)
        return silence

    async def wait_audio_stopped(self) -> None:
        """Wait until the sink has played what it holds, a fade included, if nothing else is being played."""
        if self._links is None or self.playout.current is not None:
            return
        remaining = self.playout.silent_at() - self.clock.now()
        if remaining > 0:
            await anyio.sleep(remaining)

    async def wait_silent(self) -> None:
        """Wait until every speech is over and the sink is empty; the caller bounds it."""
        for handle in self.live_handles:
            await handle
        if self._links is not None:
            await anyio.sleep(max(0.0, self.playout.silent_at() - self.clock.now()))

    def end(self) -> None:
        """Drop the timer, what is still in the playout, and resolve every handle that is left."""
        self._arm(None)
        if self._links is not None:
            self._links.playout.close()
        for reply in list(self._replies.values()):
            reply.handle.set_outcome("cancelled")
        self._replies.clear()
        for event in self._inbox:
            if isinstance(event, Silence):
                event.is_decided.set()
        self._inbox.clear()


class Silence:
    """What `interrupt()` returns: awaiting it means that the audio has stopped; not awaiting it is fine."""

    __slots__ = ("_runtime", "is_decided")

    def __init__(self, runtime: SessionRuntime) -> None:
        self._runtime = runtime
        self.is_decided = anyio.Event()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._wait().__await__()

    async def _wait(self) -> None:
        await self.is_decided.wait()
        await self._runtime.wait_audio_stopped()


class _Links:
    """What a running session is linked to."""

    __slots__ = ("agent", "capabilities", "connection", "group", "playout", "transport")

    def __init__(
        self,
        group: TaskGroup,
        agent: Agent,
        connection: PipelineConnection,
        capabilities: PipelineCapabilities,
        transport: Transport,
        playout: Playout,
    ) -> None:
        self.group = group
        self.agent = agent
        self.connection = connection
        self.capabilities = capabilities
        self.transport = transport
        self.playout = playout


def _sink_of(transport: Transport) -> AudioSink:
    return transport.sink


_APPLY: dict[type, Callable[[SessionRuntime, Any], None]] = {
    fx.SetAgentState: SessionRuntime._set_agent_state,
    fx.SetUserState: SessionRuntime._set_user_state,
    fx.CommitUserTurn: SessionRuntime._commit_user_turn,
    fx.AmendUserTurn: SessionRuntime._amend_user_turn,
    fx.AddBackchannel: SessionRuntime._add_backchannel,
    fx.DropUserTurn: SessionRuntime._drop_user_turn,
    fx.GrantFloor: SessionRuntime._grant_floor,
    fx.CancelSpeech: SessionRuntime._cancel_speech,
    fx.PauseSpeech: SessionRuntime._pause_speech,
    fx.ResumeSpeech: SessionRuntime._resume_speech,
    fx.PredictEndOfTurn: SessionRuntime._predict,
    fx.SettleAudio: SessionRuntime._settle_audio,
    fx.ClearAudio: SessionRuntime._clear_audio,
    fx.RefuseRemoteReply: SessionRuntime._refuse_remote,
    fx.CloseSession: SessionRuntime._close_session,
}
