"""Percentiles: one way for pages, commands and checks."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that `share` % of them, 0 … 100, do not exceed; there must be one.

    Between two values it is interpolated linearly, as NumPy and R do by default; the 50th is the median, of
    an even number the mean of the middle two. Source: Hyndman and Fan 1996, definition 7.
    """
    ordered = sorted(values)
    place = share / 100 * (len(ordered) - 1)
    below = math.floor(place)
    lower, upper = ordered[below], ordered[math.ceil(place)]
    return lower + (place - below) * (upper - lower)
