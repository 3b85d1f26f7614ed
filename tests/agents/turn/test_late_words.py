"""Finals that come after the commit of the words that they settle."""

from __future__ import annotations

from typing import Any

import pytest

from kit.turn import Conversation
from kit.turn.guesses import guessed, named, two_guesses
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.user.late_finals import Guess


def test_a_final_that_says_the_same_amends_the_turn_silently() -> None:
    talk = guessed().at(2.6, i.UserFinal(text="A table.")).until(5.0)
    assert talk.take() == [(2.6, "amend", "turn_1", "A table.")]
    assert talk.machine.current_speech_id == "answer_1"


def test_a_final_with_more_words_takes_back_an_answer_that_nobody_heard() -> None:
    talk = guessed().at(2.6, i.UserFinal(text="a table for two")).until(5.0)
    assert talk.take() == [
        (2.6, "withdraw", "answer_1"),
        (2.6, "merge", "turn_1", "a table for two"),
        (2.6, "grant", "answer_2"),
    ]


def test_a_final_that_revises_the_words_takes_back_an_answer_that_nobody_heard() -> None:
    talk = guessed("book a table for to").at(2.6, i.UserFinal(text="book a table for two")).until(5.0)
    assert talk.take() == [
        (2.6, "withdraw", "answer_1"),
        (2.6, "merge", "turn_1", "book a table for two"),
        (2.6, "grant", "answer_2"),
    ]


def test_only_the_first_final_is_of_the_committed_words() -> None:
    talk = guessed().plays(2.6).at(2.7, i.UserFinal(text="A table."), i.UserFinal(text="hello")).until(5.0)
    assert talk.take() == [
        (2.7, "amend", "turn_1", "A table."),
        (2.7, "interrupted", "answer_1"),
        (3.1, "commit", "turn_2", "hello"),
        (3.1, "grant", "answer_2"),
    ]


def test_a_late_empty_final_leaves_the_committed_words_and_what_follows_is_new() -> None:
    talk = guessed().plays(2.6).at(2.7, i.UserFinal(text=""))
    assert talk.take() == []
    assert talk.at(2.8, i.UserFinal(text="a table")).until(5.0).take()[1] == (3.2, "commit", "turn_2", "a table")


def test_a_final_of_the_committed_item_amends_it_even_after_new_speech() -> None:
    talk = named().starts(2.7).at(2.8, i.UserFinal(text="a cable", item_id="one")).at(2.9, i.UserFinal(text="hello"))
    assert talk.take() == [(2.8, "amend", "turn_1", "a cable")]
    assert talk.stops(3.3).until(5.0).take()[1] == (3.7, "commit", "turn_2", "hello")


def test_a_final_after_new_speech_never_takes_the_open_turn_for_the_committed_one() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.UserInterim(text="a table", item_id="one")).stops(1.5).until(2.5)
    talk.starts(2.6).at(2.7, i.UserFinal(text="a cable", item_id="one")).at(2.8, i.UserFinal(text="for two"))
    assert talk.stops(3.0).until(5.0).take()[-2:] == [
        (3.4, "merge", "turn_1", "a cable for two"),
        (3.4, "grant", "answer_2"),
    ]


def test_transcripts_of_another_item_are_new_words_and_the_committed_item_may_still_be_settled() -> None:
    talk = named().at(2.7, i.UserInterim(text="hello", item_id="two"))
    assert talk.machine.open_turn_id == "turn_2"
    talk.at(2.8, i.UserFinal(text="a cable", item_id="one")).at(2.9, i.UserFinal(text="hello", item_id="two"))
    assert talk.take()[0] == (2.8, "amend", "turn_1", "a cable")
    assert (2.9, "amend") not in [entry[:2] for entry in talk.take()]


def test_without_a_vad_interims_that_read_like_a_revision_are_no_new_words() -> None:
    talk = Conversation().at(1.0, i.UserInterim(text="book a table for to")).until(2.0)
    assert talk.take()[0] == (2.0, "commit", "turn_1", "book a table for to")
    talk.at(2.1, i.UserInterim(text="book a cable for two"))
    assert talk.machine.open_turn_id == ""
    talk.at(2.2, i.UserInterim(text="hello"))
    assert talk.machine.open_turn_id == "turn_2"


