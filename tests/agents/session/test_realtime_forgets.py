"""A turn that the agent drops is taken out of the remote conversation too, with the answer that was begun to it."""

from __future__ import annotations

import anyio
import pytest

from vivavoce.agents import Agent
from vivavoce.agents.agent import CompletedTurn, StopResponse
from vivavoce.agents.testing import ScriptedRealtimeModel, SessionHarness
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities, RealtimeInputCommitted
from vivavoce.pipelines.testing import ScriptedVAD

ANSWER = "one two three four five six seven eight nine ten."


def listening(model: ScriptedRealtimeModel, agent: Agent | None = None) -> SessionHarness:
    """Return a session whose model hears the caller, and whose VAD lets the session decide."""
    pipeline = RealtimePipeline(model, vad=ScriptedVAD())
    return SessionHarness(agent or Agent("Help."), model=model, pipeline=pipeline)


class Deaf(Agent):
    """Drops every turn but the first `answered`, slowly."""

    def __init__(self, *, answered: int = 0, seconds: float = 0.0) -> None:
        super().__init__("Help.")
        self.answered = answered
        self.seconds = seconds

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        await anyio.sleep(self.seconds)
        if self.answered == 0:
            raise StopResponse
        self.answered -= 1


DELETES = RealtimeCapabilities(deletes=True)


@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_a_turn_that_the_hook_drops_is_taken_out_of_the_remote_conversation(seconds: float) -> None:
    model = ScriptedRealtimeModel("Sure.", hears=["hello", "secret"], capabilities=DELETES)
    harness = listening(model, Deaf(answered=1, seconds=seconds))
    harness.caller.makes_noise(0.5, 1.0)
    harness.caller.makes_noise(4.5, 5.0)
    harness.run(until=9.0)
    harness.expect_outcomes("completed", "discarded")
    harness.expect_history(("user", "hello"), ("assistant", "Sure."))
    assert model.connections[0].record.deleted == ["user_2"]


def test_a_model_that_cannot_take_items_out_is_not_asked_to() -> None:
    model = ScriptedRealtimeModel(hears=["secret"])
    harness = listening(model, Deaf())
    harness.caller.makes_noise(0.5, 1.0)
    harness.run(until=4.0)
    harness.expect_outcomes("discarded").expect_history()
    assert model.connections[0].record.deleted == []


def test_a_dropped_turn_that_the_server_answers_takes_its_answer_with_it() -> None:
    model = ScriptedRealtimeModel(capabilities=DELETES)
    pipeline = RealtimePipeline(model)
    harness = SessionHarness(Deaf(), model=model, pipeline=pipeline)

    async def scenario(harness: SessionHarness) -> None:
        model.speech_started()
        await harness.until(0.5)
        model.speech_ended()
        model.emit(RealtimeInputCommitted("user_1"))
        model.start_reply([0.2, ANSWER], item_id="said")
        model.emit(RealtimeInputCommitted("user_2"))  # the next turn's
        await harness.until(2.0)

    harness.run(scenario)
    harness.expect_outcomes("discarded").expect_played()
    record = model.connections[0].record
    assert (record.deleted, record.refused, record.accepted) == (["user_1"], ["remote_1"], [])


def test_an_answer_of_the_servers_that_is_cut_before_anybody_took_it_is_refused() -> None:
    model = ScriptedRealtimeModel()
    harness = SessionHarness(Deaf(answered=1, seconds=1.0), model=model, pipeline=RealtimePipeline(model))

    async def scenario(harness: SessionHarness) -> None:
        model.start_reply([0.2, ANSWER])
        await harness.until(0.5)
        await harness.session.interrupt()
        await harness.until(2.0)

    harness.run(scenario)
    assert model.connections[0].record.refused == ["remote_1"]
    harness.expect_played()


def test_typed_words_that_the_hook_drops_are_taken_out_too() -> None:
    model = ScriptedRealtimeModel(capabilities=DELETES)
    harness = listening(model, Deaf())

    async def scenario(harness: SessionHarness) -> None:
        harness.caller.types("a secret")

    harness.run(scenario, until=2.0)
    record = model.connections[0].record
    [typed] = record.appended
    assert record.deleted == [typed.id]
    harness.expect_history()


def test_a_message_that_the_application_takes_out_of_the_history_is_forgotten_by_the_model() -> None:
    model = ScriptedRealtimeModel("Sure.", hears=["hello"], capabilities=DELETES)
    harness = listening(model)
    harness.caller.makes_noise(0.5, 1.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(4.0)
        for message in harness.session.history.messages():
            harness.session.history.remove(message)

    harness.run(scenario)
    assert model.connections[0].record.deleted == ["user_1", "answer_1"]


def test_a_dropped_turn_is_not_told_to_the_next_connection_as_audio() -> None:
    model = ScriptedRealtimeModel(capabilities=DELETES)  # its transcript never comes
    harness = listening(model, Deaf())
    harness.caller.makes_noise(0.5, 1.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        model.fail()
        await harness.until(5.0)

    harness.run(scenario)
    first, second = model.connections
    assert first.record.deleted == ["user_1"]
    assert (second.record.commits, second.record.pushed_seconds) == ([], 0.0)


def test_a_turn_that_is_dropped_after_its_connection_was_lost_is_taken_out_of_the_one_that_heard_it_again() -> None:
    model = ScriptedRealtimeModel(capabilities=DELETES, open_delay=0.2)
    harness = listening(model, Deaf(seconds=2.0))

    async def scenario(harness: SessionHarness) -> None:
        harness.caller.makes_noise(harness.now + 0.5, harness.now + 1.0)
        await harness.until(harness.now + 1.6)
        model.fail()
        await harness.until(6.0)

    harness.run(scenario)
    first, second = model.connections
    assert (len(second.record.commits), first.record.deleted, second.record.deleted) == (1, [], ["user_1"])
