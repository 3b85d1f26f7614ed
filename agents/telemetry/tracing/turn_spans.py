"""TurnSpans: the spans of turns and of what happens in them, drawn from what the turn machine is told and wants.

| span | from | to |
|---|---|---|
| turn | the true start of the user's speech, else the arrival of its first words | the outcome |
| user_speech | its true start | its true end |
| stt | the start of the speech, without a VAD the first interim | the final transcript, else the turn's end |
| end_of_turn | the true end of the speech | the commit, or the speech that goes on |
| playout | the first frame played of a step | the last one, or the cut |
| interruption | the true start of the speech over the agent | what becomes of it |

A recogniser's first words may come before the VAD is sure of the speech, whose true start is earlier. A span cannot be
dated back, so the turn's waits, after an interim alone, for what tells: the VAD, a final, an attempt, or the outcome.
All but the turn's are leaves, made when the turn is over, with the times of this table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opentelemetry.trace import Span, SpanContext

from vivavoce.agents.telemetry.tracing.leaves import Leaf, Leaves
from vivavoce.agents.telemetry.tracing.spans import NO_SPAN, Attributes, SpanMaker
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i

if TYPE_CHECKING:
    from vivavoce.agents.records import InterruptedBy, TurnRecord
    from vivavoce.agents.telemetry.options import AttributeValue

OnInterruption = Callable[[bool, float], None]
"""Told whether the agent was cut for good, and how many seconds after the candidate's true start it fell silent."""


@dataclass(slots=True)
class _Turn:
    id: str
    began_at: float
    span: Span = NO_SPAN
    has_begun: bool = False
    """Whether the span has: not yet, after an interim alone."""
    words_at: float | None = None
    """When the first interim came, while the span has not begun."""
    speech: Leaf | None = None
    stt: Leaf | None = None
    end: Leaf | None = None
    interims: int = 0
    is_committed: bool = False
    commits: list[tuple[float, bool]] = field(default_factory=list)
    """When it was committed, and whether merged into the turn before; more than once where an answer was withdrawn."""
    speeches: set[str] = field(default_factory=set)

    @property
    def is_heard(self) -> bool:
        """Whether its recognition is open."""
        return self.stt is not None or (not self.has_begun and self.words_at is not None)


@dataclass(slots=True)
class _Speech:
    span: Span
    began_at: float


@dataclass(slots=True)
class _Interruption:
    leaf: Leaf
    began_at: float
    silent_at: float
    is_audible: bool
    """Whether the caller heard the agent, so that it was more than an answer held back."""


