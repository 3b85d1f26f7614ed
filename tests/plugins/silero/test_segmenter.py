"""Segmenter: probabilities to onsets and offsets, with hysteresis, shortest speech and silence, and corrected lags."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.vad.base import VADOptions
from vivavoce.plugins.silero.segmenter import Segmenter

WINDOW = 512


def segmenter(*, onset_lag: float = 0.0, offset_lag: float = 0.0, **options: float) -> Segmenter:
    return Segmenter(
        VADOptions(**options), window=WINDOW, sample_rate=16000, onset_lag=onset_lag, offset_lag=offset_lag
    )


def run(one: Segmenter, *probabilities: float) -> list[tuple[int, str, int]]:
    """Return (windows pushed, kind, window at which it happened)."""
    found = []
    for number, probability in enumerate(probabilities, start=1):
        if event := one.push(probability):
            found.append((number, event[0], event[1] // WINDOW))
    return found


def test_speech_starts_with_its_first_window_and_is_reported_when_it_is_long_enough() -> None:
    assert run(segmenter(min_speech=0.05), 0.1, 0.1, 0.9, 0.9) == [(4, "started", 2)]


def test_one_loud_window_is_no_speech() -> None:
    assert run(segmenter(min_speech=0.05), 0.1, 0.9, 0.1, 0.9, 0.1) == []


def test_speech_ends_with_its_last_window_and_is_reported_after_min_silence() -> None:
    found = run(segmenter(min_speech=0.03, min_silence=0.1), 0.9, 0.9, 0.1, 0.1, 0.1, 0.1)
    assert found == [(1, "started", 0), (3, "paused", 2), (6, "ended", 2)]


def test_a_probability_just_below_the_threshold_does_not_end_speech() -> None:
    assert run(segmenter(min_speech=0.03), 0.9, *[0.4] * 30) == [(1, "started", 0)]


def test_once_silent_only_the_threshold_brings_speech_back() -> None:
    found = run(segmenter(min_speech=0.03, min_silence=0.1), 0.9, 0.1, 0.4, 0.4, 0.4)
    assert found == [(1, "started", 0), (2, "paused", 1), (5, "ended", 1)]


def test_an_offset_is_moved_back_by_the_lag_and_reported_that_much_earlier() -> None:
    found = run(segmenter(min_speech=0.03, min_silence=0.1, offset_lag=0.032), 0.9, 0.9, 0.9, 0.1, 0.1, 0.1)
    assert found == [(1, "started", 0), (4, "paused", 2), (6, "ended", 2)]


def test_an_offset_is_never_moved_before_the_onset() -> None:
    found = run(segmenter(min_speech=0.03, min_silence=0.1, offset_lag=0.3), 0.1, 0.9, 0.1, 0.1, 0.1)
    assert found == [(2, "started", 1), (3, "paused", 1), (5, "ended", 1)]


def test_a_voice_that_comes_back_before_min_silence_is_over_is_resumed() -> None:
    found = run(segmenter(min_speech=0.03, min_silence=0.1), 0.9, 0.1, 0.9, 0.4, 0.1)
    assert found == [(1, "started", 0), (2, "paused", 1), (3, "resumed", 2), (5, "paused", 4)]


def test_a_shortest_silence_of_less_than_a_window_knows_no_pauses() -> None:
    found = run(segmenter(min_speech=0.03, min_silence=0.02), 0.9, 0.1, 0.9)
    assert found == [(1, "started", 0), (2, "ended", 1), (3, "started", 2)]


def test_a_pause_is_never_moved_before_the_voice_came_back() -> None:
    one = segmenter(min_speech=0.03, min_silence=0.2, onset_lag=0.0, offset_lag=0.064)
    assert run(one, *[0.9] * 5, *[0.1] * 4, 0.9, 0.1) == [
        (1, "started", 0),
        (6, "paused", 3),
        (10, "resumed", 9),
        (11, "paused", 9),
    ]


LAGS = st.floats(0, 0.1)


@given(st.lists(st.floats(0, 1), max_size=200), st.floats(0, 0.3), st.floats(0, 0.5), LAGS, LAGS)
def test_starts_pauses_and_ends_follow_each_other_and_never_go_back_in_time(
    probabilities: list[float], min_speech: float, min_silence: float, onset_lag: float, offset_lag: float
) -> None:
    one = segmenter(min_speech=min_speech, min_silence=min_silence, onset_lag=onset_lag, offset_lag=offset_lag)
    follows = {
        "started": {"paused", "ended"},
        "paused": {"resumed", "ended"},
        "resumed": {"paused", "ended"},
        "ended": {"started"},
    }
    last, wanted = 0, {"started"}
    for number, probability in enumerate(probabilities, start=1):
        if (event := one.push(probability)) is not None:
            kind, position = event
            assert kind in wanted
            assert last <= position <= number * WINDOW
            wanted = follows[kind]
            last = position
