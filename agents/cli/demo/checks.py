"""The checks of the demo's call, measured on the recordings of both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import Any

from vivavoce.agents.caller.answering_mind import Turn
from vivavoce.agents.caller.measuring import Check, gaps, silencing
from vivavoce.pipelines.media.frame import AudioFrame

MIN_ANSWERS = 4
MAX_SILENCING = 1.0
"""Seconds from the onset of the barge-in until the agent is silent."""
LATENCY_RANGE = (-0.05, 0.15)
"""Seconds by which a silence in the agent's own recording may exceed its `e2e_latency`: a VAD and a level see different
ends of a voice. Both use the agent's own times of playing; the caller's recording checks those.
"""
ROOM_RANGE = (0.0, 1.0)
"""Seconds that the caller may wait longer than the agent's `e2e_latency`: the room, both ways. It takes 0.13 s on a
quiet machine. On a busy one packets come late, and the jitter buffers of both sides keep the length that they grow to.
"""
ROOM_LEAST = 0.5
"""Limit in seconds of the shortest such delay: if every turn takes longer, the cause is not jitter; sound is played
late.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """The result of the caller's process.

    Args:
        problem: Why the call failed; empty if it hung up as planned.
    """

    sample_rate: int
    turns: tuple[Turn, ...]
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CallResult:
        """Return the result from the data of `to_json`."""
        return cls(**{**data, "turns": tuple(Turn(**turn) for turn in data["turns"])})


def check_call(
    result: CallResult,
    recording: AudioFrame,
    bookings: Sequence[Mapping[str, Any]],
    wanted: tuple[Mapping[str, Any], Mapping[str, Any]],
) -> list[Check]:
    """Return the checks of the call: answers heard, the agent cut, a table booked and then corrected.

    Args:
        bookings: The bookings that the agent's tool stored, oldest first; the last one counts.
        wanted: The caller's first wish, and the corrected one.
    """
    first, corrected = wanted
    heard = [
        gap is not None and bool(turn.answer)
        for gap, turn in zip(gaps(recording, result.turns), result.turns, strict=True)
    ]
    cut = next((turn for turn in result.turns if turn.is_barge_in), None)
    silence = None if cut is None else silencing(recording, cut)
    return [
        Check("call went as planned", not result.problem, result.problem or "yes"),
        Check(f"answers heard ≥ {MIN_ANSWERS}", sum(heard) >= MIN_ANSWERS, f"{sum(heard)} of {len(heard)}"),
        Check(
            f"agent silent ≤ {MAX_SILENCING:g} s after the barge-in began",
            silence is not None and silence <= MAX_SILENCING,
            "no barge-in" if cut is None else "nothing to silence" if silence is None else f"{silence:.2f} s",
        ),
        Check("table booked as first asked for", first in bookings[:-1], _bookings(bookings[:-1])),
        Check("corrected table booked", [*bookings[-1:]] == [corrected], _bookings(bookings[-1:])),
    ]


def check_latencies(silences: Sequence[float] | str, waits: Sequence[float], latencies: Sequence[float]) -> list[Check]:
    """Return the checks of the agent's reported latencies: against its own recording and, apart from the room, the
    caller's.

    Args:
        silences: For each answered turn, the gap in the agent's own recording; or why there are none.
        waits: For the same turns, the gap in the caller's.
        latencies: For the same turns, the agent's `e2e_latency`.
    """
    low, high = LATENCY_RANGE
    own = _check_excess(
        f"agent's own recording − reported latency in {low:g} … {high:g} s", silences, latencies, low, high
    )
    low, high = ROOM_RANGE
    name = f"heard wait − reported latency (the room) in {low:g} … {high:g} s, at best ≤ {ROOM_LEAST:g} s"
    return [own, _check_excess(name, waits, latencies, low, high, least=ROOM_LEAST)]


def _check_excess(
    name: str,
    seconds: Sequence[float] | str,
    latencies: Sequence[float],
    low: float,
    high: float,
    *,
    least: float = inf,
) -> Check:
    """Return a check that each time exceeds its latency by `low` to `high`, and one of them by no more than `least`."""
    if isinstance(seconds, str):
        return Check(name, False, seconds)
    if len(seconds) != len(latencies) or not seconds:
        return Check(name, False, f"{len(seconds)} answers found, {len(latencies)} reported")
    excess = [each - latency for each, latency in zip(seconds, latencies, strict=True)]
    is_met = low <= min(excess) <= least and max(excess) <= high
    return Check(name, is_met, f"{min(excess):.2f} … {max(excess):.2f} s")


def _bookings(bookings: Sequence[Mapping[str, Any]]) -> str:
    """Return bookings as text."""
    if not bookings:
        return "nothing booked"
    return " and ".join(", ".join(str(value) for value in booking.values()) for booking in bookings)
