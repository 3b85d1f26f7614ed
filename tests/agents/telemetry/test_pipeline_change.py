"""Telemetry of a call whose pipeline changes: each part under the name of the component that did the work."""

from __future__ import annotations

from kit.telemetry import Watching
from vivavoce.agents import Agent, SessionOptions
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.testing import ScriptedRealtimeModel, ScriptedVAD


class OtherModel(ScriptedRealtimeModel):
    """Under a name of its own."""

    provider = "other"
    model = "speaks"


def changing(watching: Watching) -> SessionHarness:
    """A cascade answers the first turn, a realtime model the second."""
    harness = SessionHarness(
        Agent("Help."), ScriptedLLM("One.", delay=0.1), options=SessionOptions(telemetry=watching.telemetry)
    )
    model = OtherModel("Two.", hears=["again"], delay=0.1)
    harness.caller.says("hello", 0.5, 1.0)
    harness.caller.makes_noise(4.0, 4.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.1)
        change = harness.session.update_pipeline(RealtimePipeline(model, vad=ScriptedVAD()))
        await change
        assert change.outcome == "completed"

    return harness.run(scenario, until=7.0)


def test_spans_name_the_pipeline_that_did_the_work() -> None:
    watching = Watching()
    changing(watching)
    watching.check()
    change = watching.one("pipeline_change")
    assert change.attributes is not None
    assert change.attributes["vivavoce.pipeline_change.old"] == "cascading"
    assert change.attributes["vivavoce.pipeline_change.new"] == "realtime"
    names = [((span.attributes or {})["gen_ai.provider.name"], span.name) for span in watching.of("llm")]
    assert names == [("scripted", "chat"), ("other", "chat speaks")]
    session = watching.one("session").attributes or {}
    assert session["vivavoce.pipeline"] == "RealtimePipeline"
    assert session["vivavoce.realtime_model.model"] == "speaks"


def test_metrics_are_counted_for_the_model_that_answered_and_no_session_stays_open() -> None:
    watching = Watching()
    changing(watching)
    turns = {
        point.attributes.get("gen_ai.provider.name"): point.value
        for point in watching.points("vivavoce.turns")
        if point.attributes["vivavoce.turn.kind"] == "turn"
    }
    assert turns == {"scripted": 1, "other": 1}
    for name in ("vivavoce.sessions.active", "vivavoce.speeches.open"):
        points = watching.points(name)
        assert [point.value for point in points] == [0, 0], name
