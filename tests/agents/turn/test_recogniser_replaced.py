"""A recogniser that hears its last utterance out: its words stay before those of its successor, and come once."""

from __future__ import annotations

from kit.turn import Conversation
from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.events import LATE_WORDS


def past(text: str) -> i.UserFinal:
    return i.UserFinal(text=text, is_past=True)


def shown() -> Conversation:
    """The old recogniser has shown words, and a new one hears from the next speech on."""
    talk = Conversation().starts(1.0).at(1.5, i.UserInterim(text="number five")).stops(2.0)
    return talk.starts(2.4).at(2.45, i.RecogniserReplaced())


def commits(talk: Conversation) -> list[str]:
    return [entry[3] for entry in talk.take() if entry[1] == "commit"]


def test_shown_words_stay_before_the_successor_s_though_they_are_never_settled() -> None:
    talk = shown().stops(3.0).at(3.3, i.UserFinal(text="in the High Street")).until(5.0)
    assert commits(talk) == ["number five in the High Street"]


def test_shown_words_are_settled_in_their_place_while_the_turn_is_open() -> None:
    talk = shown().at(2.6, i.UserInterim(text="in")).stops(3.0).at(3.1, past("Number 5,"))
    talk.at(3.3, i.UserFinal(text="in the High Street")).until(5.0)
    assert commits(talk) == ["Number 5, in the High Street"]


def test_shown_words_are_settled_in_their_place_when_they_were_answered() -> None:
    talk = shown().stops(3.0).at(3.3, i.UserFinal(text="in the High Street")).until(4.0)
    talk.plays(4.1).played(5.0).take()
    assert talk.at(6.0, past("Number five.")).take() == [(6.0, "amend", "turn_1", "Number five. in the High Street")]
    assert talk.at(7.0, past("Number five.")).until(9.0).machine.open_turn_id == ""


def test_shown_words_of_an_answered_turn_that_goes_on_are_settled_in_their_place() -> None:
    talk = shown().stops(3.0).at(3.3, i.UserFinal(text="in the High Street")).until(3.7)
    talk.starts(3.8).at(4.1, i.UserInterim(text="please")).stops(4.5)
    talk.at(4.7, i.UserFinal(text="please")).until(6.0).take()
    talk.at(6.1, past("Number five."))
    assert [entry[3] for entry in talk.take() if entry[1] == "amend"] == ["Number five. in the High Street please"]


def test_a_guess_that_was_answered_is_settled_behind_new_speech_and_is_no_second_turn() -> None:
    talk = Conversation().starts(1.0).at(1.5, i.UserInterim(text="number five")).stops(2.0).until(3.1)
    talk.plays(3.2).played(4.0).take()
    talk.starts(5.0).at(5.05, i.RecogniserReplaced()).at(5.3, past("Number five."))
    talk.stops(6.0).at(6.1, i.UserFinal(text="thank you")).until(8.0)
    log = talk.take()
    assert [entry[3] for entry in log if entry[1] == "amend"] == ["Number five."]
    assert [entry[3] for entry in log if entry[1] == "commit"] == ["thank you"]


def test_the_past_final_of_the_next_replacement_is_new_and_not_of_shown_words_of_long_ago() -> None:
    talk = shown().stops(3.0).at(3.3, i.UserFinal(text="in the High Street")).until(4.0)
    talk.plays(4.1).played(5.0).take()
    talk.starts(60.0).stops(61.0).starts(61.3).at(61.35, i.RecogniserReplaced()).at(61.6, past("a table"))
    talk.stops(62.0).at(62.2, i.UserFinal(text="for two")).until(64.0)
    assert [entry[1:] for entry in talk.take() if entry[1] in ("amend", "commit")] == [
        ("commit", "turn_2", "a table for two")
    ]


def test_a_guess_of_the_recogniser_before_the_last_one_is_settled_no_more() -> None:
    talk = Conversation().starts(1.0).at(1.5, i.UserInterim(text="number five")).stops(2.0).until(3.1)
    talk.plays(3.2).played(4.0).take()
    talk.starts(5.0).at(5.05, i.RecogniserReplaced()).at(5.3, i.UserFinal(text="thank you")).stops(6.0).until(7.0)
    talk.plays(7.1).played(8.0).take()
    talk.starts(9.0).stops(9.5).starts(10.0).at(10.1, i.RecogniserReplaced()).at(10.2, past("Number five."))
    talk.stops(11.0).at(11.1, i.UserFinal(text="again")).until(13.0)
    assert [entry[1:] for entry in talk.take() if entry[1] in ("amend", "commit")] == [
        ("commit", "turn_3", "Number five. again")
    ]


def test_a_past_final_is_of_a_guess_for_as_long_as_late_words_may_come() -> None:
    for late, turn in ((0.0, ""), (0.1, "turn_2")):
        talk = Conversation().starts(1.0).at(1.5, i.UserInterim(text="number five")).stops(2.0).until(3.1)
        talk.plays(3.2).played(4.0).at(5.0, i.RecogniserReplaced()).at(5.0 + LATE_WORDS + late, past("Number five."))
        assert talk.machine.open_turn_id == turn


def test_two_past_finals_keep_their_order_before_the_words_of_the_successor() -> None:
    talk = Conversation().says("so", 1.0, 2.0).starts(2.2).at(2.25, i.RecogniserReplaced())
    talk.stops(3.0).at(3.1, i.UserFinal(text="in the High Street")).at(3.15, past("number")).at(3.2, past("five"))
    assert commits(talk.until(5.0)) == ["so number five in the High Street"]


def test_the_successor_s_final_ends_the_turn_though_the_old_one_settles_nothing() -> None:
    talk = Conversation().starts(1.0).stops(2.0).starts(2.2).at(2.25, i.RecogniserReplaced())
    talk.stops(3.0).at(3.2, i.UserFinal(text="yes")).until(3.5)
    assert commits(talk) == ["yes"]


def test_a_final_of_speech_that_goes_on_is_still_owed_by_the_successor() -> None:
    talk = Conversation().starts(1.0).at(1.5, i.UserInterim(text="number five")).at(2.0, i.RecogniserReplaced())
    talk.stops(3.0).at(3.5, i.UserFinal(text="in the High Street")).until(5.0)
    assert commits(talk) == ["number five in the High Street"]
