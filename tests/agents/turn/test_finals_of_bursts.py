"""One final for several bursts of speech, or one for each."""

from __future__ import annotations

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.user.owed_finals import lacks_words


def two_bursts(**options: object) -> Conversation:
    """Speech from 0.5 to 1.5 and from 1.74 to 3.0; the end of the second is not reported yet."""
    return Conversation(**options).starts(0.5).stops(1.5).starts(1.74)  # type: ignore[arg-type]


def committed(talk: Conversation) -> list[tuple[object, ...]]:
    return [entry for entry in talk.until(9.0).take() if entry[1] in ("commit", "merge", "drop")]


def test_a_final_after_the_true_end_settles_both_bursts_though_the_end_is_reported_later() -> None:
    talk = two_bursts().at(3.1, i.UserFinal(text="a table for two")).stops(3.0)
    assert committed(talk) == [(3.4, "commit", "turn_1", "a table for two")]


def test_a_final_that_comes_after_the_report_settles_both_bursts() -> None:
    talk = two_bursts().stops(3.0).at(3.3, i.UserFinal(text="a table for two"))
    assert committed(talk) == [(3.4, "commit", "turn_1", "a table for two")]


def test_a_final_in_mid_speech_is_of_the_earlier_burst_and_the_last_one_is_waited_for() -> None:
    talk = two_bursts().at(2.0, i.UserFinal(text="a table")).stops(3.0).at(3.8, i.UserFinal(text="for two"))
    assert committed(talk) == [(3.8, "commit", "turn_1", "a table for two")]


def test_an_empty_final_after_the_true_end_says_that_both_were_nothing() -> None:
    assert committed(two_bursts().at(3.1, i.UserFinal(text="")).stops(3.0)) == [(3.2, "drop", "turn_1", "noise")]


@pytest.mark.parametrize("interim", ["for two", "a table for two"])
def test_words_of_the_last_burst_that_the_final_lacks_are_waited_for(interim: str) -> None:
    talk = two_bursts().at(2.8, i.UserInterim(text=interim)).at(3.1, i.UserFinal(text="a table")).stops(3.0)
    assert committed(talk.at(3.7, i.UserFinal(text="for two"))) == [(3.7, "commit", "turn_1", "a table for two")]


def test_an_interim_of_the_last_burst_stands_in_for_a_final_that_never_comes() -> None:
    talk = two_bursts().at(2.8, i.UserInterim(text="for two")).at(3.1, i.UserFinal(text="a table")).stops(3.0)
    assert committed(talk) == [(4.0, "commit", "turn_1", "a table for two")]


def test_a_final_that_has_the_interims_words_settles_both_bursts() -> None:
    talk = two_bursts().at(2.8, i.UserInterim(text="table for to")).at(3.1, i.UserFinal(text="a table for two"))
    assert committed(talk.stops(3.0)) == [(3.4, "commit", "turn_1", "a table for two")]


def test_an_interim_of_the_burst_before_is_no_word_of_the_last_one() -> None:
    talk = Conversation().starts(0.5).at(1.2, i.UserInterim(text="hm")).stops(1.5).starts(1.74)
    assert committed(talk.at(3.1, i.UserFinal(text="a table")).stops(3.0)) == [(3.4, "commit", "turn_1", "a table")]


def test_an_interim_that_follows_the_final_is_of_words_to_come() -> None:
    talk = two_bursts().at(3.1, i.UserFinal(text="a table")).at(3.15, i.UserInterim(text="for two")).stops(3.0)
    assert committed(talk) == [(4.0, "commit", "turn_1", "a table for two")]


def test_names_of_utterances_tell_which_words_a_final_is_of() -> None:
    talk = two_bursts().at(2.8, i.UserInterim(text="a table", item_id="two"))
    talk.at(3.1, i.UserFinal(text="a table", item_id="one")).stops(3.0)
    assert committed(talk) == [(4.0, "commit", "turn_1", "a table a table")]
    talk = two_bursts().at(2.8, i.UserInterim(text="hm", item_id="one"))
    talk.at(3.1, i.UserFinal(text="a table", item_id="one")).stops(3.0)
    assert committed(talk) == [(3.4, "commit", "turn_1", "a table")]


