"""Samples that hold their position: a test reads from them, to the sample, which part of a speech was heard."""

from __future__ import annotations

from array import array
from functools import lru_cache

from vivavoce.pipelines.media.frame import FRAME_SECONDS, AudioFrame

_LOW = 16000
_OFFSET = 1000
"""A pair of samples holds its number: the first sample, positive, the lower part, the second, negative, the upper."""
_SHORTEST = 20
"""Samples of a run; faded ones may look like a shorter one."""


def position_chunks(
    seconds: float, sample_rate: int, chunk: float = FRAME_SECONDS, *, start: float = 0.0
) -> list[AudioFrame]:
    """Return `seconds` of speech from `start` on in pieces of `chunk` seconds; no sample is silent."""
    count, size, first = round(seconds * sample_rate), round(chunk * sample_rate), round(start * sample_rate)
    data = _ramp(first + count)[2 * first :]
    return [AudioFrame(data[2 * start : 2 * min(start + size, count)], sample_rate) for start in range(0, count, size)]


def positions(samples: bytes) -> list[tuple[int, int]]:
    """Return the runs of unbroken speech in `samples` as (position of the first sample, number of samples).

    Faded samples hold no position and are in no run, nor is silence.

    Args:
        samples: Mono PCM, 16-bit, of one or more syntheses with `tells_position`, not resampled.
    """
    values = array("h")
    values.frombytes(samples)
    found: list[tuple[int, int]] = []
    expected = -1
    for place in range(len(values)):
        position = _position(values, place)
        if position is None:
            expected = -1
        elif position == expected:
            found[-1] = (found[-1][0], found[-1][1] + 1)
            expected += 1
        else:
            found.append((position, 1))
            expected = position + 1
    return [run for run in found if run[1] >= _SHORTEST]


def _position(values: array[int], place: int) -> int | None:
    """Return the position of a sample, with the other one of its pair; a pair may be cut on either side."""
    value = values[place]
    if value >= _OFFSET:
        number = _number(values, place)
        before = _number(values, place - 2)
        if number is None and before is not None and value - _OFFSET == (before + 1) % _LOW:
            number = before + 1
        return None if number is None else 2 * number
    if value > -_OFFSET:
        return None
    number = _number(values, place - 1)
    after = _number(values, place + 1)
    if number is None and after is not None:
        number = after - 1
    return None if number is None else 2 * number + 1


def _number(values: array[int], place: int) -> int | None:
    """Return the number of the pair that begins there, if one does."""
    if not 0 <= place < len(values) - 1 or values[place] < _OFFSET or values[place + 1] > -_OFFSET:
        return None
    return (-values[place + 1] - _OFFSET) * _LOW + values[place] - _OFFSET


@lru_cache(maxsize=16)
def _ramp(count: int) -> bytes:
    pairs = range(count // 2 + 1)
    values = array("h", (value for pair in pairs for value in (_OFFSET + pair % _LOW, -_OFFSET - pair // _LOW)))
    return values[:count].tobytes()
