"""Facts in effects: the onset of a turn's speech, and the cause of a hold or a cut."""

from __future__ import annotations

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i


def onsets(talk: Conversation) -> list[float | None]:
    """Return the onset of each turn that was committed."""
    return [effect.speech_started_at for effect in talk.effects if isinstance(effect, fx.CommitUserTurn)]


def causes(talk: Conversation) -> list[tuple[str, fx.Cause | None]]:
    """Return the speech and the cause of each hold and each cut."""
    found = (effect for effect in talk.effects if isinstance(effect, fx.PauseSpeech | fx.CancelSpeech))
    return [(effect.speech_id, effect.cause) for effect in found]


def test_the_onset_of_a_turn_is_that_of_its_first_speech() -> None:
    talk = Conversation().starts(0.5).stops(1.0).says("a table for two", 1.2, 2.0).until(4.0)
    assert onsets(talk) == [0.5]


def test_a_turn_that_goes_on_keeps_its_onset() -> None:
    talk = Conversation().says("a table", 0.5, 1.0).until(1.5).says("for two", 1.6, 2.2).until(4.0)
    assert onsets(talk) == [0.5, 0.5]


def test_a_turn_goes_on_with_its_onset_when_the_application_clears_the_new_words() -> None:
    talk = Conversation().says("a table", 0.5, 1.0).until(1.5).says("for two", 1.6, 2.0)
    talk.at(2.3, i.TurnClearRequested()).until(6.0)
    assert onsets(talk) == [0.5, 0.5]


def test_without_a_vad_the_first_words_are_the_onset() -> None:
    talk = Conversation().at(1.0, i.UserInterim(text="a")).at(1.5, i.UserInterim(text="a table"))
    assert onsets(talk.at(2.0, i.UserFinal(text="a table")).until(6.0)) == [1.0]
    assert onsets(Conversation().at(2.0, i.UserFinal(text="a table")).until(6.0)) == [2.0]


def test_typed_words_have_no_onset_and_leave_that_of_the_speech_which_goes_on() -> None:
    talk = Conversation().starts(1.0).at(1.5, i.TextReceived("hello")).at(2.0, i.UserFinal(text="a table"))
    assert onsets(talk.stops(2.2).until(6.0))[0] is None
    assert onsets(talk)[-1] == 1.0


def test_speech_after_a_limit_has_no_onset_of_its_own() -> None:
    talk = Conversation(max_turn_words=2).starts(1.0).at(2.0, i.UserFinal(text="a table please"))
    talk.plays(2.1).played(2.5).at(3.0, i.UserFinal(text="for two")).stops(3.5).until(8.0)
    assert onsets(talk) == [1.0, None]


@pytest.mark.parametrize(
    ("event", "by"),
    [
        (i.InterruptRequested(), "request"),
        (i.TextReceived("stop"), "text"),
        (i.SpeechRequested(speech_id="now", kind="say", when_busy="interrupt"), "speech"),
        (i.SessionClosing(), "close"),
    ],
)
def test_a_cut_names_its_cause_and_no_voice_where_there_was_none(event: i.TurnInput, by: fx.InterruptedBy) -> None:
    talk = Conversation().starts(0.1).stops(0.3).until(0.6).speaking().at(2.0, event)
    assert causes(talk) == [("talk", fx.Cause(by))]


def test_a_voice_is_named_with_its_onset_as_it_holds_and_as_it_cuts() -> None:
    talk = Conversation().speaking().says("wait stop", 2.0, 2.6).until(4.0)
    assert causes(talk) == [("talk", fx.Cause("voice", 2.0))] * 2


def test_words_that_cut_without_a_vad_are_named_with_their_arrival() -> None:
    talk = Conversation().speaking().at(2.0, i.UserFinal(text="wait stop")).until(4.0)
    assert causes(talk) == [("talk", fx.Cause("voice", 2.0))]


def test_a_caller_who_leaves_holds_the_agent() -> None:
    talk = Conversation().speaking().at(2.0, i.ParticipantLeft(grace=10.0))
    assert causes(talk) == [("talk", fx.Cause("caller_left"))]


def test_a_speech_that_is_refused_has_no_cause() -> None:
    talk = Conversation().speaking().asks(2.0, "more", when_busy="discard")
    assert causes(talk) == [("more", None)]
