"""Owns what the demo's call must have been like, measured on the caller's own recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vivavoce.agents.cli.caller.measuring import Check, gaps, silencing
from vivavoce.pipelines.media.frame import AudioFrame

MIN_ANSWERS = 4
MAX_SILENCING = 1.0
"""Seconds from the onset of the barge-in until the agent is silent."""
GAP_RANGE = (0.0, 0.30)
"""Seconds that the caller may wait longer than the agent's own `e2e_latency`: the room, both ways."""
GAP_SPREAD = 0.15
"""Seconds by which that may differ within a call."""


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


def check_call(
    result: CallResult, recording: AudioFrame, booking: Mapping[str, Any] | None, wanted: Mapping[str, Any]
) -> list[Check]:
    """Return whether the call was as it must be: answers heard, the agent cut, the corrected table booked."""
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
