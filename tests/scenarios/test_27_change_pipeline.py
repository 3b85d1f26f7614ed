"""Scenario 27: `update_pipeline` in the middle of a call, from a cascade to a realtime model and back."""

from __future__ import annotations

from vivavoce.agents import Agent
from vivavoce.agents.events import PipelineChanged
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.testing import ScriptedRealtimeModel, ScriptedVAD


def test_from_a_cascade_to_a_realtime_model_and_the_call_goes_on() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("One two three four.", delay=0.1))
    model = ScriptedRealtimeModel("Five six.", hears=["what comes then"], delay=0.1)
    harness.caller.says("count please", 0.5, 1.5)
    harness.caller.makes_noise(6.0, 7.0)  # the model transcribes its commits

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        change = harness.session.update_pipeline(RealtimePipeline(model, vad=ScriptedVAD()))
        await change
        assert change.outcome == "completed"
        assert harness.session.pipeline is change.pipeline

    harness.run(scenario, until=12.0)
    harness.expect_history(
        ("user", "count please"),
        ("assistant", "One two three four."),
        ("user", "what comes then"),
        ("assistant", "Five six."),
    )
    assert [item.content for item in model.connections[0].setup.history.messages()] == ["count please"]
    assert [item.content for item in model.connections[0].record.appended] == ["One two three four."]  # type: ignore[union-attr]
    assert [(event.old, event.pipeline) for event in harness.recording.of(PipelineChanged)] == [
        (harness.pipeline.name, "realtime")
    ]
