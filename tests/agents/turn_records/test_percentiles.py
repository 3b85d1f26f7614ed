"""Percentiles as in NumPy: the median of six values is the mean of the middle two."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.agents.turn_records.percentiles import percentile


def test_the_median_of_an_even_number_is_the_mean_of_the_middle_two() -> None:
    assert percentile([533, 429, 425, 412, 471, 460], 50) == (429 + 460) / 2


def test_the_median_of_an_odd_number_is_the_middle_one() -> None:
    assert percentile([0.3, 0.1, 0.2], 50) == 0.2


def test_the_ends_are_the_least_and_the_most() -> None:
    assert [percentile([0.4, 0.1, 0.2], share) for share in (0, 100)] == [0.1, 0.4]
    assert percentile([0.7], 95) == 0.7


@given(
    values=st.lists(st.floats(0, 1e3, allow_subnormal=False), min_size=1, max_size=50),
    share=st.floats(0, 100, allow_subnormal=False),
)
def test_percentiles_are_those_of_numpy(values: list[float], share: float) -> None:
    assert percentile(values, share) == pytest.approx(float(np.percentile(values, share)), rel=1e-9, abs=1e-9)