def test_the_same_words_after_new_speech_are_new_words() -> None:
    talk = guessed("yes").plays(2.6).played(2.8).says("yes", 2.9, 3.2).until(5.0)
    assert talk.take()[0] == (3.6, "commit", "turn_2", "yes")


@pytest.mark.parametrize(("late", "wanted"), [("a table for two", "amend"), ("hello", "commit")])
def test_without_a_vad_only_words_like_the_committed_ones_settle_them_long_after(late: str, wanted: str) -> None:
    talk = Conversation().at(1.0, i.UserInterim(text="a table")).until(2.0).plays(2.1).played(2.2)
    talk.take()
    assert talk.at(9.0, i.UserFinal(text=late)).until(12.0).take()[0][1] == wanted


def test_a_late_interim_of_the_same_words_opens_no_turn() -> None:
    talk = guessed().at(2.6, i.UserInterim(text="a table for")).until(2.7)
    assert (talk.take(), talk.machine.open_turn_id) == ([], "")
    talk.at(2.8, i.UserInterim(text="able for"))
    assert talk.machine.open_turn_id == ""


def test_later_words_merge_with_the_amended_ones() -> None:
    talk = guessed().at(2.6, i.UserFinal(text="A table.")).says("for two", 2.8, 3.2).until(5.0)
    assert (3.6, "merge", "turn_1", "A table. for two") in talk.take()


def test_a_late_final_of_words_typed_on_keeps_both() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.UserInterim(text="a table")).stops(1.5)
    talk.at(1.8, i.TextReceived("for two"))
    assert talk.take()[0] == (1.8, "commit", "turn_1", "a table for two")
    talk.at(2.0, i.UserFinal(text="a table tonight")).until(5.0)
    assert talk.take() == [
        (2.0, "withdraw", "answer_1"),
        (2.0, "merge", "turn_1", "a table tonight for two"),
        (2.0, "grant", "answer_2"),
    ]


@pytest.mark.parametrize(("final", "wanted"), [("Yeah.", "amend"), ("yeah okay", "amend"), ("yeah but stop", "pause")])
def test_a_late_final_of_a_backchannel_stays_one_or_is_the_next_turn(final: str, wanted: str) -> None:
    talk = Conversation().speaking().starts(2.0).at(2.1, i.UserInterim(text="yeah")).stops(2.3).until(3.3)
    assert talk.take() == [(3.3, "aside", "turn_1", "yeah")]
    effects = talk.at(3.5, i.UserFinal(text=final)).until(6.0).take()
    assert effects[0][:2] == (3.5, wanted)
    assert ((3.9, "interrupted", "talk") in effects) is (wanted == "pause")


def test_words_told_while_an_unheard_answer_may_not_be_cut_amend_it() -> None:
    talk = guessed(enabled=False).at(2.6, i.UserFinal(text="a table for two"))
    assert talk.take() == [(2.6, "amend", "turn_1", "a table for two")]


@pytest.mark.parametrize(
    ("late", "is_a_revision"),
    [
        ("Book a table for two.", True),
        ("book a", True),
        ("book the table", True),
        ("book some other nice table", True),
        ("book some other very nice table", False),
        ("what is the weather like", False),
    ],
)
def test_late_words_are_told_from_new_ones_by_their_likeness(late: str, is_a_revision: bool) -> None:
    committed = Guess("book a table", until=1.0)
    assert committed.resembles(late) is is_a_revision


def test_a_turn_that_is_opened_again_in_mid_speech_is_over_when_the_speech_is() -> None:
    talk = (
        Conversation().starts(0.5).at(1.0, i.UserInterim(text="book a table for to")).at(1.1, i.TurnCommitRequested())
    )
    talk.take()
    talk.at(1.3, i.UserFinal(text="book a table for two")).stops(2.0).at(2.2, i.UserFinal(text="please")).until(9.0)
    assert talk.take() == [
        (1.3, "withdraw", "answer_1"),
        (2.4, "merge", "turn_1", "book a table for two please"),
        (2.4, "grant", "answer_2"),
    ]