def shown_early(*, onset: float = 0.4) -> Conversation:
    """An interim at 0.5 opens the turn; the VAD reports at 0.6 that speech began at `onset`."""
    talk = Conversation().at(0.5, i.UserInterim(text="a table"))
    return talk.at(0.6, i.UserSpeechStarted(at=onset))


def test_an_interim_before_the_vads_report_is_of_the_burst_that_is_reported_then() -> None:
    talk = shown_early().at(1.4, i.UserFinal(text="a table")).stops(1.5)
    assert committed(talk) == [(1.9, "commit", "turn_1", "a table")]


def test_after_such_an_interim_a_final_is_known_to_be_of_one_burst() -> None:
    talk = shown_early().stops(1.5).at(1.75, i.UserFinal(text="a table")).starts(1.8).stops(2.5)
    talk.at(2.6, i.UserInterim(text="for")).starts(2.9).at(3.0, i.UserFinal(text="for")).stops(3.5)
    assert committed(talk.at(3.8, i.UserFinal(text="two"))) == [(3.9, "commit", "turn_1", "a table for two")]


def test_in_a_later_burst_an_interim_before_the_vads_report_is_of_that_burst_too() -> None:
    talk = Conversation().starts(0.5).stops(1.5).at(1.6, i.UserFinal(text="a table"))
    talk.at(1.8, i.UserInterim(text="for")).at(1.85, i.UserSpeechStarted(at=1.7))
    talk.at(2.4, i.UserFinal(text="for two")).stops(2.5)
    assert committed(talk) == [(2.9, "commit", "turn_1", "a table for two")]


def test_a_burst_that_began_after_such_an_interim_is_owed_a_final_of_its_own() -> None:
    talk = shown_early(onset=0.55).at(1.0, i.UserFinal(text="a table")).stops(1.5)
    assert committed(talk.at(2.2, i.UserFinal(text="for two"))) == [(2.2, "commit", "turn_1", "a table for two")]


def one_a_burst() -> Conversation:
    """A first burst with its own final, a second one without, and a third one from 2.5 on."""
    return Conversation(min_delay=1.0).says("one", 0.5, 1.0).starts(1.4).stops(2.0).starts(2.5)


@pytest.mark.parametrize(("first", "reported"), [(3.1, 3.0), (3.3, 3.0), (2.7, 3.0)])
def test_where_finals_came_one_a_burst_each_burst_is_owed_its_own(first: float, reported: float) -> None:
    talk = one_a_burst()
    if first < reported + 0.2:
        talk.at(first, i.UserFinal(text="two")).stops(reported)
    else:
        talk.stops(reported).at(first, i.UserFinal(text="two"))
    talk.at(3.8, i.UserFinal(text="three"))
    assert committed(talk) == [(4.0, "commit", "turn_1", "one two three")]


def test_where_a_final_was_of_two_bursts_once_it_may_be_so_again() -> None:
    talk = Conversation(min_delay=1.0, transcript_timeout=3.0).starts(0.5).stops(1.0).says("one two", 1.2, 1.6)
    talk.starts(2.0).stops(2.4).starts(2.6).stops(3.0).at(3.3, i.UserFinal(text="three four"))
    assert committed(talk) == [(4.0, "commit", "turn_1", "one two three four")]


@pytest.mark.parametrize(
    ("final", "interim", "lacks"),
    [
        ("a table", "a table for two", True),
        ("a table for two", "a table for to", False),
        ("a table for two", "table for", False),
        ("a table", "for two", True),
        ("a table", "…", False),
    ],
)
def test_words_that_a_final_lacks_stand_behind_its_own(final: str, interim: str, lacks: bool) -> None:
    assert lacks_words(final, interim) is lacks


# --- finals in the midst of a burst (rule 16)

each_ears = pytest.mark.parametrize("emits_interims", [True, False])


def one_burst(final_at: float, *, emits_interims: bool) -> Conversation:
    """Speech from 0.5 to 3.0 with a final at that time."""
    talk = Conversation(emits_interims=emits_interims).starts(0.5)
    return talk.at(final_at, i.UserFinal(text="a table")).stops(3.0)


