"""`vivavoce demo` as it is planned, on both servers: the booking, the barge-in, and times measured in the sound.

In `make test-all` alone, and there beside no other test.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kit.e2e.demo_run import Ran, run_demo
from vivavoce.agents.cli.demo.checks import LATENCY_RANGE, MAX_SILENCING, MIN_ANSWERS, ROOM_LEAST, ROOM_RANGE
from vivavoce.pipelines.media.wav import read_wav

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(180),
    pytest.mark.test_all("a recogniser may mishear a word, and the sound of a real call comes late on a busy machine"),
]


@pytest.fixture(params=["on_embedded", "on_livekit"])
def ran(request: pytest.FixtureRequest) -> Ran:
    """The demo on both servers, run once each for all tests."""
    done: Ran = request.getfixturevalue(request.param)
    return done


def test_the_call_succeeds_and_says_so(ran: Ran) -> None:
    assert ran.status == 0, ran.output
    assert "✗" not in ran.output


def test_a_table_is_booked_and_then_corrected_by_tool_calls(ran: Ran) -> None:
    assert ran.report["booking"] == {"day": "friday", "time": "20:00", "people": 5}
    calls = [tool for turn in ran.report["turns"] for tool in turn["tools"]]
    times = [json.loads(call["arguments"])["time"] for call in calls]
    assert times[-1] == "20:00"
    assert "19:00" in times[:-1]  # a line that was misheard is said again, and then there are more than two
    assert not any(call["is_error"] for call in calls)


def test_the_barge_in_cuts_a_turn(ran: Ran) -> None:
    assert any(turn["heard_text"] for turn in ran.report["turns"] if turn["interrupted"])


@pytest.mark.parametrize("name", ["session.wav", "call.wav"], ids=["agent", "caller"])
def test_the_recordings_of_both_sides_hold_the_lines_and_their_answers(ran: Ran, name: str) -> None:
    assert len(_waits(ran.folder / name)) >= MIN_ANSWERS


@pytest.mark.parametrize(
    ("name", "limits"), [("session.wav", LATENCY_RANGE), ("call.wav", ROOM_RANGE)], ids=["agent", "caller"]
)
def test_the_recordings_of_both_sides_show_what_the_report_says(
    ran: Ran, name: str, limits: tuple[float, float]
) -> None:
    """The gaps are measured again here, from the sound alone: a third opinion beside caller and agent."""
    waits = _waits(ran.folder / name)
    latencies = [turn["e2e_latency"] for turn in ran.report["turns"] if turn["e2e_latency"] is not None]
    assert len(waits) == len(latencies)
    excess = [wait - latency for wait, latency in zip(waits, latencies, strict=True)]
    assert min(excess) >= limits[0], excess
    assert max(excess) <= limits[1], excess
    assert min(excess) <= ROOM_LEAST, excess


def test_the_agent_is_silent_soon_after_the_barge_in_began(ran: Ran) -> None:
    caller, agent = _sounds(ran.wav)
    overlaps = [(start, stop) for start, _ in caller for began, stop in agent if began < start < stop]
    assert overlaps
    for onset, silent in overlaps:
        assert silent - onset <= MAX_SILENCING


def test_the_parts_of_a_grammar_take_the_same_call(tmp_path: Path) -> None:
    ran = run_demo(tmp_path, "--port", "0", "--voice", "espeak", "--ears", "pocketsphinx")
    assert ran.status == 0, ran.output
    assert ran.report["booking"] == {"day": "friday", "time": "20:00", "people": 4}


def test_on_a_given_server_the_agent_has_a_name_of_its_own(on_livekit: Ran) -> None:
    assert "registered as vivavoce_demo_" in on_livekit.output
    assert "devsecret" not in on_livekit.output


def _waits(wav: Path) -> list[float]:
    """Return the seconds from the end of each line of the caller to its answer, if one comes before the next line."""
    caller, agent = _sounds(wav)
    ends = [end for _, end in caller]
    until = [*(start for start, _ in caller[1:]), float("inf")]  # a line that is not understood is said again
    found = [[a - end for a, _ in agent if end < a < after] for end, after in zip(ends, until, strict=True)]
    return [answers[0] for answers in found if answers]


def _sounds(wav: Path) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return when caller (left) and agent (right) sound: spans in seconds, cut at 0.5 s and 0.35 s of silence."""
    recording = read_wav(wav)
    sides = recording.to_numpy()
    size = recording.sample_rate // 200
    spans: list[list[tuple[float, float]]] = []
    for side, pause in ((sides[:, 0], 100), (sides[:, 1], 70)):
        squares = np.square(side[: len(side) // size * size].reshape(-1, size).astype(np.float64))
        windows = np.flatnonzero(
            np.sqrt(squares.mean(axis=1)) > 328
        )  # -40 dB; a peak as faint may be noise behind a word
        cuts = np.flatnonzero(np.diff(windows) > pause) + 1
        spans.append([(group[0] / 200, (group[-1] + 1) / 200) for group in np.split(windows, cuts) if len(group)])
    return spans[0], spans[1]