def typed_on(**options: Any) -> Conversation:
    """A turn committed at 1.8, when "please" was typed after its interim."""
    talk = Conversation(**options).starts(0.5).at(1.0, i.UserInterim(text="a table")).stops(1.5)
    assert talk.at(1.8, i.TextReceived("please")).take()[0] == (1.8, "commit", "turn_1", "a table please")
    return talk


def test_the_final_of_words_that_were_typed_on_twice_comes_into_its_place() -> None:
    talk = typed_on().at(1.9, i.TextReceived("now")).at(2.0, i.UserFinal(text="A table.")).until(9.0)
    assert talk.take() == [
        (1.9, "withdraw", "answer_1"),
        (1.9, "merge", "turn_1", "a table please now"),
        (1.9, "grant", "answer_2"),
        (2.0, "amend", "turn_1", "A table. please now"),
    ]


def test_a_final_with_more_words_than_were_typed_on_twice_takes_the_second_answer_back() -> None:
    talk = typed_on().at(1.9, i.TextReceived("now")).at(2.0, i.UserFinal(text="a table for two")).until(9.0)
    assert talk.take()[3:] == [
        (2.0, "withdraw", "answer_2"),
        (2.0, "merge", "turn_1", "a table for two please now"),
        (2.0, "grant", "answer_3"),
    ]


def test_a_turn_typed_after_the_answer_was_heard_leaves_the_final_to_the_turn_before() -> None:
    talk = typed_on().plays(1.85).at(1.9, i.TextReceived("now")).at(2.0, i.UserFinal(text="A table.")).until(9.0)
    assert talk.take() == [
        (1.9, "interrupted", "answer_1"),
        (1.9, "commit", "turn_2", "now"),
        (1.9, "grant", "answer_2"),
        (2.0, "amend", "turn_1", "A table. please"),
    ]


def test_in_the_midst_of_new_speech_a_final_like_the_committed_words_settles_them_and_the_next_is_new() -> None:
    talk = typed_on().plays(1.85).starts(1.9).at(2.0, i.UserFinal(text="A table.")).stops(2.1)
    assert talk.take() == [(2.0, "amend", "turn_1", "A table. please")]
    talk.at(2.4, i.UserFinal(text="A table.")).until(9.0)
    assert talk.take()[-2:] == [(2.5, "commit", "turn_2", "A table."), (2.5, "grant", "answer_2")]


@pytest.mark.parametrize(("final", "now"), [("what is the weather like", 2.0), ("the table", 2.9), ("", 2.0)])
def test_in_the_midst_of_new_speech_a_final_unlike_the_committed_words_or_a_late_revision_is_new(
    final: str, now: float
) -> None:
    talk = typed_on().plays(1.85).starts(1.9).at(now, i.UserFinal(text=final))
    assert "amend" not in [entry[1] for entry in talk.take()]


def test_a_final_in_the_midst_of_new_speech_that_says_more_takes_the_answer_into_the_open_turn() -> None:
    talk = typed_on().starts(1.9).at(2.0, i.UserFinal(text="a table for two")).stops(2.1).until(9.0)
    assert talk.take() == [
        (1.95, "pause", "answer_1"),
        (2.0, "amend", "turn_1", "a table for two please"),
        (2.0, "withdraw", "answer_1"),
        (3.1, "merge", "turn_1", "a table for two please"),
        (3.1, "grant", "answer_2"),
    ]


def test_a_final_of_a_turn_that_goes_on_already_comes_before_what_was_said_since() -> None:
    talk = typed_on().starts(1.9).at(2.0, i.UserInterim(text="tonight")).until(2.3)
    talk.at(2.4, i.UserFinal(text="a table for two")).at(2.6, i.UserFinal(text="tonight")).stops(2.6).until(9.0)
    assert talk.take() == [
        (1.95, "pause", "answer_1"),
        (2.2, "withdraw", "answer_1"),
        (2.4, "amend", "turn_1", "a table for two please"),
        (3.0, "merge", "turn_1", "a table for two please tonight"),
        (3.0, "grant", "answer_2"),
    ]


