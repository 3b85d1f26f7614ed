"""When the model answers results of tools whose own speech was cut."""

from __future__ import annotations

from kit.turn import Conversation
from vivavoce.agents.turn import inputs as i

OWED = i.AnswerOwed("results_1", "turn_1")
ASKED = [("AnswerHistory", "late_answer_1", "turn_1"), ("grant", "late_answer_1")]


def wanted(talk: Conversation) -> list[tuple[float, list[tuple[str, ...]]]]:
    by_time: dict[float, list[tuple[str, ...]]] = {}
    for now, *entry in talk.take():
        by_time.setdefault(now, []).append(tuple(entry))
    return list(by_time.items())


def test_in_silence_they_are_answered_at_once() -> None:
    assert wanted(Conversation().at(1.0, OWED)) == [(1.0, ASKED)]


def test_they_wait_until_every_speech_is_over() -> None:
    talk = Conversation().speaking().at(1.5, OWED).asks(1.6, "more").played(2.0).plays(2.1)
    assert wanted(talk) == [(2.0, [("grant", "more")])]
    assert wanted(talk.played(3.0)) == [(3.0, ASKED)]


def test_they_wait_for_the_open_turn_and_its_answer() -> None:
    talk = Conversation().starts(1.0).at(1.5, OWED).stops(2.0).at(2.2, i.UserFinal(text="hello")).until(2.4)
    assert [entry[1] for entry in talk.take()] == ["commit", "grant"]
    assert wanted(talk.plays(2.5).played(3.0)) == [(3.0, ASKED)]


def test_they_wait_for_noise_only() -> None:
    talk = Conversation().starts(1.0).at(1.5, OWED).stops(2.0).at(2.2, i.UserFinal(text=""))
    assert wanted(talk) == [(2.2, [("drop", "turn_1", "noise"), *ASKED])]


def test_an_answer_whose_request_carries_them_is_enough() -> None:
    talk = Conversation().speaking().at(1.5, OWED, i.ResultsCarried("ghost"), i.ResultsCarried("results_1"))
    assert wanted(talk.played(2.0)) == []


def test_one_reply_answers_all_of_them() -> None:
    talk = Conversation().speaking().at(1.5, OWED, i.AnswerOwed("results_2", "turn_2")).played(2.0)
    assert wanted(talk) == [(2.0, ASKED)]
    assert wanted(talk.plays(2.1).played(3.0)) == []
    talk.at(4.0, i.AnswerOwed("results_3", "turn_3"))
    assert wanted(talk) == [(4.0, [("AnswerHistory", "late_answer_2", "turn_3"), ("grant", "late_answer_2")])]


def test_nothing_is_answered_when_the_session_closes() -> None:
    talk = Conversation().speaking().at(1.5, OWED).at(1.6, i.SessionClosing(), i.SpeechEnded("talk", "interrupted"))
    talk.at(1.7, i.AnswerOwed("results_2", "turn_1"))
    assert wanted(talk) == [(1.6, [("interrupted", "talk")])]


def test_words_of_speech_that_the_vad_reported_after_their_request_take_their_place() -> None:
    talk = Conversation().at(1.0, OWED).at(1.04, i.UserSpeechStarted(0.95)).at(1.1, i.UserFinal(text="hello"))
    talk.stops(1.2).starts(1.45).stops(1.6).at(1.8, i.UserFinal(text="")).until(9.0)
    assert wanted(talk) == [
        (1.0, ASKED),
        (1.04, [("pause", "late_answer_1")]),
        (1.1, [("cancelled", "late_answer_1")]),
        (2.0, [("commit", "turn_1", "hello"), ("grant", "answer_1")]),
    ]


def test_a_request_at_the_start_of_the_session_is_no_part_of_a_turn_from_then_on() -> None:
    talk = Conversation().at(0.0, OWED).starts(0.0).at(0.1, i.UserFinal(text="hello"))
    assert wanted(talk)[-1] == (0.1, [("cancelled", "late_answer_1")])


def test_words_heard_as_they_begin_to_sound_do_not_wait_for_their_end() -> None:
    talk = Conversation(min_duration=0.0, max_pause=None).at(1.0, OWED).at(1.04, i.UserSpeechStarted(0.95))
    talk.plays(1.08).at(1.1, i.UserFinal(text="hello")).stops(1.2).until(9.0)
    assert wanted(talk)[2:] == [
        (1.1, [("interrupted", "late_answer_1")]),
        (1.6, [("commit", "turn_1", "hello"), ("grant", "answer_1")]),
    ]
