"""HeardTurns: reports of VAD, recogniser and turn detector are filed under the turn that the machine names."""

from __future__ import annotations

from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.machine import TurnMachine
from vivavoce.agents.turn.options import TurnOptions
from vivavoce.agents.turn_records.heard import Dropped, HeardTurns
from vivavoce.agents.turn_records.parts import Pause, Recognition, TurnParts, UserSpeech


class Call:
    """A turn machine, and the turns that are heard with it."""

    def __init__(self) -> None:
        self.machine = TurnMachine(TurnOptions())
        self.heard = HeardTurns()
        self.dropped: list[Dropped] = []
        self.at(0.0, i.SessionStarting()).at(0.0, i.SessionStarted())

    def at(self, now: float, event: i.TurnInput) -> Call:
        while (deadline := self.machine.next_deadline()) is not None and deadline < now:
            self._take(deadline, i.Tick())
        self._take(now, event)
        return self

    def turn(self, turn_id: str) -> TurnParts:
        parts = self.heard.get(turn_id)
        assert parts is not None
        return parts

    def _take(self, now: float, event: i.TurnInput) -> None:
        effects = self.machine.handle(event, now=now)
        self.dropped += self.heard.take(event, effects, self.machine.open_turn_id, now)


def test_the_parts_of_a_turn_follow_its_speech_and_its_words() -> None:
    call = Call().at(0.55, i.UserSpeechStarted(0.5)).at(1.0, i.UserInterim(text="a")).at(1.2, i.UserSpeechEnded(1.0))
    call.at(1.25, i.UserTurnPredicted(complete=False, probability=0.2)).at(1.55, i.UserSpeechStarted(1.5))
    call.at(2.2, i.UserSpeechEnded(2.0)).at(2.2, i.UserFinal(text="a table", audio_seconds=1.5)).at(5.0, i.Tick())
    turn = call.turn("turn_1")
    assert (turn.began_at, turn.commits) == (0.5, [(2.4, False)])
    assert turn.speech == [UserSpeech(0.5, 1.0), UserSpeech(1.5, 2.0)]
    assert turn.recognitions == [
        Recognition(0.5, 2.2, interims=1, has_final=True, audio_seconds=1.5, text="a table"),
    ]
    first, second = turn.pauses
    assert first == Pause(1.0, 1.5, decision="resumed", is_complete=False, probability=0.2)
    assert second == Pause(2.0, 2.4, decision="committed", ended_by="pause", delay=0.4)


def test_words_before_the_vads_report_are_of_a_turn_that_begins_with_the_true_onset() -> None:
    call = Call().at(0.6, i.UserInterim(text="a")).at(0.7, i.UserSpeechStarted(0.5))
    assert (call.turn("turn_1").began_at, call.turn("turn_1").recognitions[0].began_at) == (0.5, 0.5)


def test_words_without_a_vad_are_a_turn_that_begins_with_them() -> None:
    call = Call().at(0.6, i.UserFinal(text="a table"))
    assert call.turn("turn_1").recognitions == [Recognition(0.6, 0.6, has_final=True, text="a table")]


def test_noise_is_dropped_and_all_that_went_on_of_it_ends() -> None:
    call = Call().at(0.55, i.UserSpeechStarted(0.5)).at(1.2, i.UserSpeechEnded(1.0)).at(5.0, i.Tick())
    ((parts, reason),) = call.dropped
    assert (parts.turn_id, reason, call.heard.get("turn_1")) == ("turn_1", "transcript_missing", None)
    assert (parts.recognitions, parts.pauses) == ([Recognition(0.5, 2.0)], [Pause(1.0, 2.0)])


def test_a_turn_whose_words_join_the_turn_before_is_dropped_as_merged() -> None:
    call = Call().at(0.55, i.UserSpeechStarted(0.5)).at(1.2, i.UserSpeechEnded(1.0))
    call.at(1.2, i.UserFinal(text="a table")).at(1.65, i.UserSpeechStarted(1.6)).at(2.2, i.UserFinal(text="for two"))
    assert [(parts.turn_id, reason) for parts, reason in call.dropped] == [("turn_2", "merged")]
    call.at(2.4, i.UserSpeechEnded(2.2)).at(5.0, i.Tick())
    assert [merged for _, merged in call.turn("turn_1").commits] == [False, True]


def test_the_outcome_forgets_the_turn() -> None:
    call = Call().at(0.6, i.UserFinal(text="a table")).at(3.0, i.Tick())
    call.heard.forget("turn_1")
    assert call.heard.get("turn_1") is None