def test_what_is_cleared_is_not_what_was_committed_before() -> None:
    talk = guessed().at(2.6, i.TurnClearRequested()).at(2.7, i.UserFinal(text="A table.")).until(9.0)
    assert talk.take() == [(2.6, "ClearAudio"), (2.7, "amend", "turn_1", "A table.")]


@pytest.mark.parametrize(("interim", "turn_id"), [("a table", ""), ("a table for", ""), ("hello", "turn_2")])
def test_an_interim_long_after_is_of_new_words_unless_it_reads_like_the_committed_ones(
    interim: str, turn_id: str
) -> None:
    talk = guessed().at(3.6, i.UserInterim(text=interim))
    assert talk.machine.open_turn_id == turn_id


def test_a_late_interim_of_the_committed_item_opens_no_turn_whatever_it_says() -> None:
    assert named().at(2.7, i.UserInterim(text="hello", item_id="one")).machine.open_turn_id == ""


def test_a_late_interim_without_a_name_is_of_the_committed_item_until_new_speech() -> None:
    assert named().at(2.7, i.UserInterim(text="hello")).machine.open_turn_id == ""


def test_a_final_with_another_word_takes_back_an_answer_that_nobody_heard() -> None:
    talk = guessed().at(2.6, i.UserFinal(text="a cable")).until(5.0)
    assert talk.take()[:2] == [(2.6, "withdraw", "answer_1"), (2.6, "merge", "turn_1", "a cable")]


def test_a_final_at_the_very_end_of_the_time_for_it_still_amends() -> None:
    talk = guessed().plays(2.6).at(3.5, i.UserFinal(text="A table!")).until(3.6)
    assert talk.take() == [(3.5, "amend", "turn_1", "A table!")]


def test_words_that_only_go_on_are_a_revision_however_many_they_are() -> None:
    committed = Guess("a table", until=9.0)
    assert committed.resembles("a table for two and two children at the window please")
    assert committed.resembles("a")


def test_the_final_of_speech_that_goes_on_at_its_commit_may_come_as_long_after_its_end_as_any() -> None:
    talk = Conversation().speaking(interruptible=False).starts(2.0).at(2.3, i.UserFinal(text="for two")).stops(2.5)
    talk.at(2.8, i.TextReceived("please")).starts(3.0).at(3.3, i.UserInterim(text="tonight")).played(3.5)
    assert talk.take()[0] == (3.5, "commit", "turn_1", "for two tonight please")
    talk.plays(3.6).at(5.0, i.UserInterim(text="tonight then")).stops(6.0)
    assert talk.machine.open_turn_id == ""
    talk.at(7.0, i.UserFinal(text="tonight then")).until(12.0)
    assert (7.0, "amend", "turn_1", "for two tonight then please") in talk.take()
    assert talk.machine.open_turn_id == ""


def test_a_final_long_after_the_end_of_speech_that_went_on_at_its_commit_is_of_it() -> None:
    talk = Conversation().speaking(interruptible=False).starts(2.0).at(2.3, i.UserFinal(text="for two")).stops(2.5)
    talk.at(2.8, i.TextReceived("please")).starts(3.0).at(3.3, i.UserInterim(text="tonight")).played(3.5)
    talk.plays(3.6).stops(6.0).at(7.1, i.UserFinal(text="tonight")).until(12.0)
    assert [entry[1] for entry in talk.take()].count("amend") == 1


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_each_of_two_open_guesses_is_settled_by_the_final_of_its_name_in_any_order(order: tuple[str, str]) -> None:
    talk = two_guesses("a table", "for to", names=("one", "two"))
    texts = {"one": "A table.", "two": "For to?"}
    talk.at(2.0, *(i.UserFinal(text=texts[name], item_id=name) for name in order)).until(9.0)
    turns = {"one": "turn_1", "two": "turn_2"}
    assert talk.take() == [(2.0, "amend", turns[name], texts[name]) for name in order]


