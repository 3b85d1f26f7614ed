"""Turns of the user without an answer: report and telemetry name the same ones, with the same reasons."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from kit.telemetry import Watching, seconds_of
from vivavoce.agents import Agent, EndpointingOptions, SessionOptions
from vivavoce.agents.testing import ScriptedLLM, ScriptedRealtimeModel, SessionHarness
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities

LOCAL = RealtimeCapabilities(turn_detection=frozenset({"local"}))
WORDS = "One two three four five six seven eight nine ten."

Scenario = Callable[[SessionHarness], Awaitable[None]]


def cascading(watching: Watching) -> SessionHarness:
    return SessionHarness(Agent("x"), ScriptedLLM("Hi.", "Yes."), options=SessionOptions(telemetry=watching.telemetry))


def manual(watching: Watching) -> SessionHarness:
    options = SessionOptions(telemetry=watching.telemetry, endpointing=EndpointingOptions(mode="manual"))
    return SessionHarness(Agent("x"), ScriptedLLM("Hi."), options=options)


def realtime(watching: Watching) -> SessionHarness:
    model = ScriptedRealtimeModel("Hi.", capabilities=LOCAL)
    return SessionHarness(Agent("x"), model=model, options=SessionOptions(telemetry=watching.telemetry))


async def _nothing(harness: SessionHarness) -> None: ...


def _noise(harness: SessionHarness) -> Scenario:
    harness.caller.makes_noise(1.0, 1.6)
    return _nothing


def _cleared(harness: SessionHarness) -> Scenario:
    harness.caller.says("never mind", 1.0, 2.0, final_at=2.1)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.2)
        harness.session.input.clear_turn()

    return scenario


def _backchannel(harness: SessionHarness) -> Scenario:
    harness.caller.says("mhm", 1.0, 1.3, final_at=1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.say(WORDS)

    return scenario


def _committed_in_silence(harness: SessionHarness) -> Scenario:
    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        harness.session.input.commit_turn()

    return scenario


def _closed(harness: SessionHarness) -> Scenario:
    harness.caller.makes_noise(1.0, 8.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.9)
        await harness.session.close()

    return scenario


@pytest.mark.parametrize(
    ("make", "arrange", "reason"),
    [
        (cascading, _noise, "transcript_missing"),  # a realtime model answers sound without words
        (cascading, _cleared, "cleared"),
        (realtime, _cleared, "cleared"),
        (cascading, _backchannel, "backchannel"),
        (manual, _committed_in_silence, "transcript_missing"),
        (cascading, _closed, "closed"),
        (realtime, _closed, "closed"),
    ],
)
def test_a_turn_that_nobody_answers_is_no_turn_of_the_report_which_lists_it_as_telemetry_does(
    make: Callable[[Watching], SessionHarness],
    arrange: Callable[[SessionHarness], Scenario],
    reason: str,
) -> None:
    watching = Watching()
    harness = make(watching)
    harness.run(arrange(harness), until=8.0)
    report = harness.session.report()
    assert [turn for turn in report.turns if turn.kind == "turn"] == []
    (dropped,) = report.dropped_turns
    assert dropped.reason == reason
    assert dropped.at == pytest.approx(1.0)
    span = watching.one("turn")
    assert span.attributes is not None
    assert span.attributes["vivavoce.turn.outcome"] == "dropped"
    assert (span.attributes["vivavoce.turn.id"], span.attributes["vivavoce.turn.reason"]) == (
        dropped.turn_id,
        dropped.reason,
    )
    assert seconds_of(span)[0] == pytest.approx(dropped.at)
    assert [point.attributes["vivavoce.turn.kind"] for point in watching.points("vivavoce.turns")] == [
        turn.kind for turn in report.turns
    ]


def test_a_noise_between_two_turns_has_an_id_of_its_own_in_both() -> None:
    watching = Watching()
    harness = cascading(watching)
    harness.caller.says("hello there", 0.5, 1.5)
    harness.caller.makes_noise(5.0, 5.5)
    harness.caller.says("good day", 10.0, 11.0)
    harness.run(until=15.0)
    report = harness.session.report()
    answered = [turn.turn_id for turn in report.turns]
    spans = [span.attributes or {} for span in watching.of("turn")]
    assert [span["vivavoce.turn.id"] for span in spans if span["vivavoce.turn.outcome"] != "dropped"] == answered
    assert [span["vivavoce.turn.id"] for span in spans if span["vivavoce.turn.outcome"] == "dropped"] == [
        turn.turn_id for turn in report.dropped_turns
    ]
    assert len({*answered, *(turn.turn_id for turn in report.dropped_turns)}) == 3
