"""The verdict on a scripted call: its recording and the heard words, compared with the script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from vivavoce.agents.caller.script import CallScript
from vivavoce.agents.caller.verdict import CallReport, judge, summary
from vivavoce.pipelines.media.frame import AudioFrame

RATE = 16_000
Span = tuple[float, float]


def side(spans: Sequence[Span], seconds: float) -> np.ndarray[Any, Any]:
    samples = np.zeros(round(seconds * RATE), dtype=np.int16)
    for start, end in spans:
        index = np.arange(round(start * RATE), round(end * RATE))
        samples[index] = (8000 * np.sin(2 * np.pi * 300 * index / RATE)).astype(np.int16)
    return samples


def report(
    steps: list[dict[str, Any]],
    caller: list[Span],
    agent: list[Span],
    heard: Sequence[str] = (),
    *,
    seconds: float = 12.0,
    problem: str = "",
    left: float | None = None,
    **script: Any,
) -> CallReport:
    both = np.stack([side(caller, seconds), side(agent, seconds)], axis=1)
    lines = [
        {"start": round(start * RATE), "end": round(end * RATE), "heard": heard[at] if at < len(heard) else ""}
        for at, (start, end) in enumerate(caller)
    ]
    left_at = None if left is None else round(left * RATE)
    result = {"lines": lines, "greeting": "hello there", "samples": round(seconds * RATE), "problem": problem}
    result |= {"left_at": left_at, "ended_by": "caller" if left is None else "agent"}
    ears = {"words": "transcription"}
    whole = CallScript.model_validate({"steps": steps, "ears": ears, **script})
    return judge(whole, result, AudioFrame(both.tobytes(), RATE, num_channels=2), "room", "call.wav")


def verdicts(found: CallReport) -> list[bool]:
    return [check.is_met for line in found.lines for check in line.checks]


def test_an_answer_in_time_passes_and_a_late_one_fails() -> None:
    steps = [{"say": "one", "expect": {"within": 1.0}}]
    in_time = report(steps, [(2.0, 3.0)], [(0.5, 1.0), (3.8, 5.0)])
    late = report(steps, [(2.0, 3.0)], [(0.5, 1.0), (4.2, 5.0)])
    none = report(steps, [(2.0, 3.0)], [(0.5, 1.0)])
    assert [verdicts(each) for each in (in_time, late, none)] == [[True], [False], [False]]
    assert in_time.lines[1].latency == pytest.approx(0.8, abs=0.02)
    assert in_time.has_passed
    assert late.failures == ["one: answers within 1 s: 1.20 s"]


@pytest.mark.parametrize(
    ("heard", "is_met"), [("At eight.", True), ("Friday at 8", True), ("at 8:00 p.m.", True), ("at nine", False)]
)
def test_words_may_be_one_of_several(heard: str, is_met: bool) -> None:
    steps = [{"say": "one", "expect": {"words": "at eight|at 8", "not_words": "ten|10"}}]
    assert verdicts(report(steps, [(2.0, 3.0)], [(3.5, 4.0)], [heard])) == [is_met, True]
    steps = [{"say": "one", "expect": {"not_words": "eight|8"}}]
    assert verdicts(report(steps, [(2.0, 3.0)], [(3.5, 4.0)], [heard])) == [not is_met]


def test_words_are_found_whatever_their_case_and_punctuation_and_only_side_by_side() -> None:
    expect = {"words": ["what time", "i'd like"], "not_words": ["seven"]}
    found = report([{"say": "one", "expect": expect}], [(2.0, 3.0)], [(4.0, 5.0)], ["At What? Time; I'd like sevens"])
    assert verdicts(found) == [True, True, True]
    other = report([{"say": "one", "expect": expect}], [(2.0, 3.0)], [(4.0, 5.0)], ["what is the time: seven"])
    assert verdicts(other) == [False, False, False]


def test_an_agent_that_stops_passes_and_one_that_goes_on_fails() -> None:
    steps = [{"say": "stop", "barge_in_after": 0.5, "expect": {"silent_within": 1.0}}]
    stops = report(steps, [(2.0, 3.0)], [(1.0, 2.6), (4.0, 5.0)])
    goes_on = report(steps, [(2.0, 3.0)], [(1.0, 6.0)])
    between_sentences = report(steps, [(2.0, 3.0)], [(1.0, 2.1), (2.6, 6.0)])
    at_a_comma = report(steps, [(2.0, 3.0)], [(1.0, 2.9), (3.2, 6.0)])
    silent_already = report(steps, [(2.0, 3.0)], [(0.2, 1.0)])
    cases = (stops, goes_on, between_sentences, at_a_comma, silent_already)
    assert [verdicts(each) for each in cases] == [[True], [False], [False], [False], [False]]
    assert stops.lines[1].silenced == pytest.approx(0.6, abs=0.02)


def test_an_agent_that_answers_an_interruption_at_once_was_silent_before() -> None:
    steps = [{"say": "stop", "barge_in_after": 0.5, "expect": {"silent_within": 1.5}}]
    (_, line) = report(steps, [(2.0, 3.0)], [(1.0, 3.1), (3.37, 5.0)]).lines
    assert line.silenced == pytest.approx(1.1, abs=0.02)
    assert line.latency == pytest.approx(0.37, abs=0.02)


def test_silence_that_was_broken_fails() -> None:
    steps = [{"say": "hold on", "expect": {"silent_for": 2.0}}]
    kept = report(steps, [(2.0, 3.0)], [(0.5, 1.0)], seconds=5.0)
    broken = report(steps, [(2.0, 3.0)], [(0.5, 1.0), (4.0, 4.5)], seconds=5.0)
    assert (verdicts(kept), verdicts(broken)) == ([True], [False])


def test_the_greeting_is_judged_like_an_answer() -> None:
    expect = {"words": ["hello"], "within": 1.0}
    found = report([{"say": "one"}], [(2.0, 3.0)], [(1.5, 1.8), (4.0, 5.0)], greeting_expect=expect)
    assert verdicts(found) == [True, False]


def test_a_call_that_came_to_an_early_end_fails_though_every_check_is_met() -> None:
    found = report([{"say": "one"}], [(2.0, 3.0)], [(4.0, 5.0)], problem="the agent left")
    assert not found.has_passed
    assert found.failures == ["the agent left"]


def test_the_summary_counts_calls_and_spreads_latencies() -> None:
    steps = [{"say": "one", "expect": {"within": 1.0}}]
    calls = [report(steps, [(2.0, 3.0)], [(0.5, 1.0), (3.0 + wait, 8.0)]) for wait in (0.5, 0.8, 1.5)]
    data = summary(calls)
    assert (data["passed"], data["calls_placed"], data["calls_passed"]) == (False, 3, 2)
    assert data["latency"]["median"] == pytest.approx(0.8, abs=0.02)
    assert data["latency"]["max"] == pytest.approx(1.5, abs=0.02)
    assert data["calls"][2]["passed"] is False
    assert summary([])["passed"] is False


def test_an_agent_that_leaves_in_time_passes_and_one_that_stays_or_is_late_fails() -> None:
    steps = [{"say": "goodbye", "expect": {"leaves_within": 4}}]
    found = [report(steps, [(2.0, 3.0)], [(3.5, 4.0)], left=left) for left in (5.0, 8.0, None)]
    assert [verdicts(each) for each in found] == [[True], [False], [False]]
    assert [each.ended_by for each in found] == ["agent", "agent", "caller"]
    assert [line for each in found for line in each.failures] == [
        "goodbye: leaves within 4 s: 5.00 s",
        "goodbye: leaves within 4 s: it stayed",
    ]
    assert found[0].to_json()["ended_by"] == "agent"


def test_lines_that_an_agent_may_spare_itself_by_leaving_are_not_missed() -> None:
    steps = [{"say": "one", "expect": {"may_leave": True}}, {"say": "two", "expect": {"within": 1}}]
    found = report(steps, [(2.0, 3.0)], [(3.5, 4.0)], left=4.5)
    assert found.has_passed
    assert [line.line for line in found.lines] == ["(greeting)", "one"]