def test_without_names_a_final_is_of_the_open_guess_that_it_is_most_like() -> None:
    talk = two_guesses("a table for two", "not today").at(2.0, i.UserFinal(text="A table, for two."))
    talk.at(2.1, i.UserFinal(text="Not today.")).until(9.0)
    assert talk.take() == [(2.0, "amend", "turn_1", "A table, for two."), (2.1, "amend", "turn_2", "Not today.")]


def test_a_final_that_begins_like_an_older_guess_is_of_the_newer_one_if_that_is_more_like_it() -> None:
    talk = two_guesses("a table", "a table for two").at(2.0, i.UserFinal(text="A table for two.")).until(9.0)
    assert talk.take() == [(2.0, "amend", "turn_2", "A table for two.")]


def test_of_equal_guesses_the_older_one_is_settled_first() -> None:
    talk = two_guesses("yes", "yes").at(2.0, i.UserFinal(text="Yes.")).at(2.1, i.UserFinal(text="Yes!")).until(9.0)
    assert talk.take() == [(2.0, "amend", "turn_1", "Yes."), (2.1, "amend", "turn_2", "Yes!")]


def test_a_final_like_no_guess_is_of_the_newest_one() -> None:
    talk = two_guesses("a table", "for to").at(2.0, i.UserFinal(text="four also")).until(9.0)
    assert talk.take()[0] == (2.0, "amend", "turn_2", "four also")


def test_an_older_guess_whose_time_is_over_is_settled_no_more() -> None:
    talk = two_guesses("a table", "not today").at(2.35, i.UserFinal(text="a table")).until(9.0)
    assert talk.take()[0] == (2.35, "amend", "turn_2", "a table")


@pytest.mark.parametrize(
    ("finals", "amended"),
    [
        (("A table.", "For two."), ["A table. for two", "A table. For two."]),
        (("For two.", "A table."), ["a table For two.", "A table. For two."]),
    ],
)
def test_two_open_guesses_of_one_turn_are_settled_each_in_its_place(
    finals: tuple[str, str], amended: list[str]
) -> None:
    talk = two_guesses("a table", "for two", is_heard=False).plays(2.0)
    talk.at(2.1, *(i.UserFinal(text=text) for text in finals)).until(9.0)
    assert talk.take() == [(2.1, "amend", "turn_1", text) for text in amended]


def test_a_turn_that_is_opened_at_its_first_guess_still_waits_for_the_final_of_its_second() -> None:
    talk = two_guesses("a table for to", "not today", is_heard=False)
    talk.at(2.0, i.UserFinal(text="a table for two")).until(2.06)
    assert talk.take()[:2] == [(2.0, "withdraw", "answer_2"), (2.05, "merge", "turn_1", "a table for two not today")]
    talk.at(2.1, i.UserFinal(text="Not today.")).until(9.0)
    assert talk.take() == [(2.1, "amend", "turn_1", "a table for two Not today.")]


def test_the_second_guess_is_settled_while_the_turn_is_open_at_the_first() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.UserInterim(text="a table for to", item_id="one"))
    talk.at(1.1, i.TurnCommitRequested()).at(1.2, i.UserInterim(text="not today", item_id="two"))
    talk.at(1.3, i.TurnCommitRequested()).at(1.4, i.TextReceived("please"))
    assert (1.4, "merge", "turn_1", "a table for to not today please") in talk.take()
    talk.at(1.5, i.UserFinal(text="a table for two", item_id="one"))
    talk.at(1.6, i.UserFinal(text="Not today.", item_id="two")).at(1.7, i.UserFinal(text="thanks")).stops(2.0)
    assert talk.until(9.0).take()[-2:] == [
        (2.4, "merge", "turn_1", "a table for two thanks Not today. please"),
        (2.4, "grant", "answer_4"),
    ]


