"""Transcripts of punctuation and symbols only: nothing was said."""

from __future__ import annotations

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import inputs as i

blank = pytest.mark.parametrize("text", [".", "…", "♪ ♪", "?", " ", "。", "- 👍"])


@blank
def test_a_final_without_a_letter_or_digit_is_an_empty_one(text: str) -> None:
    talk = Conversation().says(text, 0.5, 1.5).until(9.0)
    assert talk.take() == [(1.7, "drop", "turn_1", "noise")]


@blank
def test_such_a_final_discards_the_interims_of_its_utterance(text: str) -> None:
    talk = Conversation().starts(0.5).at(1.0, i.UserInterim(text="hm")).stops(1.5).at(1.7, i.UserFinal(text=text))
    assert talk.until(9.0).take() == [(1.7, "drop", "turn_1", "noise")]


@blank
def test_such_a_transcript_does_not_cut_the_agent(text: str) -> None:
    talk = Conversation().speaking().starts(2.0).at(2.6, i.UserInterim(text=text)).stops(3.0)
    assert talk.at(3.3, i.UserFinal(text=text)).until(9.0).take() == [
        (2.5, "pause", "talk"),
        (3.3, "drop", "turn_1", "noise"),
        (3.3, "resume", "talk", "false interruption"),
    ]


@blank
def test_such_a_final_adds_nothing_to_the_words_of_the_turn(text: str) -> None:
    talk = Conversation(min_delay=1.0).says("a table", 0.5, 1.5).says(text, 1.8, 2.2).until(9.0)
    assert talk.take()[0] == (3.2, "commit", "turn_1", "a table")


@blank
def test_such_a_late_final_leaves_a_committed_guess(text: str) -> None:
    talk = Conversation().starts(0.5).at(1.0, i.UserInterim(text="a table")).stops(1.5).until(2.5)
    talk.take()
    assert talk.at(2.8, i.UserFinal(text=text)).until(5.0).take() == []


def test_a_number_alone_is_words() -> None:
    assert Conversation().says("7.", 0.5, 1.5).until(9.0).take()[0] == (1.9, "commit", "turn_1", "7.")
