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
