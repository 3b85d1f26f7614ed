"""Gain: linear by the sample, for any size of pieces; redirected on its way without a step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.media.gain import Gain
from vivavoce.pipelines.media.mixer import mix


def taken(gain: Gain, *sizes: int) -> list[float]:
    return [float(value) for size in sizes for value in np.broadcast_to(gain.take(size), size)]


def test_a_gain_goes_linearly_and_stays() -> None:
    gain = Gain(0.0)
    gain.move_to(1.0, 4)
    assert taken(gain, 6) == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 1.0])
    assert gain.value == 1.0


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8))
def test_the_pieces_do_not_matter(sizes: list[int]) -> None:
    one, other = Gain(0.2), Gain(0.2)
    one.move_to(0.9, 100)
    other.move_to(0.9, 100)
    assert taken(one, *sizes) == pytest.approx(taken(other, sum(sizes)), abs=1e-5)


def test_a_gain_that_is_sent_elsewhere_on_its_way_makes_no_step() -> None:
    gain = Gain(0.0)
    gain.move_to(1.0, 10)
    gain.take(5)
    gain.move_to(0.0, 10)
    assert taken(gain, 3) == pytest.approx([0.45, 0.4, 0.35])
    gain.move_to(0.5, 0)
    assert gain.take(2) == 0.5


def test_a_sum_that_is_too_loud_is_clipped_and_not_wrapped() -> None:
    speech = np.array([32000, -32000, 100], np.int16).tobytes()
    background = np.array([2000.0, -2000.0, 0.4], np.float32)
    assert np.frombuffer(mix(speech, background), np.int16).tolist() == [32767, -32768, 100]
