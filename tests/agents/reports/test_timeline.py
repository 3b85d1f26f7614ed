"""The timeline on a record whose drawing is known: a cut, audio that was never heard, two tools."""

from __future__ import annotations

import pytest

from vivavoce.agents.records import InterruptionRecord, SessionReport, ToolRecord, TurnRecord
from vivavoce.agents.reports.markup import Element
from vivavoce.agents.reports.timeline import MIN_WIDTH, timeline

SECONDS = 19.5
PIXELS = MIN_WIDTH / 20.0
"""Pixels of a second: the page adds half a second to the call."""

CUT = InterruptionRecord(by="voice", decision="interrupted", candidate_at=6.0, decided_at=6.3, stopped_at=6.5)
PAUSED = InterruptionRecord(by="voice", decision="resumed", candidate_at=14.0, paused_at=14.2, decided_at=15.0)
TOOLS = (
    ToolRecord(name="look_up", arguments="{}", output="", is_error=True, seconds=0.5, started_at=2.0),
    ToolRecord(name="book", arguments="{}", output="booked", is_error=False, seconds=1.0, started_at=2.5),
)


def _report(**changes: object) -> SessionReport:
    """A turn with two tools whose answer was cut after 2.5 of 5.5 seconds, and one whose answer was paused."""
    cut: dict[str, object] = {
        "turn_id": "t1",
        "outcome": "interrupted",
        "interrupted": True,
        "e2e_latency": 3.0,
        "started_at": 1.0,
        "ended_at": 6.5,
        "first_audio_at": 4.0,
        "played_seconds": 2.5,
        "generated_seconds": 5.5,
        "interruptions": (CUT,),
        "tools": TOOLS,
    }
    whole = TurnRecord(
        turn_id="t2",
        outcome="completed",
        interrupted=False,
        e2e_latency=None,
        started_at=12.0,
        ended_at=18.0,
        first_audio_at=12.5,
        played_seconds=4.0,
        generated_seconds=4.0,
        interruptions=(PAUSED,),
    )
    turn = TurnRecord(**{**cut, **changes})  # type: ignore[arg-type]
    return SessionReport(session_id="s", started_at=0.0, seconds=SECONDS, turns=(turn, whole))


def _drawn(report: SessionReport, kind: str) -> list[Element]:
    """The elements of a class."""
    return [each for each in timeline(report, None).iter() if each.get("class") == kind]


def _span(rect: Element) -> tuple[float, float]:
    """Beginning and length of a rectangle, in seconds."""
    return float(rect.attrib["x"]) / PIXELS, float(rect.attrib["width"]) / PIXELS


def test_audio_that_was_made_and_never_heard_is_drawn_from_the_cut_on() -> None:
    (lost,) = _drawn(_report(), "lost")
    assert _span(lost) == pytest.approx((6.5, 3.0), abs=0.01)
    assert "".join(lost.itertext()) == "3.0 s were made and never heard"


def test_audio_that_was_never_heard_ends_where_the_next_answer_begins() -> None:
    (lost,) = _drawn(_report(generated_seconds=60.0), "lost")
    assert _span(lost) == pytest.approx((6.5, 6.0), abs=0.01)


@pytest.mark.parametrize(
    "changes",
    [{"generated_seconds": 2.5}, {"interruptions": ()}, {"outcome": "completed"}],
    ids=["all was heard", "no cut", "completed"],
)
def test_an_answer_that_lost_nothing_by_a_cut_has_no_lost_audio(changes: dict[str, object]) -> None:
    assert _drawn(_report(**changes), "lost") == []


def test_a_cut_and_a_pause_are_bands_from_the_caller_s_onset_to_the_silence() -> None:
    (cut,), (paused,) = _drawn(_report(), "interruption cut"), _drawn(_report(), "interruption false")
    assert _span(cut[1]) == pytest.approx((6.0, 0.5), abs=0.01)
    assert "".join(cut.itertext()) == "interrupted (by voice), silent 500 ms after it began"
    assert _span(paused[1]) == pytest.approx((14.0, 1.0), abs=0.01)
    assert "".join(paused.itertext()) == "paused, then went on (by voice), silent 1000 ms after it began"


def test_each_tool_is_a_bar_of_its_time_and_leads_to_its_turn() -> None:
    (failed,), (done,) = _drawn(_report(), "tool failed"), _drawn(_report(), "tool")
    assert _span(failed) == pytest.approx((2.0, 0.5), abs=0.01)
    assert _span(done) == pytest.approx((2.5, 1.0), abs=0.01)
    links = [link for link in timeline(_report(), None).iter("a") if {failed.get("x"), done.get("x")} & _xs(link)]
    assert [link.get("href") for link in links] == ["#turn-1", "#turn-1"]
    assert [link[0].text for link in links] == ["look_up failed, 500 ms", "book, 1000 ms"]


def _xs(link: Element) -> set[str | None]:
    return {part.get("x") for part in link.iter("rect")}