@each_ears
@pytest.mark.parametrize("final_at", [2.5, 2.9, 3.1])
def test_a_final_in_the_last_half_second_of_the_only_burst_settles_it(final_at: float, emits_interims: bool) -> None:
    talk = one_burst(final_at, emits_interims=emits_interims)
    assert committed(talk) == [(3.4, "commit", "turn_1", "a table")]


def test_where_the_recogniser_gives_no_interims_an_earlier_final_leaves_the_rest_of_the_burst_open() -> None:
    talk = one_burst(2.4, emits_interims=False).at(3.9, i.UserFinal(text="for two"))
    assert committed(talk) == [(3.9, "commit", "turn_1", "a table for two")]
    assert committed(one_burst(2.4, emits_interims=False)) == [(4.0, "commit", "turn_1", "a table")]


def test_where_the_recogniser_gives_interims_the_rest_of_a_burst_is_open_when_one_shows_words() -> None:
    assert committed(one_burst(1.5, emits_interims=True)) == [(3.4, "commit", "turn_1", "a table")]
    talk = Conversation().starts(0.5).at(1.5, i.UserFinal(text="a table")).at(2.8, i.UserInterim(text="for two"))
    assert committed(talk.stops(3.0)) == [(4.0, "commit", "turn_1", "a table for two")]


def test_words_that_an_interim_had_shown_before_a_final_in_mid_speech_are_owed_a_final_of_their_own() -> None:
    talk = Conversation().starts(0.5).at(1.8, i.UserInterim(text="a table for two"))
    talk.at(2.0, i.UserFinal(text="a table")).stops(3.0).at(3.8, i.UserFinal(text="for two"))
    assert committed(talk) == [(3.8, "commit", "turn_1", "a table for two")]


def test_words_that_an_interim_had_shown_and_no_final_settles_follow_those_of_the_final_once() -> None:
    talk = Conversation().starts(0.5).at(1.8, i.UserInterim(text="a table for two"))
    talk.at(2.0, i.UserFinal(text="a table")).stops(3.0)
    assert committed(talk) == [(4.0, "commit", "turn_1", "a table for two")]


def test_a_final_in_the_second_burst_with_fewer_words_than_the_first_one_has_shown_is_of_the_first_one() -> None:
    talk = Conversation().starts(0.5).at(1.2, i.UserInterim(text="a table for")).stops(1.5).starts(1.74)
    assert committed(talk.at(2.0, i.UserFinal(text="a table")).stops(3.0)) == [(4.0, "commit", "turn_1", "a table")]


def test_a_final_after_the_true_end_of_the_only_burst_takes_back_what_was_shown_beyond_it() -> None:
    talk = Conversation().starts(0.5).at(1.8, i.UserInterim(text="a table for two"))
    assert committed(talk.at(3.05, i.UserFinal(text="a table")).stops(3.0)) == [(3.4, "commit", "turn_1", "a table")]


def test_a_final_of_another_utterance_takes_back_nothing() -> None:
    talk = Conversation().starts(0.5).at(1.8, i.UserInterim(text="for two", item_id="two"))
    talk.at(3.05, i.UserFinal(text="a table", item_id="one")).stops(3.0)
    assert committed(talk) == [(4.0, "commit", "turn_1", "a table for two")]


def test_a_final_in_mid_speech_that_shares_no_beginning_with_the_words_shown_corrects_them() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.UserInterim(text="for")).at(1.2, i.UserFinal(text="four")).stops(3.0)
    assert committed(talk) == [(3.4, "commit", "turn_1", "four")]


def test_a_later_final_in_the_last_half_second_settles_the_rest() -> None:
    talk = Conversation(emits_interims=False).starts(0.5).at(1.5, i.UserFinal(text="a table"))
    assert committed(talk.at(2.6, i.UserFinal(text="for two")).stops(3.0)) == [
        (3.4, "commit", "turn_1", "a table for two")
    ]


def test_the_rest_of_a_burst_and_the_next_one_are_owed_one_final() -> None:
    talk = Conversation(emits_interims=False, min_delay=1.0).says("hello", 0.5, 1.0).starts(1.4)
    talk.at(1.8, i.UserFinal(text="a table")).stops(2.6).starts(3.0).stops(4.0).at(4.3, i.UserFinal(text="for two"))
    assert committed(talk) == [(5.0, "commit", "turn_1", "hello a table for two")]