def test_neither_a_late_final_nor_what_was_committed_behind_its_place_is_cleared() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.UserInterim(text="a table", item_id="one"))
    talk.at(1.1, i.TurnCommitRequested()).at(1.2, i.TextReceived("please"))
    assert (1.2, "merge", "turn_1", "a table please") in talk.take()
    talk.at(1.3, i.UserFinal(text="a table for two", item_id="one")).at(1.4, i.TurnClearRequested()).stops(2.0)
    assert talk.until(9.0).take()[-2][1:] == ("merge", "turn_1", "a table for two please")


def test_of_what_a_remote_model_heard_only_the_newest_waits_for_its_transcript() -> None:
    talk = Conversation(remote_decides=True).at(1.0, i.RemoteReplyStarted("one")).plays(1.1).played(1.5)
    talk.at(2.0, i.RemoteReplyStarted("two")).plays(2.1).played(2.5).take()
    talk.at(60.0, i.UserFinal(text="hello")).at(61.0, i.UserFinal(text="hello")).until(65.0)
    assert talk.take()[0] == (60.0, "amend", "turn_2", "hello")
    assert [entry[1] for entry in talk.take()] == []


def test_a_transcript_of_what_a_remote_model_heard_is_waited_for_through_a_typed_turn() -> None:
    talk = Conversation(remote_decides=True).at(1.0, i.RemoteReplyStarted("one")).plays(1.1).played(1.5)
    talk.at(2.0, i.TextReceived("hello")).plays(2.1).played(2.5).take()
    assert talk.at(9.0, i.UserFinal(text="a table")).take() == [(9.0, "amend", "turn_1", "a table")]


@pytest.mark.parametrize(("ended_at", "final_at"), [(3.4, 4.45), (3.4, 4.5), (5.0, 6.0)])
def test_the_end_of_speech_never_shortens_the_time_for_a_final(ended_at: float, final_at: float) -> None:
    talk = Conversation().speaking(interruptible=False).starts(2.0).at(2.3, i.UserFinal(text="for two")).stops(2.5)
    talk.at(2.8, i.TextReceived("please")).starts(3.0).at(3.3, i.UserInterim(text="tonight")).played(3.5)
    talk.plays(3.55).stops(ended_at).at(final_at, i.UserFinal(text="tonight then"))
    assert (final_at, "amend", "turn_1", "for two tonight then please") in talk.take()


def test_what_is_said_long_after_a_request_in_mid_speech_is_new() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.UserInterim(text="a table")).at(1.1, i.TurnCommitRequested())
    talk.plays(1.2).at(2.2, i.UserFinal(text="tonight"))
    assert talk.machine.open_turn_id == "turn_2"


def test_of_two_guesses_within_one_speech_a_final_like_neither_settles_the_newer_one() -> None:
    talk = Conversation().starts(0.5).at(0.8, i.UserInterim(text="a table", item_id="one"))
    talk.at(0.9, i.TurnCommitRequested()).plays(1.0).at(1.1, i.UserInterim(text="for to", item_id="two"))
    talk.at(1.2, i.TurnCommitRequested()).plays(1.3).take()
    assert talk.at(1.4, i.UserFinal(text="four also")).take()[0] == (1.4, "amend", "turn_2", "four also")


def ninth_turn_guessed() -> Conversation:
    """Eight typed turns and a ninth that was committed at 12.0 as a guess; all were answered."""
    talk = Conversation()
    for number in range(1, 9):
        talk.at(float(number), i.TextReceived("hello")).plays(number + 0.1).played(number + 0.2)
    talk.starts(11.0).at(11.5, i.UserInterim(text="a table", item_id="nine")).stops(11.6)
    talk.at(12.0, i.TurnCommitRequested()).plays(12.1).starts(12.2)
    assert (12.0, "commit", "turn_9", "a table") in talk.take()
    return talk


def test_the_tenth_turn_is_not_taken_for_the_ninth_while_it_is_open() -> None:
    talk = ninth_turn_guessed().at(12.4, i.UserInterim(text="stop"), i.UserFinal(text="A table.", item_id="nine"))
    talk.stops(12.5).at(12.8, i.UserFinal(text="stop")).until(15.0)
    assert [entry for entry in talk.take() if entry[1] in ("amend", "commit")] == [
        (12.4, "amend", "turn_9", "A table."),
        (12.9, "commit", "turn_10", "stop"),
    ]


