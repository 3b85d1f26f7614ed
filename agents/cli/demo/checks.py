"""Owns what a call must have been like, measured on the caller's own recording, and the measuring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from vivavoce.pipelines.media.frame import AudioFrame

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MIN_ANSWERS = 4
MAX_SILENCING = 1.0
"""Seconds from the onset of the barge-in until the agent is silent."""
GAP_RANGE = (0.0, 0.30)
"""Seconds that the caller may wait longer than the agent's own `e2e_latency`: the room, both ways."""
GAP_SPREAD = 0.15
"""Seconds by which that may differ within a call."""

_WINDOW = 0.01
_AUDIBLE = 0.01
"""RMS, of full scale, from which a window of synthetic speech is sound (-40 dB)."""
_QUIET = 0.3
"""Seconds without sound that are silence, not a pause between words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerTurn:
    """A line of the caller on its own recording.

    Args:
        start, end: Samples of the recording between which the line was played out, its silent edges included.
        answer: What the caller understood afterwards.
    """

    line: str
    start: int
    end: int
    is_barge_in: bool
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """What the caller brings home.

    Args:
        problem: Why the call failed; empty when it hung up as planned.
    """

    sample_rate: int
    turns: tuple[CallerTurn, ...]
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CallResult:
        """Return what `to_json` was called on."""
        return cls(**{**data, "turns": tuple(CallerTurn(**turn) for turn in data["turns"])})


@dataclass(frozen=True, slots=True)
class Check:
    """One requirement and what was measured."""

    name: str
    is_met: bool
    found: str


def gaps(recording: AudioFrame, turns: Sequence[CallerTurn]) -> list[float | None]:
    """Return for each turn the seconds from the caller's last sound to the agent's first one after it.

    None where the agent stays silent until the caller's next turn. What the agent still says when a barge-in ends is
    not an answer: only sound after a silence counts.
    """
    caller, agent = (_audible(channel, recording.sample_rate) for channel in _channels(recording))
    found: list[float | None] = []
    for index, turn in enumerate(turns):
        own = _between(caller, turn.start, turn.end, recording.sample_rate)
        after = turns[index + 1].start if index + 1 < len(turns) else recording.samples
        last = own[-1] + 1 if len(own) else None
        first = None if last is None else _first_after(agent, last, round(after / recording.sample_rate / _WINDOW))
        found.append(None if last is None or first is None else round(float(first - last) * _WINDOW, 2))
    return found


def silencing(recording: AudioFrame, turns: Sequence[CallerTurn]) -> float | None:
    """Return the seconds from the onset of the barge-in until the agent is silent; None without a barge-in.

    Infinite when the agent was not even speaking, so that nothing was cut.
    """
    barge_in = next((turn for turn in turns if turn.is_barge_in), None)
    if barge_in is None:
        return None
    caller, agent = (_audible(channel, recording.sample_rate) for channel in _channels(recording))
    own = _between(caller, barge_in.start, barge_in.end, recording.sample_rate)
    if not len(own) or not agent[max(0, own[0] - round(_QUIET / _WINDOW)) : own[0] + 1].any():
        return float("inf")
    silent_from = own[0]
    for window in range(own[0], len(agent)):
        if agent[window]:
            silent_from = window + 1
        elif window - silent_from >= _QUIET / _WINDOW:
            break
    return round(float(silent_from - own[0]) * _WINDOW, 2)


def check_call(
    result: CallResult, recording: AudioFrame, booking: Mapping[str, Any] | None, wanted: Mapping[str, Any]
) -> list[Check]:
    """Return whether the call was as it must be: answers heard, the agent cut, the corrected table booked."""
    heard = [
        gap is not None and bool(turn.answer)
        for gap, turn in zip(gaps(recording, result.turns), result.turns, strict=True)
    ]
    silence = silencing(recording, result.turns)
    return [
        Check("call went as planned", not result.problem, result.problem or "yes"),
        Check(f"answers heard ≥ {MIN_ANSWERS}", sum(heard) >= MIN_ANSWERS, f"{sum(heard)} of {len(heard)}"),
        Check(
            f"agent silent ≤ {MAX_SILENCING:g} s after the barge-in began",
            silence is not None and silence <= MAX_SILENCING,
            "no barge-in" if silence is None else f"{silence:.2f} s",
        ),
        Check("corrected table booked", booking is not None and dict(booking) == dict(wanted), _booking(booking)),
    ]


def check_latencies(waits: Sequence[float], latencies: Sequence[float]) -> Check:
    """Return whether the latencies that the agent reports are the silences that the caller heard, but for the room.

    Args:
        waits: For each answered turn, the gap in the recording.
        latencies: For the same turns, the agent's `e2e_latency`.
    """
    low, high = GAP_RANGE
    name = f"heard wait − reported latency in {low:g} … {high:g} s, apart by ≤ {GAP_SPREAD:g} s"
    if len(waits) != len(latencies) or not waits:
        return Check(name, False, f"{len(waits)} answers heard, {len(latencies)} reported")
    apart = [wait - latency for wait, latency in zip(waits, latencies, strict=True)]
    is_met = all(low <= a <= high for a in apart) and max(apart) - min(apart) <= GAP_SPREAD
    return Check(name, is_met, f"{min(apart):.2f} … {max(apart):.2f} s")


def _booking(booking: Mapping[str, Any] | None) -> str:
    return "nothing booked" if booking is None else ", ".join(str(value) for value in booking.values())


def _channels(recording: AudioFrame) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int16]]:
    if recording.num_channels != 2:
        raise ValueError(f"needed a stereo recording (caller left, agent right), got {recording.num_channels} channel")
    both = recording.to_numpy()
    return both[:, 0], both[:, 1]


def _audible(samples: npt.NDArray[np.int16], sample_rate: int) -> npt.NDArray[np.bool_]:
    """Return for each window of 10 ms whether it holds sound."""
    import numpy as np

    size = round(sample_rate * _WINDOW)
    whole = samples[: len(samples) // size * size].astype(np.float32).reshape(-1, size) / 32768
    return np.asarray(np.sqrt(np.mean(np.square(whole), axis=1)) >= _AUDIBLE)


def _between(audible: npt.NDArray[np.bool_], start: int, end: int, sample_rate: int) -> npt.NDArray[np.intp]:
    """Return the windows with sound between two samples."""
    import numpy as np

    first, last = (round(position / sample_rate / _WINDOW) for position in (start, end))
    return np.flatnonzero(audible[first:last]) + first


def _first_after(audible: npt.NDArray[np.bool_], start: int, end: int) -> int | None:
    """Return the first window with sound from `start` on, what still sounds at `start` left out."""
    window = start
    quiet = round(_QUIET / _WINDOW)
    if audible[max(0, start - quiet) : start].any():  # the agent was still speaking: wait for it to be silent
        silent = 0
        while window < end and silent < quiet:
            silent = 0 if audible[window] else silent + 1
            window += 1
    while window < end:
        if audible[window]:
            return window
        window += 1
    return None
