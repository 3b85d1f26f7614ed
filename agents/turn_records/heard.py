"""HeardTurns: the user's turns with their parts, from the first sound or word to the commit's outcome or the drop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vivavoce.agents.records import DropReason
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn_records.parts import Pause, Recognition, TurnParts, UserSpeech

Dropped = tuple[TurnParts, DropReason]


class HeardTurns:
    """Files reports of VAD, recogniser and turn detector under the turn to which the turn machine assigns them.

    | part | from | to |
    |---|---|---|
    | speech | its true onset | its true end |
    | recognition | the onset of the speech, without a VAD the first interim | the final, else the end of the turn |
    | pause | the true end of the speech | the commit, or further speech |
    """

    def __init__(self) -> None:
        self._turns: dict[str, TurnParts] = {}
        self._answers: dict[str, str] = {}
        """Turns that are committed, by the speech that answers them."""
        self.speaking_since: float | None = None
        """True onset of the present speech; None while the user is silent."""

    def get(self, turn_id: str) -> TurnParts | None:
        """Return the turn if it is neither over nor dropped."""
        return self._turns.get(turn_id)

    def take(self, event: i.TurnInput, effects: Sequence[fx.Effect], open_turn_id: str, now: float) -> list[Dropped]:
        """Take one step of the turn machine; return the turns that are dropped with it.

        Args:
            open_turn_id: The user's open turn after the step; empty if there is none.
        """
        file = _INPUTS.get(type(event))
        if file is not None:
            file(self, event, open_turn_id, now)
        if open_turn_id:  # a request to commit may have opened it, without speech or words
            self._open(open_turn_id, now)
        reasons: dict[str, DropReason] = {}
        for effect in effects:
            if isinstance(effect, fx.DropUserTurn):
                reasons[effect.turn_id] = effect.reason
            elif isinstance(effect, fx.AddBackchannel):
                reasons[effect.turn_id] = "backchannel"
            elif isinstance(effect, fx.CommitUserTurn):
                self._commit(effect, now)
            elif isinstance(effect, fx.AmendUserTurn) and isinstance(event, i.UserFinal):
                if (amended := self._turns.get(effect.turn_id)) is not None:
                    amended.heard.add(event)
            elif isinstance(effect, fx.CancelSpeech) and effect.is_withdrawn:  # its turn continues
                self._answers.pop(effect.speech_id, None)
        for turn_id in reasons:  # opened and dropped in one step, perhaps
            self._open(turn_id, now)
        return self._drop_others(open_turn_id, reasons, now) if self._turns else []

    def forget(self, turn_id: str) -> None:
        """The turn has its outcome."""
        self._turns.pop(turn_id, None)
        self._answers = {speech: turn for speech, turn in self._answers.items() if turn != turn_id}

    def _drop_others(self, open_turn_id: str, reasons: dict[str, DropReason], now: float) -> list[Dropped]:
        """Drop each turn that is neither open nor committed. Without a reason, its words joined another turn."""
        answered = self._answers.values()
        dropped: list[Dropped] = []
        for turn_id in [other for other in self._turns if other != open_turn_id and other not in answered]:
            parts = self._turns.pop(turn_id)
            parts.end_user(now)
            dropped.append((parts, reasons.get(turn_id, "merged")))
        return dropped

    def _open(self, turn_id: str, at: float) -> TurnParts:
        parts = self._turns.get(turn_id)
        if parts is None:
            parts = self._turns[turn_id] = TurnParts(turn_id, at)
        return parts

    # --- inputs

    def _speech_started(self, event: i.UserSpeechStarted, turn_id: str, now: float) -> None:
        self.speaking_since = event.at
        if not turn_id:
            return
        parts = self._open(turn_id, event.at)
        recognition, pause = parts.open_recognition, parts.open_pause
        if event.at < parts.began_at and not parts.commits:  # its first words came before the VAD's report
            parts.began_at = event.at
            if recognition is not None:
                recognition.began_at = event.at
        if pause is not None:
            pause.decision, pause.ended_at = "resumed", event.at
        if parts.open_speech is None:
            parts.speech.append(UserSpeech(event.at))
        if recognition is None:
            parts.recognitions.append(Recognition(event.at))

    def _speech_ended(self, event: i.UserSpeechEnded, turn_id: str, now: float) -> None:
        self.speaking_since = None
        parts = self._turns.get(turn_id)
        if parts is None:
            return
        if parts.open_speech is not None:
            parts.open_speech.ended_at = event.at
        if parts.open_pause is None:
            parts.pauses.append(Pause(event.at))

    def _interim(self, event: i.UserInterim, turn_id: str, now: float) -> None:
        if turn_id and event.text:
            parts = self._open(turn_id, now)
            if parts.open_recognition is None:
                parts.recognitions.append(Recognition(now))
            parts.recognitions[-1].interims += 1

    def _final(self, event: i.UserFinal, turn_id: str, now: float) -> None:
        # A final that commits its turn at once finds the turn closed: it is the one whose recognition is open.
        recognising = (turn for turn in self._turns.values() if turn.open_recognition is not None)
        parts = self._turns.get(turn_id) or next(recognising, None)
        if event.is_past and parts is not None:
            parts.heard.add(event)
            return
        if parts is None:
            if not turn_id:
                return
            parts = self._open(turn_id, now)
        if not (parts.recognitions or parts.speech or parts.pauses or parts.commits):
            parts.recognitions.append(Recognition(now))
        parts.heard.add(event)
        recognition = parts.open_recognition
        if recognition is not None:
            recognition.ended_at, recognition.has_final = now, True
            recognition.audio_seconds, recognition.text = event.audio_seconds, event.text
            recognition.speakers, recognition.languages = event.speakers, event.languages
            recognition.confidence = event.confidence

    def _predicted(self, event: i.UserTurnPredicted, turn_id: str, now: float) -> None:
        pausing = (turn for turn in self._turns.values() if turn.open_pause is not None)
        parts = self._turns.get(turn_id) or next(pausing, None)
        if parts is not None and parts.open_pause is not None:
            parts.open_pause.is_complete, parts.open_pause.probability = event.complete, event.probability

    # --- effects

    def _commit(self, effect: fx.CommitUserTurn, now: float) -> None:
        timing = effect.timing
        parts = self._open(effect.turn_id, timing.speech_ended_at)
        self._answers[effect.speech_id] = effect.turn_id
        pause = parts.open_pause
        if pause is not None:
            pause.decision, pause.ended_by, pause.delay = "committed", timing.ended_by, timing.delay
        parts.commits.append((timing.committed_at, effect.merged))
        parts.end_user(now)


_INPUTS: dict[type, Callable[..., None]] = {
    i.UserSpeechStarted: HeardTurns._speech_started,
    i.UserSpeechEnded: HeardTurns._speech_ended,
    i.UserInterim: HeardTurns._interim,
    i.UserFinal: HeardTurns._final,
    i.UserTurnPredicted: HeardTurns._predicted,
}
