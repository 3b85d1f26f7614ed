"""A session that closes hears the user's last words, and answers none of them."""

from __future__ import annotations

from kit.turn import Conversation
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i

CLOSING = i.SessionClosing(hears_out=True)
KEPT = [("HeardOut",), ("cancelled", "answer_1")]


def last(talk: Conversation) -> list[tuple[object, ...]]:
    return [entry for entry in talk.take() if entry[1] != "SettleAudio"]


def test_a_final_that_is_due_after_the_close_was_asked_for_is_kept_and_answered_by_nobody() -> None:
    talk = Conversation().starts(0.5).stops(1.5).at(1.8, CLOSING)
    assert talk.take() == [(1.8, "SettleAudio")]
    talk.at(2.1, i.UserFinal(text="thanks, goodbye"))
    assert talk.take() == [
        (2.1, "commit", "turn_1", "thanks, goodbye"),
        (2.1, "cancelled", "answer_1"),
        (2.1, "HeardOut"),
    ]
    assert talk.at(2.2, i.UserFinal(text="late")).take() == []


def test_a_voice_that_has_paused_is_waited_for_before_the_vad_reports_the_end() -> None:
    talk = Conversation().starts(0.5).at(1.06, i.UserVoicePaused(1.0)).at(1.1, CLOSING)
    assert talk.take() == [(1.1, "SettleAudio")]
    talk.at(1.5, i.UserFinal(text="five"))
    assert talk.take()[0] == (1.5, "commit", "turn_1", "five")


def test_an_interim_stands_in_for_a_final_that_does_not_come_in_time() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.UserInterim(text="good")).at(1.2, CLOSING)
    talk.at(1.4, i.UserInterim(text="goodbye")).until(2.1)
    assert last(talk) == []
    assert last(talk.until(2.2))[0] == (2.2, "commit", "turn_1", "goodbye")


def test_speech_that_was_nothing_is_dropped_at_once() -> None:
    talk = Conversation().starts(0.5).stops(1.5).at(1.8, CLOSING).at(1.9, i.UserFinal(text=" "))
    assert last(talk) == [(1.9, "drop", "turn_1", "closed"), (1.9, "HeardOut")]


def test_nothing_is_waited_for_where_nothing_is_owed() -> None:
    assert last(Conversation().at(1.0, CLOSING)) == [(1.0, "HeardOut")]
    assert last(Conversation().starts(0.5).at(1.0, CLOSING)) == [(1.0, "drop", "turn_1", "closed"), (1.0, "HeardOut")]
    talk = Conversation().says("bye", 0.5, 1.0).at(1.3, CLOSING)
    assert last(talk)[-1] == (1.3, "HeardOut")


def test_a_close_that_cannot_wait_any_longer_keeps_what_there_is() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.UserInterim(text="goodbye")).at(1.2, CLOSING, CLOSING)
    talk.at(1.5, i.SessionClosing())
    assert last(talk)[0] == (1.5, "commit", "turn_1", "goodbye")
    assert talk.machine.next_deadline() is None


def test_while_the_last_words_are_waited_for_nothing_is_begun_and_nobody_speaks() -> None:
    talk = Conversation(max_attempts=1, detector_timeout=1.0).starts(0.5).at(1.0, i.UserInterim(text="good")).stops(1.2)
    talk.at(1.5, CLOSING)
    talk.take()
    talk.asks(1.6, "more").at(1.7, i.UserSpeechStarted(1.65), i.TextReceived("and"), i.UserTurnPredicted(True))
    assert talk.take() == [(1.6, "discarded", "more")]
    talk.at(1.8, i.UserFinal(text="goodbye"))
    assert "attempt" not in [entry[1] for entry in talk.take()]


def test_words_of_both_bursts_are_waited_for() -> None:
    talk = Conversation().says("one", 0.5, 1.0).starts(1.2).stops(1.4).starts(1.5).at(2.0, CLOSING)
    assert last(talk) == [(2.0, "commit", "turn_1", "one"), (2.0, "cancelled", "answer_1"), (2.0, "HeardOut")]


def test_a_final_of_words_committed_before_amends_them() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.UserInterim(text="a table", item_id="one")).stops(1.5).until(2.5)
    talk.plays(2.6).starts(2.7).at(2.9, i.UserInterim(text="good", item_id="two")).at(3.0, CLOSING)
    talk.take()
    talk.at(3.1, i.UserInterim(text="a tab", item_id="one"), i.UserFinal(text="a table for two", item_id="one"))
    assert last(talk) == [(3.1, "amend", "turn_1", "a table for two")]
    talk.at(3.2, i.UserFinal(text="goodbye", item_id="two")).until(9.0)
    assert last(talk)[0] == (3.2, "commit", "turn_2", "goodbye")
    assert last(talk) == []


def test_what_a_model_heard_itself_waits_for_its_transcript() -> None:
    talk = Conversation(hears_audio=True).starts(0.5).stops(1.5).at(1.7, CLOSING)
    talk.at(1.9, i.UserFinal(text="goodbye", item_id="u1"))
    assert last(talk)[0] == (1.9, "commit", "turn_1", "goodbye")
    talk = Conversation(hears_audio=True).starts(0.5).stops(1.5).at(1.7, CLOSING).until(3.0)
    assert last(talk)[0] == (2.7, "commit", "turn_1", "")


