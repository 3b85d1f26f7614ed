"""TurnRecords: a record for each turn, `say` and `reply` of a session, and for the user's turns that were dropped."""

from __future__ import annotations

from collections.abc import Sequence

from vivavoce.agents.audio.playout import Playout
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.extension.attachments import Attachments
from vivavoce.agents.records import TurnOutcome, TurnRecord, UsageRecord
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.options import EndpointingOptions, InterruptionOptions
from vivavoce.agents.turn_records.heard import HeardTurns
from vivavoce.agents.turn_records.interruptions import AgentAt, PolicyName
from vivavoce.agents.turn_records.turn_record import TurnFrame, TurnRecordBuilder
from vivavoce.pipelines.core.incidents import FellBack


class TurnRecords:
    """Makes the records' builders from the turn machine's effects, and hands finished records to the log.

    Args:
        extensions: The extensions, which get each record too.
        captures_content: Whether a record may hold content.
    """

    def __init__(self, context: SessionContext, extensions: Attachments, *, captures_content: bool) -> None:
        self._captures_content = captures_content
        self._take_options(context.live.endpointing, context.live.interruption)
        self._context = context
        self._extensions = extensions
        self._heard = HeardTurns()
        self._usage = UsageRecord()
        """Use of the recogniser since the last commit."""
        self._fallbacks: list[tuple[FellBack, float]] = []
        """Fallbacks since the last commit outside of any speech, with their times."""

    def _take_options(self, endpointing: EndpointingOptions, interruption: InterruptionOptions) -> None:
        mode = interruption.mode
        self._policy: PolicyName = mode if mode == "pause" or mode == "immediate" else "custom"
        self._endpointing = endpointing

    def step(self, event: i.TurnInput, effects: Sequence[fx.Effect], open_turn_id: str) -> None:
        """Take a step of the turn machine, before its effects are carried out."""
        log, heard = self._context.log, self._heard
        if isinstance(event, i.TurnOptionsChanged):
            self._take_options(event.endpointing, event.interruption)
        if isinstance(event, i.UserFinal) and event.audio_seconds:
            self._context.add_usage(UsageRecord(stt_audio_seconds=event.audio_seconds), "stt")
            self._usage = UsageRecord(stt_audio_seconds=self._usage.stt_audio_seconds + event.audio_seconds)
        dropped = heard.take(event, effects, open_turn_id, self._context.clock.now())
        if (open_turn := heard.get(open_turn_id)) is not None:
            log.observer.turn_opened(open_turn)
        for parts, reason in dropped:
            log.note_dropped_turn(parts, reason)

    def fell_back(self, fell: FellBack) -> None:
        """Note that a component failed outside of any speech, and that another one takes its place."""
        if not fell.is_reported:
            self._fallbacks.append((fell, self._context.clock.now()))
        self._context.log.fell_back(fell)

    # --- records

    def begin(self, handle: SpeechHandle) -> TurnRecordBuilder:
        """Return the builder for the record of a `say` or `reply`."""
        now = self._context.clock.now()
        return TurnRecordBuilder(handle.id, handle.kind, frame=self._frame(), now=now, speech_id=handle.id)

    def commit(self, effect: fx.CommitUserTurn) -> TurnRecordBuilder:
        """Return the builder for the record of a user's turn."""
        parts = self._heard.get(effect.turn_id)
        assert parts is not None, "a turn is committed that no step has opened"
        now = self._context.clock.now()
        record = TurnRecordBuilder(
            effect.turn_id, "turn", frame=self._frame(), now=now, speech_id=effect.speech_id, parts=parts
        )
        record.committed(effect.timing, effect.text, speech_started_at=effect.speech_started_at)
        record.add_usage(self._usage)
        self._usage = UsageRecord()
        for fell, at in self._fallbacks:
            record.add_fallback(fell, at)
        self._fallbacks.clear()
        self._context.log.observer.turn_committed(parts, effect.speech_id)
        return record

    def _frame(self) -> TurnFrame:
        log, live = self._context.log, self._context.live
        capabilities = live.capabilities
        has_vad = any(kind == "vad" for kind, _, _ in capabilities.components)
        return TurnFrame(
            session_start=log.started_at,
            session_id=log.session_id,
            agent_id=live.agent.id,
            trace_id=log.observer.trace_id,
            captures_content=self._captures_content,
            has_server_vad=capabilities.decides_turns == "remote" and not has_vad,
            vad_silence=capabilities.vad_silence,
            endpointing=self._endpointing,
            policy=self._policy,
        )

    def close(self, builder: TurnRecordBuilder, outcome: TurnOutcome) -> TurnRecord:
        """Return the record of a turn that is over, after adding it to the log."""
        if (words := self._context.log.take_words(builder.turn_id)) is not None:
            builder.amended(*words)
        record = builder.build(outcome, self._context.clock.now())
        self._heard.forget(builder.turn_id)
        self._context.log.note_turn(record, builder.parts)
        self._extensions.turn_over(record)
        return record

    def withdraw(self, builder: TurnRecordBuilder) -> None:
        """End the parts of a speech whose turn continues with another speech."""
        builder.end_parts(self._context.clock.now(), is_cut=True)

    def discard(self, handle: SpeechHandle) -> TurnRecord:
        """Return the record of a speech that was given up before it asked for the floor."""
        self._context.log.observer.asked(handle.id, handle.kind)
        return self.close(self.begin(handle), "discarded")

    # --- effects on the agent

    def held(self, record: TurnRecordBuilder, playout: Playout, cause: fx.Cause) -> None:
        """Note that the turn's speech is held."""
        current = playout.current
        if current is not None and current.taken_back_at is not None:
            record.taken_back(current.taken_back_at)
        is_heard = current is not None and current.started_at is not None
        record.interruptions.held(cause, self._agent(record, playout.silent_at() if is_heard else None))

    def resumed(self, record: TurnRecordBuilder, playout: Playout) -> None:
        """Note that the turn's speech continues, if it was held."""
        current = playout.current
        played = 0.0 if current is None else playout.position(current) / current.rate
        record.interruptions.resumed(self._context.clock.now(), position=record.audio.played + played)

    def cut(self, record: TurnRecordBuilder, playout: Playout, effect: fx.CancelSpeech, *, position: float) -> None:
        """Note that the turn's speech is cut, at `position` (s)."""
        assert effect.cause is not None, "a speech that runs was refused"
        stopped_at = None if record.stages.first_played_at is None else playout.silent_at()
        agent = self._agent(record, stopped_at)
        record.interruptions.cut(effect.cause, agent, effect.outcome, position=position)

    def _agent(self, record: TurnRecordBuilder, stopped_at: float | None) -> AgentAt:
        now, since = self._context.clock.now(), self._heard.speaking_since
        return AgentAt(now, stopped_at, is_audible=record.is_audible, speaking_since=since)
