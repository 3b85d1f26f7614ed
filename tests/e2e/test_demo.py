"""`vivavoce demo`, whole: the call with --once, its report and its page, judged by what holds for each call.

So it holds also where caller or agent misheard a word. That the booking is the planned one, and the times of the sound,
are judged in `test_demo_measured.py`.
"""

from __future__ import annotations

import pytest

from kit.e2e.demo_run import Ran

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


def test_the_call_ends_with_its_checks_and_the_status_is_their_verdict(on_embedded: Ran) -> None:
    assert len(on_embedded.checks) == 7, on_embedded.output
    assert on_embedded.status == int("✗" in on_embedded.output)
    assert "Traceback" not in on_embedded.output


def test_the_report_has_every_field_of_version_1(on_embedded: Ran) -> None:
    report = on_embedded.report
    assert report["version"] == 1
    assert isinstance(report["started_at"], float)
    assert report["room"].startswith("demo_")
    assert {"turns", "states", "usage", "close"} <= report.keys()
    for turn in report["turns"]:
        fields = {"turn_id", "user_text", "agent_text", "heard_text", "outcome", "interrupted", "e2e_latency"}
        assert fields | {"stages", "tools"} <= turn.keys()
        assert all({"name", "owner", "seconds"} == stage.keys() for stage in turn["stages"])
        tool_fields = {"name", "arguments", "output", "is_error", "seconds"}
        assert all(tool_fields <= tool.keys() for tool in turn["tools"])
    assert {state["who"] for state in report["states"]} == {"user", "agent"}
    times = [state["at"] for state in report["states"]]
    assert all(-0.5 < at < 3600 for at in times)  # since the start; the time of day is a larger number
    assert report["close"]["reason"] == "participant_left"
    assert not [step for step in report["close"]["steps"] if step["error"]]


def test_the_words_of_a_turn_that_was_cut_are_those_that_were_heard(on_embedded: Ran) -> None:
    for cut in (turn for turn in on_embedded.report["turns"] if turn["interrupted"]):
        assert cut["outcome"] == "interrupted"
        assert cut["agent_text"].startswith(cut["heard_text"])
        assert len(cut["heard_text"]) < len(cut["agent_text"])


def test_stages_sum_to_the_latency_of_every_answered_turn(on_embedded: Ran) -> None:
    answered = [turn for turn in on_embedded.report["turns"] if turn["e2e_latency"] is not None]
    assert answered
    for turn in answered:
        assert sum(stage["seconds"] for stage in turn["stages"]) == pytest.approx(turn["e2e_latency"], abs=1e-3)
        assert all(stage["seconds"] >= 0 for stage in turn["stages"])


def test_the_summary_names_turns_checks_and_files(on_embedded: Ran) -> None:
    for text in ("caller said", "heard after", "median latency", "call.wav", "session.wav", "report.json", "call.html"):
        assert text in on_embedded.output
