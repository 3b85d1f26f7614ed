"""TurnBook: sees to it that each turn of a session has one record, and notes what the records take from the session."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import anyio

from vivavoce.agents import events as ev
from vivavoce.agents.audio.playout import Playout
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.records import DropReason, TurnOutcome, TurnRecord, UsageRecord
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn_records.interruptions import PolicyName
from vivavoce.agents.turn_records.turn_record import TurnFrame, TurnRecordBuilder
from vivavoce.pipelines.events import PipelineEvent, UserFinal, UserInterim, UserSpeechStarted

logger = logging.getLogger(__name__)

# Tuples, where a step of the machine passes: `A | B` would make a new type each time.
WORDS = (UserFinal, UserInterim)
SILENCES = (i.UserAudioStopped, i.ParticipantLeft)
_ENDS_TURN = (fx.CommitUserTurn, fx.DropUserTurn, fx.AddBackchannel)


class TurnBook:
    """Told of each input before the machine decides on it, and of the effects after that.

    Args:
        options: The session's.
    """

    def __init__(self, context: SessionContext, options: SessionOptions) -> None:
        mode = options.interruption.mode
        self._policy: PolicyName = mode if mode == "pause" or mode == "immediate" else "custom"
        self._options = options
        self._clock = context.clock
        self._log = context.log
        self._live = context.live
        self._turn_at: float | None = None
        """Onset of the open turn."""
        self._opened_at: float | None = None
        """When the turn was opened that is open: by words or a request, where it has no onset."""
        self._heard = UsageRecord()
        self.heard_out = anyio.Event()
        """Set when a session that closes has heard the user's last words."""

    # --- what happens

    def told(self, event: i.TurnInput | PipelineEvent) -> None:
        """Take an input."""
        now = self._clock.now()
        if isinstance(event, UserSpeechStarted):
            self._turn_at = min(event.at, now) if self._turn_at is None else self._turn_at
        elif isinstance(event, WORDS):
            if isinstance(event, UserFinal) and event.audio_seconds:
                heard = UsageRecord(stt_audio_seconds=event.audio_seconds)
                self._log.add_usage(heard)
                self._heard = UsageRecord(stt_audio_seconds=self._heard.stt_audio_seconds + event.audio_seconds)
            if event.text.strip() and self._turn_at is None and not self._has_vad:
                self._turn_at = now

    def decided(self, effects: Sequence[fx.Effect], *, was_open: str, is_open: str) -> None:
        """Take what has been carried out.

        Args:
            was_open, is_open: The user's open turn before the step and after it.
        """
        ended = set()
        for effect in effects:
            if isinstance(effect, fx.DropUserTurn):
                self._dropped(effect.turn_id, effect.reason)
            elif isinstance(effect, fx.AddBackchannel):
                self._dropped(effect.turn_id, "backchannel")
            if isinstance(effect, _ENDS_TURN):
                ended.add(effect.turn_id)
        if was_open and was_open != is_open and was_open not in ended:
            self._dropped(was_open, "merged")
        if effects and self._turn_at is not None and any(isinstance(effect, _ENDS_TURN) for effect in effects):
            self._turn_at = None
        if was_open != is_open:
            self._opened_at = self._clock.now() if is_open else None

    def _dropped(self, turn_id: str, reason: DropReason) -> None:
        """The open turn will not be answered."""
        known = (at for at in (self._turn_at, self._opened_at) if at is not None)
        self._log.note_dropped_turn(turn_id, reason, next(known, self._clock.now()))

    @property
    def _has_vad(self) -> bool:
        return any(kind == "vad" for kind, _, _ in self._live.capabilities.components)

    # --- what is done to the agent, once it is done

    def held(self, record: TurnRecordBuilder, playout: Playout, cause: fx.Cause) -> None:
        """The turn's speech is held."""
        current = playout.current
        is_heard = current is not None and current.started_at is not None
        if current is not None and current.taken_back_at is not None:
            record.taken_back(current.taken_back_at)
        stopped_at = playout.silent_at() if is_heard else None
        record.interruptions.held(cause, self._clock.now(), stopped_at=stopped_at)

    def resumed(self, record: TurnRecordBuilder, playout: Playout) -> None:
        """The turn's speech is to go on, if it was held."""
        current = playout.current
        played = 0.0 if current is None else playout.position(current) / current.rate
        record.interruptions.resumed(self._clock.now(), position=record.audio.played + played)

    def cut(self, record: TurnRecordBuilder, playout: Playout, cause: fx.Cause | None) -> None:
        """The turn's speech is cut."""
        assert cause is not None, "a speech that runs was refused"
        was_heard = record.stages.first_played_at is not None
        stopped_at = playout.silent_at() if was_heard else None
        record.interruptions.cut(cause, self._clock.now(), stopped_at=stopped_at, position=record.audio.played)

    # --- records

    def begin(self, handle: SpeechHandle, agent_id: str) -> TurnRecordBuilder:
        """Return what collects the record of a `say` or `reply`."""
        return self._builder(handle.id, handle, agent_id)

    def commit(self, effect: fx.CommitUserTurn, handle: SpeechHandle, agent_id: str) -> TurnRecordBuilder:
        """Return what collects the record of a user's turn."""
        record = self._builder(effect.turn_id, handle, agent_id)
        record.committed(effect.timing, effect.text, speech_started_at=effect.speech_started_at)
        record.add_usage(self._heard)
        self._heard = UsageRecord()
        return record

    def _builder(self, turn_id: str, handle: SpeechHandle, agent_id: str) -> TurnRecordBuilder:
        frame = TurnFrame(
            session_start=self._log.started_at,
            session_id=self._log.session_id,
            agent_id=agent_id,
            trace_id=self._log.observer.trace_id,
            captures_content=self._options.capture_content,
            has_server_vad=self._live.capabilities.decides_turns == "remote" and not self._has_vad,
            vad_silence=self._live.capabilities.vad_silence,
            endpointing=self._options.endpointing,
            policy=self._policy,
        )
        return TurnRecordBuilder(turn_id, handle.kind, frame=frame, now=self._clock.now(), speech_id=handle.id)

    def close(self, builder: TurnRecordBuilder, outcome: TurnOutcome) -> TurnRecord:
        """The turn is over: keep its record and tell of it."""
        record = builder.build(outcome, self._clock.now())
        self._log.turns.append(record)
        waited = "" if record.e2e_latency is None else f" after {record.e2e_latency:.2f} s"
        logger.info("%s (%s) %s%s", record.turn_id, record.kind, outcome, waited, extra={"turn_id": record.turn_id})
        self._log.note(ev.TurnCompleted, turn_id=record.turn_id, record=record)
        return record

    def discard(self, handle: SpeechHandle, agent_id: str) -> TurnRecord:
        """A speech came to nothing before it asked for the floor."""
        self._log.observer.asked(handle.id, handle.kind)
        return self.close(self.begin(handle, agent_id), "discarded")


def turn_of(effects: Sequence[fx.Effect], kind: type[fx.CommitUserTurn | fx.AmendUserTurn]) -> str:
    """Return the turn that the first effect of a kind is about; empty if there is none."""
    return next((effect.turn_id for effect in effects if isinstance(effect, kind)), "")
