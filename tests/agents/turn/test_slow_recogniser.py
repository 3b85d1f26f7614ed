"""A recogniser whose interims come late: the agent does not take its silence for the caller's."""

from __future__ import annotations

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.options import PipelineTraits

SLOW = (2.2, 2.5)
"""Seconds from the onset to the first interim of two bursts."""


def said(talk: Conversation, start: float, end: float, shown_after: float | None, text: str) -> Conversation:
    """A burst whose first interim comes so many seconds after its onset, and its final 0.25 s after its end."""
    talk.starts(start)
    if shown_after is not None:
        talk.at(start + shown_after, i.UserInterim(text=text))
    return talk.stops(end).at(end + 0.25, i.UserFinal(text=text))


def heard(*shown_after: float | None, pause: float = 0.3, **options: object) -> tuple[Conversation, float]:
    """Bursts of 3 s of one turn, so many seconds of silence apart; return the beginning of the next one too."""
    talk, at = Conversation(**options), 0.5  # type: ignore[arg-type]
    for number, seconds in enumerate(shown_after):
        said(talk, at, at + 3.0, seconds, f"part {number}")
        at = round(at + 3.0 + pause, 6)
    return talk, at


def ends_after(talk: Conversation, at: float) -> float:
    """A television, or a caller whose words are shown no more, goes on from there, with one interim 0.1 s later.

    Return how many seconds after that interim the turn is over.
    """
    talk.starts(at).at(round(at + 0.1, 6), i.UserInterim(text="and")).until(at + 60.0)
    commits = [entry[0] for entry in talk.take() if entry[1] in ("commit", "merge")]
    return float(round(commits[-1] - at - 0.1, 6))


def test_a_quick_recogniser_that_shows_no_new_word_for_three_seconds_ends_the_turn() -> None:
    assert ends_after(*heard(0.4, 0.4)) == 3.0


def test_after_two_late_first_interims_in_a_row_the_agent_waits_for_max_pause() -> None:
    assert ends_after(*heard(*SLOW)) == 5.0
    assert ends_after(*heard(*SLOW, max_pause=8.0)) == 8.0
    assert ends_after(*heard(*SLOW, max_delay=7.0)) == 7.0


def test_without_max_pause_a_slow_recogniser_is_waited_for_until_the_sound_ends() -> None:
    talk, at = heard(*SLOW, max_pause=None)
    talk.starts(at).at(at + 0.1, i.UserInterim(text="and")).until(at + 60.0)
    assert [entry for entry in talk.take() if entry[1] in ("commit", "merge")] == []


def test_a_short_max_pause_makes_no_wait_shorter() -> None:
    assert ends_after(*heard(*SLOW, max_pause=1.0, max_delay=1.2)) == 3.0


@pytest.mark.parametrize(("shown_after", "act"), [(SLOW, "prepare"), ((0.4, 0.4), "grant")], ids=["slow", "quick"])
def test_a_sound_without_a_word_delays_the_answer_to_typed_text_only_with_a_slow_recogniser(
    shown_after: tuple[float, ...], act: str
) -> None:
    talk, at = heard(*shown_after)
    talk.plays(at + 0.5).played(at + 0.8).take()
    talk.starts(at + 1.0).at(at + 1.5, i.TextReceived("hello"))
    assert [entry[1] for entry in talk.take()] == ["commit", act]


@pytest.mark.parametrize("shown_after", [(2.2,), (2.2, 0.4, 2.2), (2.0, 2.0)], ids=str)
def test_one_late_interim_or_interims_of_two_seconds_are_no_slow_recogniser(shown_after: tuple[float, ...]) -> None:
    assert ends_after(*heard(*shown_after)) == 3.0


def test_it_is_slow_until_two_quick_bursts_follow() -> None:
    assert ends_after(*heard(*SLOW, 0.4)) == 3.0  # the interim in the television's sound is the second quick one
    talk, at = heard(*SLOW, 0.4)
    talk.starts(at).until(at + 60.0)  # none comes
    commits = [entry[0] for entry in talk.take() if entry[1] in ("commit", "merge")]
    assert commits == [pytest.approx(at - 0.05 + 5.0)]


def test_a_burst_whose_words_come_with_its_final_only_is_late_if_it_was_long() -> None:
    assert ends_after(*heard(None, None)) == 5.0


def test_a_short_burst_whose_words_come_with_its_final_only_says_nothing() -> None:
    talk, at = heard(*SLOW)
    for _ in range(3):
        said(talk, at, at + 0.4, None, "yes")
        at = round(at + 0.7, 6)
    assert ends_after(talk, at) == 5.0


def test_a_burst_without_words_is_between_no_two_bursts_with_words() -> None:
    talk, at = heard(SLOW[0])
    talk.starts(at).stops(at + 0.2)
    said(talk, at + 0.5, at + 3.5, 2.6, "more")
    assert ends_after(talk, at + 3.85) == 5.0