def test_the_tenth_turn_is_not_taken_for_the_ninth_once_it_is_committed() -> None:
    talk = ninth_turn_guessed().stops(12.3).at(12.6, i.UserFinal(text="stop")).until(12.75)
    talk.at(12.8, i.UserFinal(text="A table.", item_id="nine"))
    assert [entry for entry in talk.take() if entry[1] in ("amend", "commit")] == [
        (12.7, "commit", "turn_10", "stop"),
        (12.8, "amend", "turn_9", "A table."),
    ]


def test_a_final_long_after_a_backchannel_is_of_it() -> None:
    talk = Conversation().speaking().starts(2.0).at(2.1, i.UserInterim(text="yeah")).stops(2.3).until(3.3)
    assert talk.take() == [(3.3, "aside", "turn_1", "yeah")]
    assert talk.at(4.4, i.UserFinal(text="yeah")).until(6.0).take() == [(4.4, "amend", "turn_1", "yeah")]


@pytest.mark.parametrize("final_at", [3.4, 3.6, 6.0])
@pytest.mark.parametrize("is_heard", [True, False])
def test_an_unchanged_final_of_a_guess_is_not_repeated_though_new_speech_goes_on(
    final_at: float, is_heard: bool
) -> None:
    talk = guessed()
    if is_heard:
        talk.plays(2.6)
    talk.starts(3.0).at(final_at, i.UserFinal(text="A table."))
    assert [entry for entry in talk.take() if entry[1] != "pause"] == [(final_at, "amend", "turn_1", "A table.")]
    talk.stops(6.2).at(6.5, i.UserFinal(text="for two")).until(9.0)
    wanted = "for two" if is_heard else "A table. for two"
    assert [entry[3] for entry in talk.take() if entry[1] in ("commit", "merge")] == [wanted]


def test_a_word_of_new_speech_that_only_begins_like_a_guess_is_new() -> None:
    talk = guessed("no").plays(2.6).starts(3.0).at(3.6, i.UserFinal(text="nothing")).stops(3.8).until(9.0)
    assert [entry[1:] for entry in talk.take() if entry[1] in ("commit", "amend")] == [("commit", "turn_2", "nothing")]


def test_the_same_words_are_new_if_an_interim_of_the_new_speech_has_shown_them() -> None:
    talk = guessed("stop").plays(2.6).starts(3.0).at(3.3, i.UserInterim(text="stop"))
    talk.at(3.7, i.UserFinal(text="stop")).stops(3.8).until(9.0)
    assert [entry[3] for entry in talk.take() if entry[1] in ("commit", "amend")] == ["stop"]
    assert talk.machine.turns == 2


def test_only_the_first_such_final_is_of_the_guess() -> None:
    talk = guessed("stop").plays(2.6).starts(3.0).at(3.6, i.UserFinal(text="stop")).at(3.7, i.UserFinal(text="stop"))
    talk.stops(3.8).until(9.0)
    assert [entry[1:] for entry in talk.take() if entry[1] in ("commit", "amend")] == [
        ("amend", "turn_1", "stop"),
        ("commit", "turn_2", "stop"),
    ]


@pytest.mark.parametrize("said_at", [1.95, 2.6, 3.9, 4.4])
def test_words_that_the_vad_misses_after_an_answered_burst_wait_for_the_pause(said_at: float) -> None:
    talk = Conversation().says("a table", 0.5, 1.5).plays(1.92).played(1.94).until(said_at)
    talk.take()
    talk.at(said_at, i.UserFinal(text="for two")).until(9.0)
    assert talk.take()[0] == (round(said_at + 0.4, 6), "commit", "turn_2", "for two")


def test_words_that_come_late_for_a_burst_without_any_do_not_wait_once_more() -> None:
    talk = Conversation().starts(0.5).stops(1.5).until(2.6)
    assert talk.take() == [(2.5, "drop", "turn_1", "transcript_missing")]
    assert talk.at(2.8, i.UserFinal(text="a table")).take()[0] == (2.8, "commit", "turn_2", "a table")