class TurnSpans:
    """Keeps the spans that are open.

    Args:
        stt: Attributes of the recogniser's spans; None where nobody recognises.
        detector: Attributes of `end_of_turn`.
        capture: Whether texts may be told.
    """

    def __init__(
        self,
        maker: SpanMaker,
        *,
        stt: Attributes | None,
        detector: Attributes,
        capture: bool,
        on_interruption: OnInterruption,
    ) -> None:
        self.session: Span = NO_SPAN
        """The parent of all."""
        self._maker = maker
        self._leaves = Leaves(maker)
        self._stt = stt
        self._detector = detector
        self._capture = capture
        self._on_interruption = on_interruption
        self._turns: dict[str, _Turn] = {}
        self._speeches: dict[str, _Speech] = {}
        self._playouts: dict[str, float] = {}
        """When the first frame is played: in the future while it waits behind other sound."""
        self._interruptions: dict[str, _Interruption] = {}
        self._heard_at: float | None = None

    # --- for the session's telemetry

    def take_parts(self, *, stt: Attributes | None, detector: Attributes) -> None:
        """Another pipeline's parts do the work from now on."""
        self._stt, self._detector = stt, detector

    def speech(self, speech_id: str) -> Span:
        """Return the span of the turn, `say` or `reply` that this speech is, else the session's."""
        speech = self._speeches.get(speech_id)
        return self.session if speech is None else speech.span

    def turn(self, turn_id: str) -> Span | None:
        """Return the open span of that turn, or of the speech of that id."""
        turn = self._turns.get(turn_id)
        if turn is not None:
            return self._begin(turn)
        speech = self._speeches.get(turn_id)
        return None if speech is None else speech.span

    def asked(self, speech_id: str, kind: str, links: Sequence[SpanContext]) -> None:
        """`say()` or `reply()` was called."""
        now = self._maker.now()
        span = self._maker.start(kind, self.session, at=now, attributes={"vivavoce.speech.id": speech_id}, links=links)
        self._speeches[speech_id] = _Speech(span, now)

    def completed(self, record: TurnRecord) -> None:
        """A turn, a `say` or a `reply` has its outcome."""
        turn = self._turns.pop(record.turn_id, None)
        known = turn or self._speeches.get(record.turn_id)
        if known is None:
            return
        span = known.span
        if turn is not None:
            self._finish(turn)
        for speech_id in turn.speeches if turn is not None else (record.turn_id,):
            # The end of its playout is still in the inbox, perhaps.
            self._end_speech(speech_id, is_cut=record.outcome != "completed")
        attributes: dict[str, AttributeValue | None] = {
            "vivavoce.turn.outcome": record.outcome,
            "vivavoce.turn.interrupted": record.interrupted,
            "vivavoce.turn.e2e_latency": record.e2e_latency,
            "vivavoce.turn.preemptive": record.preemptive,
            "vivavoce.turn.is_empty": record.is_empty,
            "vivavoce.turn.ended_by": record.ended_by,
            "vivavoce.turn.tools": len(record.tools),
            **{f"vivavoce.stage.{stage.name}": stage.seconds for stage in record.stages},
        }
        if self._capture:
            attributes["vivavoce.turn.user_text"] = record.user_text
            attributes["vivavoce.turn.agent_text"] = record.agent_text
            attributes["vivavoce.turn.heard_text"] = record.heard_text
        self._maker.set(span, attributes)
        if record.outcome == "failed":
            self._maker.set_failed(span, record.error)
        self._end(span)

    def close(self) -> None:
        """The session ends: so does what is still open."""
        for speech_id in list(self._interruptions):
            self._decide(speech_id, "interrupted", "close")
        for speech_id in list(self._playouts):
            self._end_playout(speech_id, None, is_cut=True)
        for turn in self._turns.values():
            self._drop(turn, "closed")
        for speech in self._speeches.values():
            self._end(speech.span)  # of turns they have ended, which changes nothing
        self._turns.clear()
        self._speeches.clear()

    # --- the machine's steps

    def step(self, event: i.TurnInput, effects: Sequence[fx.Effect], open_turn_id: str) -> None:
        """Take one step of the machine."""
        take = _INPUTS.get(type(event))
        if take is not None:
            take(self, event, open_turn_id)
        if open_turn_id:  # a commit that was asked for may have opened it, without speech or words
            self._open(open_turn_id, self._maker.now())
        dropped: dict[str, str] = {}
        for effect in effects:
            if isinstance(effect, fx.DropUserTurn):
                dropped[effect.turn_id] = effect.reason
            elif isinstance(effect, fx.AddBackchannel):
                dropped[effect.turn_id] = "backchannel"
            elif isinstance(effect, fx.CommitUserTurn):
                self._commit(effect)
            elif isinstance(effect, fx.PauseSpeech):
                self._pause(effect.speech_id)
            elif isinstance(effect, fx.ResumeSpeech):
                self._decide(effect.speech_id, "resumed")
            elif isinstance(effect, fx.CancelSpeech):
                self._cancel(effect)
        for turn_id in dropped:  # opened and dropped in one step, perhaps
            self._open(turn_id, self._maker.now())
        for turn_id, turn in list(self._turns.items()):
            if not turn.is_committed and turn_id != open_turn_id:
                del self._turns[turn_id]
                self._drop(turn, dropped.get(turn_id, "merged"))

    def _open(self, turn_id: str, at: float) -> _Turn:
        turn = self._turns.get(turn_id)
        if turn is None:
            self._turns[turn_id] = turn = _Turn(turn_id, at)
        return turn

    def _begin(self, turn: _Turn) -> Span:
        """Return the turn's span, begun now at the latest."""
        if not turn.has_begun:
            turn.has_begun = True
            attributes = {"vivavoce.turn.id": turn.id}
            turn.span = self._maker.start("turn", self.session, at=turn.began_at, attributes=attributes)
            if turn.words_at is not None:
                self._recognise(turn, turn.words_at)
        return turn.span

    def _speech_started(self, event: i.UserSpeechStarted, turn_id: str) -> None:
        self._heard_at = event.at
        if not turn_id:
            return
        turn = self._open(turn_id, event.at)
        if not turn.has_begun and event.at < turn.began_at:
            turn.began_at = turn.words_at = event.at
        self._begin(turn)
        if turn.end is not None:
            self._leaves.end(turn.end, {"vivavoce.end_of_turn.decision": "resumed"}, at=event.at)
            turn.end = None
        if turn.speech is None:
            turn.speech = self._leaves.begin("user_speech", turn.span, at=event.at)
        self._recognise(turn, event.at)

    def _speech_ended(self, event: i.UserSpeechEnded, turn_id: str) -> None:
        self._heard_at = None
        turn = self._turns.get(turn_id)
        if turn is None:
            return
        if turn.speech is not None:
            self._leaves.end(turn.speech, at=event.at)
            turn.speech = None
        if turn.end is None:
            turn.end = self._leaves.begin("end_of_turn", self._begin(turn), at=event.at, attributes=self._detector)

    def _interim(self, event: i.UserInterim, turn_id: str) -> None:
        if turn_id and event.text:
            now = self._maker.now()
            turn = self._open(turn_id, now)
            if turn.has_begun:
                self._recognise(turn, now)
            elif turn.words_at is None:
                turn.words_at = now
            turn.interims += 1

    def _final(self, event: i.UserFinal, turn_id: str) -> None:
        # A final that commits its turn at once finds the turn closed: it is the one whose recognition is open.
        turn = self._turns.get(turn_id) or next((t for t in self._turns.values() if t.is_heard), None)
        if turn is None and turn_id:
            turn = self._open(turn_id, self._maker.now())
        if turn is not None:
            if not turn.has_begun and turn.words_at is None:
                turn.words_at = self._maker.now()
            self._begin(turn)
        if turn is not None and turn.stt is not None:
            told: Attributes = {"vivavoce.stt.audio_seconds": event.audio_seconds or None}
            if self._capture:
                told = {**told, "vivavoce.stt.text": event.text}
            self._end_stt(turn, told, has_final=True)

    def _predicted(self, event: i.UserTurnPredicted, turn_id: str) -> None:
        turn = self._turns.get(turn_id) or next((t for t in self._turns.values() if t.end is not None), None)
        if turn is not None and turn.end is not None:
            turn.end.attributes["vivavoce.end_of_turn.complete"] = event.complete
            turn.end.attributes["vivavoce.end_of_turn.probability"] = event.probability

    def _recognise(self, turn: _Turn, at: float) -> None:
        if turn.stt is None and self._stt is not None:
            turn.stt = self._leaves.begin("stt", turn.span, at=at, attributes=self._stt)

    def _end_stt(self, turn: _Turn, told: Attributes, *, has_final: bool) -> None:
        assert turn.stt is not None
        facts: Attributes = {"vivavoce.stt.interims": turn.interims, "vivavoce.stt.has_final": has_final}
        self._leaves.end(turn.stt, {**told, **facts})
        turn.stt, turn.words_at, turn.interims = None, None, 0

    def _commit(self, effect: fx.CommitUserTurn) -> None:
        timing = effect.timing
        turn = self._open(effect.turn_id, timing.speech_ended_at)
        turn.is_committed = True
        turn.speeches.add(effect.speech_id)
        self._speeches[effect.speech_id] = _Speech(self._begin(turn), turn.began_at)
        if turn.end is not None:
            turn.end.attributes["vivavoce.end_of_turn.decision"] = "committed"
            turn.end.attributes["vivavoce.end_of_turn.ended_by"] = timing.ended_by
            turn.end.attributes["vivavoce.end_of_turn.delay"] = timing.delay
        turn.commits.append((timing.committed_at, effect.merged))
        self._close_parts(turn)

    def _cancel(self, effect: fx.CancelSpeech) -> None:
        if effect.speech_id not in self._interruptions and effect.outcome == "interrupted":
            self._pause(effect.speech_id)
        self._decide(effect.speech_id, effect.outcome, "voice" if effect.cause is None else effect.cause.by)
        if effect.is_withdrawn:  # its turn goes on
            self._end_speech(effect.speech_id)
            for turn in self._turns.values():
                if effect.speech_id in turn.speeches:
                    turn.speeches.discard(effect.speech_id)
                    turn.is_committed = False

    # --- what the agent says

    def _played_first(self, event: i.PlayoutStarted, turn_id: str) -> None:
        if event.speech_id in self._speeches and event.speech_id not in self._playouts:
            self._playouts[event.speech_id] = event.at

    def _played_last(self, event: i.PlayoutFinished, turn_id: str) -> None:
        self._end_playout(event.speech_id, event.at, is_cut=False)

    def _end_speech(self, speech_id: str, *, is_cut: bool = True) -> None:
        self._decide(speech_id, "interrupted" if is_cut else "resumed")
        self._end_playout(speech_id, None, is_cut=is_cut)
        self._speeches.pop(speech_id, None)

    def _end_playout(self, speech_id: str, at: float | None, *, is_cut: bool) -> None:
        began_at = self._playouts.pop(speech_id, None)
        if began_at is None:
            return
        began = min(began_at, self._maker.now())  # cut before its first frame was heard, perhaps
        leaf = self._leaves.begin("playout", self.speech(speech_id), at=began)
        self._leaves.end(leaf, {"vivavoce.playout.is_cut": is_cut}, at=at)

    def _pause(self, speech_id: str) -> None:
        speech = self._speeches.get(speech_id)
        if speech is None or speech_id in self._interruptions:
            return
        now = self._maker.now()
        began = now if self._heard_at is None else min(max(self._heard_at, speech.began_at), now)
        leaf = self._leaves.begin("interruption", speech.span, at=began)
        self._interruptions[speech_id] = _Interruption(leaf, began, now, speech_id in self._playouts)

    def _decide(self, speech_id: str, outcome: str, by: InterruptedBy = "voice") -> None:
        held = self._interruptions.pop(speech_id, None)
        if held is None:
            return
        is_true = outcome == "interrupted"
        latency = held.silent_at - held.began_at
        self._leaves.end(
            held.leaf,
            {
                "vivavoce.interruption.outcome": outcome,
                "vivavoce.interruption.is_false": outcome == "resumed",
                "vivavoce.interruption.is_audible": held.is_audible,
                "vivavoce.interruption.by": by,
                "vivavoce.interruption.latency": latency,
            },
        )
        if held.is_audible:
            self._on_interruption(is_true, latency)

    # --- ends

    def _close_parts(self, turn: _Turn) -> None:
        self._begin(turn)
        if turn.speech is not None:
            self._leaves.end(turn.speech)
        if turn.stt is not None:
            self._end_stt(turn, {}, has_final=False)
        if turn.end is not None:
            self._leaves.end(turn.end)
        turn.speech = turn.end = None

    def _finish(self, turn: _Turn) -> None:
        self._close_parts(turn)
        for at, is_merged in turn.commits:
            self._maker.event(turn.span, "committed", {"vivavoce.turn.merged": is_merged}, at=at)

    def _drop(self, turn: _Turn, reason: str) -> None:
        self._finish(turn)
        self._maker.set(turn.span, {"vivavoce.turn.outcome": "dropped", "vivavoce.turn.reason": reason})
        self._end(turn.span)

    def _end(self, span: Span) -> None:
        """End a span that leaves may be in."""
        self._leaves.make()
        self._maker.end(span)


_INPUTS: dict[type, Callable[..., None]] = {
    i.UserSpeechStarted: TurnSpans._speech_started,
    i.UserSpeechEnded: TurnSpans._speech_ended,
    i.UserInterim: TurnSpans._interim,
    i.UserFinal: TurnSpans._final,
    i.UserTurnPredicted: TurnSpans._predicted,
    i.PlayoutStarted: TurnSpans._played_first,
    i.PlayoutFinished: TurnSpans._played_last,
}