@each_ears
def test_a_final_of_the_speech_before_settles_no_short_burst_that_it_did_not_hear(emits_interims: bool) -> None:
    talk = Conversation(emits_interims=emits_interims).says("a table", 0.5, 1.5).starts(1.8).stops(2.0)
    assert committed(talk.at(2.7, i.UserFinal(text="for two"))) == [(2.7, "commit", "turn_1", "a table for two")]


@each_ears
@pytest.mark.parametrize(("final_at", "over_at"), [(2.9, 3.4), (2.89, 4.0), (2.6, 4.0)])
def test_of_two_bursts_a_final_settles_both_in_the_last_tenth_of_the_second(
    final_at: float, over_at: float, emits_interims: bool
) -> None:
    talk = two_bursts(emits_interims=emits_interims).at(final_at, i.UserFinal(text="a table")).stops(3.0)
    assert committed(talk) == [(over_at, "commit", "turn_1", "a table")]


@pytest.mark.parametrize(
    ("interim", "final", "over_at"),
    [
        ("a table", "a table for two", 3.4),  # it holds all that was shown, and more
        ("a table", "a table", 4.0),
        ("a table for", "the table", 4.0),
    ],
)
def test_of_two_bursts_a_final_settles_both_if_it_holds_more_than_interims_have_shown(
    interim: str, final: str, over_at: float
) -> None:
    talk = two_bursts().at(2.0, i.UserInterim(text=interim)).at(2.2, i.UserFinal(text=final)).stops(3.0)
    ((at, *_),) = committed(talk)
    assert at == over_at


def test_words_that_are_shown_after_such_a_final_are_waited_for() -> None:
    talk = two_bursts().at(2.0, i.UserInterim(text="a")).at(2.2, i.UserFinal(text="a table"))
    talk.at(2.8, i.UserInterim(text="for two")).stops(3.0)
    assert committed(talk) == [(4.0, "commit", "turn_1", "a table for two")]


def test_a_final_in_the_last_half_second_shows_that_each_burst_gets_one() -> None:
    talk = Conversation(min_delay=1.0).starts(0.5).at(1.2, i.UserFinal(text="one")).stops(1.5).starts(1.8).stops(2.4)
    talk.starts(2.7).stops(3.4).at(3.7, i.UserFinal(text="two")).at(4.1, i.UserFinal(text="three"))
    assert committed(talk) == [(4.4, "commit", "turn_1", "one two three")]


def test_two_finals_of_one_sound_are_one_turn_where_the_recogniser_gives_no_interims() -> None:
    talk = Conversation(emits_interims=False).starts(0.5).at(1.6, i.UserFinal(text="a table")).stops(3.2)
    assert committed(talk.at(3.9, i.UserFinal(text="for two"))) == [(3.9, "commit", "turn_1", "a table for two")]


def test_two_finals_of_one_sound_over_the_agent_s_voice_are_one_turn_where_the_recogniser_gives_no_interims() -> None:
    talk = Conversation(emits_interims=False).speaking().starts(2.0).at(3.1, i.UserFinal(text="a table")).stops(4.7)
    assert committed(talk.at(5.4, i.UserFinal(text="for two"))) == [(5.4, "commit", "turn_1", "a table for two")]


@each_ears
def test_one_final_twenty_milliseconds_before_the_true_end_settles_two_bursts(emits_interims: bool) -> None:
    talk = two_bursts(emits_interims=emits_interims).at(2.98, i.UserFinal(text="a table for two")).stops(3.0)
    assert committed(talk) == [(3.4, "commit", "turn_1", "a table for two")]


def test_a_final_that_ends_words_which_were_shown_in_the_burst_before_settles_both() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.UserFinal(text="I want")).at(1.2, i.UserInterim(text="a table"))
    talk.stops(1.5).starts(1.72).at(2.2, i.UserFinal(text="a table for two")).stops(2.5)
    assert committed(talk) == [(2.9, "commit", "turn_1", "I want a table for two")]