@pytest.mark.parametrize("coughs", [1, 2])
def test_words_that_may_be_of_a_sound_before_say_nothing(coughs: int) -> None:
    """Coughs, then words 1.4 s after their onset and 2.3 s after the first cough's, between two late interims."""
    talk, at = heard(SLOW[0])
    for number in range(coughs):
        talk.starts(at + 0.4 * number).stops(at + 0.4 * number + 0.2)
    talk.starts(at + 0.9).at(at + 2.3, i.UserInterim(text="more")).stops(at + 3.8)
    talk.at(at + 4.1, i.UserFinal(text="more"))
    assert ends_after(said(talk, at + 4.15, at + 7.15, SLOW[1], "and so"), at + 7.45) == 5.0


def test_a_final_without_interims_is_of_the_newest_sound_and_not_of_a_cough_before() -> None:
    talk, at = heard(SLOW[0])
    talk.starts(at).stops(at + 0.3).starts(at + 0.8).stops(at + 2.6).at(at + 2.85, i.UserFinal(text="more"))
    assert ends_after(talk, at + 2.9) == 3.0


def test_a_final_of_the_burst_before_says_nothing_of_the_one_that_goes_on() -> None:
    talk, at = heard(SLOW[0])
    talk.starts(at).stops(at + 0.4).starts(at + 0.7).at(at + 0.9, i.UserFinal(text="yes"))
    talk.at(at + 3.1, i.UserInterim(text="please")).stops(at + 3.7).at(at + 3.95, i.UserFinal(text="please"))
    assert ends_after(talk, at + 4.0) == 5.0


def test_an_interim_that_repeats_the_words_of_the_burst_before_says_nothing() -> None:
    talk = Conversation().starts(0.5).at(2.7, i.UserInterim(text="we")).stops(3.5).starts(3.8)
    talk.at(4.2, i.UserInterim(text="we")).at(6.2, i.UserInterim(text="we are")).stops(6.8)
    assert ends_after(talk.at(7.05, i.UserFinal(text="we are")), 7.1) == 5.0


def test_a_sound_that_begins_in_a_long_silence_may_be_no_voice_before_its_first_word() -> None:
    talk, at = Conversation(), 2.0
    for number in range(3):
        said(talk, at, at + 3.0, 2.5, f"part {number}").until(at + 3.8)
        talk.plays(at + 3.9).played(at + 4.9)
        at += 6.0
    assert ends_after(talk, at) == 3.0


def test_a_caller_who_answers_the_agent_at_once_or_speaks_over_it_began_with_the_first_word() -> None:
    talk = Conversation().speaking().starts(3.0).at(5.5, i.UserInterim(text="wait")).stops(6.0)
    talk.at(6.3, i.UserFinal(text="wait")).until(6.7).plays(7.0).played(8.0)
    said(talk, 8.9, 11.9, 2.5, "a table")
    assert ends_after(talk, 12.25) == 5.0


def test_words_that_come_before_the_report_of_their_onset_are_quick() -> None:
    talk, at = heard(*SLOW)
    for _ in range(2):
        talk.at(at, i.UserInterim(text="and")).at(at + 0.1, i.UserSpeechStarted(at - 0.1)).stops(at + 1.0)
        talk.at(at + 1.2, i.UserFinal(text="and"))
        at = round(at + 1.4, 6)
    assert ends_after(talk, at) == 3.0


@pytest.mark.parametrize("lost_after", [-0.1, 0.3])
def test_words_that_come_late_because_the_recogniser_was_lost_say_nothing(lost_after: float) -> None:
    talk, at = heard(SLOW[0])
    lost_at = round(at + lost_after, 6)
    if lost_after < 0:
        talk.at(lost_at, i.RecogniserLost()).starts(at)
    else:
        talk.starts(at).at(lost_at, i.RecogniserLost())
    talk.at(at + 2.3, i.RecogniserBack())
    talk.at(at + 2.5, i.UserInterim(text="more")).stops(at + 3.0).at(at + 3.25, i.UserFinal(text="more"))
    assert ends_after(talk, at + 3.3) == 3.0


def test_a_slow_recogniser_that_is_replaced_says_nothing_of_its_successor() -> None:
    talk, at = heard(*SLOW)
    assert ends_after(talk.at(at - 0.01, i.RecogniserReplaced()), at) == 3.0
    talk, at = heard(*SLOW)
    talk.at(at + 0.4, i.PipelineChangeRequested(change_id="c", pipeline="p", within=60.0)).until(at + 1.0)
    talk.at(at + 1.0, i.SpeechEnded("answer_1", "completed"))
    talk.at(at + 2.0, i.PipelineReady(change_id="c", traits=PipelineTraits()))
    assert talk.machine.is_change_due
    talk.at(at + 2.0, i.PipelineChangeDue())
    assert ends_after(talk, at + 2.2) == 3.0
