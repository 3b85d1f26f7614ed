"""The caller's audio in order and without clicks, whatever the vendor's network does to it."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.agents.transports.media_stream.inbound import CONCEALED, LONGEST_GAP, Inbound
from vivavoce.agents.transports.media_stream.wire import Heard
from vivavoce.pipelines.media.frame import AudioFrame

HERTZ, AMPLITUDE = 300, 8000
WAVE = np.round(AMPLITUDE * np.sin(2 * np.pi * HERTZ * np.arange(80000) / 8000)).astype(np.int16)
STEP = 2 * np.pi * HERTZ / 16000 * AMPLITUDE
"""The largest step between two samples of the tone at 16 kHz."""


def pieces(count: int, *, timestamps: bool = True) -> list[Heard]:
    return [
        Heard(WAVE[at * 160 : (at + 1) * 160].tobytes(), at + 1, at * 20 + 5 if timestamps else None)
        for at in range(count)
    ]


def taken(heard: list[Heard], *, reorders: bool = False) -> npt.NDArray[np.int64]:
    frames = list[AudioFrame]()
    inbound = Inbound(8000, frames.append, reorders=reorders)
    for each in heard:
        inbound.push(each)
    inbound.flush()
    assert all(frame.samples == 320 and frame.sample_rate == 16000 for frame in frames)
    return np.concatenate([frame.to_numpy() for frame in frames]).astype(np.int64) if frames else np.zeros(0, np.int64)


WHOLE = taken(pieces(50))


def clicks(samples: npt.NDArray[np.int64]) -> int:
    return int((np.abs(np.diff(samples)) > 1.6 * STEP).sum())


def test_audio_without_a_fault_is_the_callers_own_at_twice_the_rate() -> None:
    assert len(WHOLE) == 50 * 320
    assert clicks(WHOLE) == 0
    assert np.abs(WHOLE[24::2][:7000] - WAVE[:7000]).max() <= 1  # delayed by less than 2 ms, and as it was


@pytest.mark.parametrize("missing", [1, 2, 3, 5, 10, 40])
@pytest.mark.parametrize("timestamps", [True, False])
def test_a_gap_keeps_its_length_and_does_not_click(missing: int, timestamps: bool) -> None:
    all_ = pieces(100, timestamps=timestamps)
    there = taken(all_[:20] + all_[20 + missing :])
    assert len(there) == 100 * 320
    assert clicks(there) == 0
    start, end = 20 * 320 + 30, (20 + missing) * 320
    concealed = min(end, start + round(CONCEALED * 16000))
    assert np.abs(there[start : (start + concealed) // 2]).max() > AMPLITUDE / 4  # it sounds on …
    assert np.abs(there[concealed + 30 : end]).max(initial=0) == 0  # … for 60 ms


def test_a_gap_that_only_the_timestamps_show_is_filled_too() -> None:
    first, rest = pieces(20), pieces(50)[22:]
    there = taken(first + [Heard(each.pcm, at + 21, each.timestamp) for at, each in enumerate(rest)])
    assert len(there) == 50 * 320
    assert clicks(there) == 0


def test_a_count_that_jumps_far_is_no_hour_of_silence() -> None:
    there = taken(pieces(10) + [Heard(each.pcm, each.chunk + 10**9, None) for each in pieces(10) if each.chunk])
    assert len(there) <= 20 * 320 + LONGEST_GAP * 16000


def test_a_count_that_begins_anew_goes_on() -> None:
    assert len(taken(pieces(100) + pieces(10))) >= 110 * 320


def test_timestamps_that_are_rounded_make_no_gap() -> None:
    noisy = [
        Heard(each.pcm, each.chunk, each.timestamp + random.Random(at).randint(-9, 9))
        for at, each in enumerate(pieces(50))
        if each.timestamp is not None
    ]
    assert np.array_equal(taken(noisy), WHOLE)


@given(st.randoms(use_true_random=False))
def test_messages_that_change_places_or_come_twice_are_put_in_order(chance: random.Random) -> None:
    order = pieces(50)
    for at in range(1, 46):
        if chance.random() < 0.2:
            to = at + chance.randint(1, 3)
            order.insert(to, order.pop(at))
    doubled = [each for piece in order for each in [piece] * chance.choice([1, 1, 1, 2])]
    there = taken(doubled, reorders=True)
    assert clicks(there) == 0
    assert abs(len(there) - len(WHOLE)) <= 320


def test_a_message_out_of_place_by_one_is_no_loss() -> None:
    order = pieces(50)
    order[10], order[11] = order[11], order[10]
    assert np.array_equal(taken(order, reorders=True), WHOLE)


def test_audio_without_a_count_comes_as_it_is() -> None:
    assert np.array_equal(taken([Heard(each.pcm) for each in pieces(50)]), WHOLE)


def test_pieces_of_any_length_become_frames() -> None:
    data = WAVE[:8000].tobytes()
    parts = [Heard(data[at : at + 214]) for at in range(0, len(data), 214)]
    assert np.array_equal(taken([*parts, Heard(b"")])[: len(WHOLE)], WHOLE)


def test_audio_of_16_khz_is_not_doubled() -> None:
    frames = list[AudioFrame]()
    inbound = Inbound(16000, frames.append)
    inbound.push(Heard(bytes(640)))
    assert [(frame.samples, frame.sample_rate) for frame in frames] == [(320, 16000)]
