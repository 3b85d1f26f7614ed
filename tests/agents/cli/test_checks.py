"""Measurements on a recording, tried on recordings made of tones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from vivavoce.agents.caller.answering_mind import Turn
from vivavoce.agents.caller.measuring import LineSpan, gaps, heard_lines, silencing
from vivavoce.agents.cli.demo.checks import CallResult, check_call, check_latencies
from vivavoce.pipelines.media.frame import AudioFrame

RATE = 16000
FIRST = {"day": "friday", "time": "19:00", "people": 4}
BOOKING = {"day": "friday", "time": "20:00", "people": 4}

Span = tuple[float, float]


def _side(spans: Sequence[Span], seconds: float) -> np.ndarray:
    side = np.zeros(round(seconds * RATE), dtype=np.int16)
    for start, end in spans:
        index = np.arange(round(start * RATE), round(end * RATE))
        side[index] = (8000 * np.sin(2 * np.pi * 300 * index / RATE)).astype(np.int16)
    return side


def _call(caller: Sequence[Span], agent: Sequence[Span], seconds: float = 12.0) -> AudioFrame:
    both = np.stack([_side(caller, seconds), _side(agent, seconds)], axis=1)
    return AudioFrame(both.tobytes(), RATE, num_channels=2)


def _turn(start: float, end: float, *, is_barge_in: bool = False, answer: str = "yes") -> Turn:
    return Turn(line="x", start=round(start * RATE), end=round(end * RATE), is_barge_in=is_barge_in, answer=answer)


def test_a_gap_runs_from_the_callers_last_sound_to_the_agents_first() -> None:
    recording = _call(caller=[(1.0, 2.0), (5.0, 5.5)], agent=[(2.6, 4.0), (6.25, 7.0)])
    turns = [_turn(0.9, 2.3), _turn(4.9, 5.8)]
    assert gaps(recording, turns) == pytest.approx([0.6, 0.75], abs=0.011)


def test_a_turn_without_answer_has_no_gap() -> None:
    recording = _call(caller=[(1.0, 2.0), (5.0, 5.5)], agent=[(6.0, 7.0)])
    assert gaps(recording, [_turn(1.0, 2.0), _turn(5.0, 5.5)]) == [None, pytest.approx(0.5, abs=0.011)]


def test_what_the_agent_still_says_during_a_barge_in_is_not_its_answer() -> None:
    recording = _call(caller=[(3.0, 3.6)], agent=[(1.0, 3.7), (4.5, 6.0)])
    assert gaps(recording, [_turn(3.0, 3.6, is_barge_in=True)]) == pytest.approx([0.9], abs=0.011)


def test_silencing_runs_from_the_onset_of_the_barge_in_to_the_agents_last_sound() -> None:
    recording = _call(caller=[(3.0, 4.0)], agent=[(1.0, 3.7), (5.0, 6.0)])
    assert silencing(recording, _turn(2.95, 4.1, is_barge_in=True)) == pytest.approx(0.7, abs=0.011)


def test_a_pause_between_words_is_not_silence() -> None:
    recording = _call(caller=[(3.0, 4.0)], agent=[(1.0, 3.2), (3.3, 4.8)])
    assert silencing(recording, _turn(3.0, 4.0, is_barge_in=True)) == pytest.approx(1.8, abs=0.011)


def test_a_barge_in_that_begins_in_a_pause_between_two_sentences_cuts_the_second() -> None:
    recording = _call(caller=[(3.0, 4.0)], agent=[(1.0, 2.6), (3.3, 3.8)])
    assert silencing(recording, _turn(3.0, 4.0, is_barge_in=True)) == pytest.approx(0.8, abs=0.011)


def test_a_barge_in_into_silence_cut_nothing() -> None:
    recording = _call(caller=[(3.0, 4.0)], agent=[(1.0, 2.0)])
    assert silencing(recording, _turn(3.0, 4.0, is_barge_in=True)) is None


CALLER = [(1.0, 1.5), (3.0, 3.5), (5.0, 5.5), (8.0, 8.5)]
AGENT = [(2.0, 2.5), (4.0, 4.5), (6.0, 8.6), (9.5, 10.0)]
GOOD = (_turn(1.0, 1.5), _turn(3.0, 3.5), _turn(5.0, 5.5), _turn(8.0, 8.5, is_barge_in=True))


def _verdict(
    turns: tuple[Turn, ...] = GOOD,
    bookings: Sequence[dict[str, object]] = (FIRST, BOOKING),
    problem: str = "",
) -> list[bool]:
    result = CallResult(sample_rate=RATE, turns=turns, problem=problem)
    return [check.is_met for check in check_call(result, _call(CALLER, AGENT), bookings, (FIRST, BOOKING))]


def test_a_good_call_meets_every_check() -> None:
    assert _verdict() == [True] * 5


def test_a_booking_at_eight_from_the_first_is_no_correction() -> None:
    """A caller who misheard the greeting said "no, at eight" to the first question, and nothing was ever changed."""
    assert _verdict(bookings=[BOOKING]) == [True, True, True, False, True]
    assert _verdict(bookings=[BOOKING, BOOKING]) == [True, True, True, False, True]


def test_a_table_that_was_changed_back_is_not_the_corrected_one() -> None:
    assert _verdict(bookings=[FIRST, BOOKING, FIRST]) == [True, True, True, True, False]


def test_without_any_booking_neither_is_met() -> None:
    assert _verdict(bookings=[]) == [True, True, True, False, False]


def test_each_shortcoming_fails_its_own_check() -> None:
    deaf = (*GOOD[:3], _turn(8.0, 8.5, is_barge_in=True, answer=""))
    polite = (*GOOD[:3], _turn(8.0, 8.5))
    assert _verdict(problem="nobody there") == [False, True, True, True, True]
    assert _verdict(turns=deaf) == [True, False, True, True, True]
    assert _verdict(turns=polite) == [True, True, False, True, True]
    assert _verdict(bookings=[{**FIRST, "time": "18:00"}, BOOKING]) == [True, True, True, False, True]
    assert _verdict(bookings=[FIRST, {**BOOKING, "people": 3}]) == [True, True, True, True, False]


def test_a_recording_that_knows_of_no_lines_has_those_that_silence_tells_apart() -> None:
    recording = _call(caller=[(1.0, 1.4), (1.8, 2.0), (5.0, 5.5)], agent=[(2.6, 4.0), (6.25, 7.0)])
    lines = heard_lines(recording)
    assert [(line.start, line.end) for line in lines] == [(1.0 * RATE, 2.0 * RATE), (5.0 * RATE, 5.5 * RATE)]
    assert gaps(recording, lines) == pytest.approx([0.6, 0.75], abs=0.011)


def test_a_click_is_no_line() -> None:
    assert heard_lines(_call(caller=[(1.0, 1.05), (3.0, 3.2)], agent=[])) == [LineSpan(3 * RATE, round(3.2 * RATE))]


def test_a_recording_without_a_caller_has_no_lines() -> None:
    assert heard_lines(_call(caller=[], agent=[(1.0, 2.0)])) == []


@pytest.mark.parametrize(
    ("silences", "waits", "latencies", "is_met"),
    [
        ([0.44, 0.46], [0.6, 0.9], [0.4, 0.5], [True, True]),
        ([0.44, 0.66], [0.6, 0.7], [0.4, 0.5], [False, True]),
        ([0.44, 0.44], [0.6, 0.7], [0.4, 0.5], [False, True]),
        ([0.44, 0.52], [0.6, 1.6], [0.4, 0.5], [True, False]),
        ([0.44, 0.52], [1.0, 1.1], [0.4, 0.5], [True, False]),
        ([0.44, 0.52], [0.6, 0.4], [0.4, 0.5], [True, False]),
        ([], [0.6], [0.4], [False, True]),
        ("the disk is full", [0.6], [0.4], [False, True]),
        ([0.4], [0.6], [0.4, 0.4], [False, False]),
        ([], [], [], [False, False]),
    ],
    ids=[
        "true",
        "longer than reported",
        "shorter than reported",
        "a room that takes too long",
        "sound that is played late in every turn",
        "heard before it was said",
        "no answer in the recording",
        "no recording",
        "unequal numbers",
        "nothing",
    ],
)
def test_reported_latencies_are_held_against_both_recordings(
    silences: list[float] | str, waits: list[float], latencies: list[float], is_met: list[bool]
) -> None:
    assert [check.is_met for check in check_latencies(silences, waits, latencies)] == is_met


def test_a_result_survives_its_way_through_json() -> None:
    result = CallResult(sample_rate=RATE, turns=GOOD, problem="none")
    assert CallResult.from_json(result.to_json()) == result
