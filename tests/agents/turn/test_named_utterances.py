"""Utterances that the provider names: a final settles the guess of its name, and no other."""

from __future__ import annotations

import pytest

from kit.turn import Conversation
from kit.turn.guesses import named
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.user.late_finals import MOST_OPEN


@pytest.mark.parametrize("name", ["another", "two"])
def test_a_final_of_another_item_has_new_words_whatever_the_name_of_the_item(name: str) -> None:
    talk = named().at(2.7, i.UserFinal(text="a table", item_id=name)).until(5.0)
    assert [entry[1:] for entry in talk.take() if entry[1] in ("amend", "commit")] == [("commit", "turn_2", "a table")]


def test_of_many_guesses_without_a_final_only_the_newest_are_waited_for() -> None:
    talk, number = Conversation(), MOST_OPEN + 2
    for turn in range(1, number + 1):
        at = 10.0 * turn
        talk.starts(at).at(at + 0.5, i.UserInterim(text="a table", item_id=f"item {turn}")).stops(at + 0.6)
        talk.at(at + 1.0, i.TurnCommitRequested()).plays(at + 1.1).played(at + 1.5)
    talk.at(500.0).take()
    talk.at(500.0, i.UserFinal(text="A table.", item_id="item 2"))
    assert talk.take() == [(500.0, "amend", "turn_2", "A table.")]
    talk.at(500.1, i.UserFinal(text="A table.", item_id="item 1"))
    assert (talk.take(), talk.machine.open_turn_id) == ([], f"turn_{number + 1}")