def test_a_close_at_the_instant_of_a_late_final_leaves_nothing_due() -> None:
    at = 2.985650944699132  # a deadline of this time is a little later, as deadlines are rounded
    talk = Conversation().starts(0.5).at(1.0, i.UserInterim(text="a table")).stops(1.5).until(2.5).plays(2.6)
    talk.at(at, i.UserFinal(text="a table for two"), i.SessionClosing(), i.SessionClosed())
    assert talk.machine.next_deadline() is None


def committed_as_an_interim() -> Conversation:
    return Conversation().starts(0.5).at(1.0, i.UserInterim(text="a table")).stops(1.5).until(2.5)


def test_the_final_of_a_turn_that_was_committed_as_an_interim_is_waited_for_and_amends_it() -> None:
    talk = committed_as_an_interim().plays(2.6)
    talk.take()
    assert talk.at(3.0, CLOSING).take() == [(3.0, "SettleAudio"), (3.0, "interrupted", "answer_1")]
    talk.at(3.1, i.UserInterim(text="a table for")).at(3.2, i.UserFinal(text="a table for two"))
    assert talk.take() == [(3.2, "amend", "turn_1", "a table for two"), (3.2, "HeardOut")]
    assert talk.until(9.0).take() == []


def test_a_turn_whose_answer_was_not_heard_is_amended_too() -> None:
    talk = committed_as_an_interim()
    talk.at(2.7, CLOSING).take()
    talk.at(3.2, i.UserFinal(text="a table for two"))
    assert talk.take() == [(3.2, "amend", "turn_1", "a table for two"), (3.2, "HeardOut")]


def test_the_final_of_a_committed_turn_is_waited_for_no_longer_than_without_a_close() -> None:
    talk = committed_as_an_interim()
    talk.at(3.0, CLOSING).take()
    assert talk.until(3.4).take() == []
    assert talk.until(3.5).take() == [(3.5, "HeardOut")]
    talk = committed_as_an_interim().until(3.6)
    talk.take()
    assert talk.at(3.7, CLOSING).take() == [(3.7, "cancelled", "answer_1"), (3.7, "HeardOut")]


def test_the_final_of_a_sign_of_listening_that_was_kept_as_an_interim_is_waited_for() -> None:
    talk = Conversation().speaking().starts(2.0).at(2.1, i.UserInterim(text="yeah")).stops(2.3).until(3.3)
    assert talk.take() == [(3.3, "aside", "turn_1", "yeah")]
    assert last(talk.at(3.5, CLOSING)) == [(3.5, "interrupted", "talk")]
    assert last(talk.at(3.9, i.UserFinal(text="Yeah."))) == [(3.9, "amend", "turn_1", "Yeah."), (3.9, "HeardOut")]


def test_speech_that_ended_long_ago_and_that_a_remote_model_may_still_answer_is_not_waited_for() -> None:
    talk = Conversation(remote_decides=True).starts(0.5).stops(1.5).at(2.8, CLOSING)
    assert talk.take() == [(2.8, "drop", "turn_1", "closed"), (2.8, "HeardOut")]


def test_a_final_of_something_else_is_no_news_of_a_committed_turn() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.UserInterim(text="a table", item_id="one")).stops(1.5).until(2.5)
    talk.at(3.0, CLOSING).take()
    assert talk.at(3.1, i.UserFinal(text="good day", item_id="two")).take() == []
    assert talk.until(3.5).take() == [(3.5, "HeardOut")]


def test_a_lost_recogniser_is_not_waited_for() -> None:
    talk = Conversation().starts(0.5).at(0.9, i.UserInterim(text="a table")).at(1.0, i.RecogniserLost())
    talk.at(1.2, i.SessionClosing(hears_out=True))
    assert [entry[:2] for entry in talk.take()] == [(1.2, "commit"), (1.2, "cancelled"), (1.2, "HeardOut")]


def test_the_end_of_the_wait_is_reported_once() -> None:
    talk = Conversation().at(1.0, CLOSING)
    assert last(talk) == [(1.0, "HeardOut")]
    assert last(talk.at(1.1, i.SessionClosing()).at(1.2, i.SessionClosed())) == []


def test_speech_that_goes_on_ends_with_its_last_sound_before_the_close() -> None:
    for pause, ended_at in (((i.UserVoicePaused(1.0),), 1.0), ((), 1.1)):
        talk = Conversation().starts(0.5).at(1.06, i.UserInterim(text="good"), *pause).at(1.1, CLOSING)
        assert talk.user_states == [("speaking", 0.5), ("idle", 1.1)]
        talk.at(1.5, i.UserFinal(text="goodbye"))
        (commit,) = [effect for effect in talk.effects if isinstance(effect, fx.CommitUserTurn)]
        assert (commit.timing.speech_ended_at, commit.timing.end_reported_at) == (ended_at, 1.1)


def test_at_the_end_of_the_longest_wait_for_a_final_nothing_is_waited_for() -> None:
    assert ("SettleAudio",) not in [entry[1:] for entry in committed_as_an_interim().at(3.5, CLOSING).take()]
    talk = Conversation().starts(0.5).stops(1.5).at(2.5, CLOSING)
    assert talk.take() == [(2.5, "drop", "turn_1", "closed"), (2.5, "HeardOut")]
