"""A realtime model with faulty code: an exception costs an answer or a connection, and never the call."""

from __future__ import annotations

from typing import Any

import pytest

from vivavoce.agents import Agent
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import ScriptedRealtimeModel, ScriptedVAD, SessionHarness
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.realtime_model.events import RealtimeSpeechStarted


def errors(harness: SessionHarness) -> list[tuple[str, bool]]:
    return [(event.source, event.is_recovered) for event in harness.recording.of(ErrorOccurred)]


def fails_in(stream: object, method: str, *, times: int = 1) -> None:
    """Make a stream's method raise an exception that no provider should raise, for this number of times."""
    works, left = getattr(stream, method), [KeyError("secret") for _ in range(times)]

    def call(*args: Any) -> Any:
        if left:
            raise left.pop()
        return works(*args)

    setattr(stream, method, call)


def realtime(model: ScriptedRealtimeModel) -> SessionHarness:
    return SessionHarness(Agent("Help."), model=model, pipeline=RealtimePipeline(model, vad=ScriptedVAD()))


@pytest.mark.parametrize("event", [KeyError("secret"), "words", None, RealtimeSpeechStarted(float("nan"))])
def test_a_realtime_stream_that_raises_or_reports_something_else_is_opened_again(event: Any) -> None:
    model = ScriptedRealtimeModel("All is well.")
    harness = realtime(model)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        model.emit(event)
        await harness.until(2.0)

    harness.caller.says("hello there", 2.0, 3.0)
    harness.run(scenario, until=8.0)
    assert len(model.connections) == 2
    assert errors(harness) == [("realtime_model", True)]
    harness.expect_outcomes("completed")


@pytest.mark.parametrize("method", ["push", "commit", "append", "truncate", "update"])
def test_a_realtime_connection_that_raises_as_it_is_told_something_is_opened_again(method: str) -> None:
    model = ScriptedRealtimeModel("One two three four five six.", "All is well.", "All is well.")
    harness = realtime(model)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(0.2)
        fails_in(model.connection, method)
        await harness.until(2.6)
        await harness.session.interrupt()
        _ = harness.session.update_agent(Agent("Be brief."))
        harness.session.input.text("typed words")
        await harness.until(6.0)

    harness.caller.says("hello there", 0.5, 1.5)
    harness.caller.says("and now", 8.0, 9.0)
    harness.run(scenario, until=14.0)
    assert len(model.connections) == 2
    assert [error for error in errors(harness) if error[0] == "realtime_model"] == [("realtime_model", True)]
    assert harness.session.turns[-1].outcome == "completed"


def test_an_answer_of_a_realtime_model_that_raises_fails_its_turn_alone_and_is_not_asked_for_again() -> None:
    model = ScriptedRealtimeModel([KeyError("secret")], "All is well.")
    harness = realtime(model)
    harness.caller.says("hello there", 0.5, 1.5)
    harness.caller.says("and now", 5.0, 6.0)
    harness.run(until=9.0)
    harness.expect_outcomes("failed", "completed")
    assert errors(harness) == [("llm", False)]
    assert len(model.connections) == 1
