"""The commits of a session on a model that hears the caller: what each takes, and which transcript is of which."""

from __future__ import annotations

from typing import Any

import pytest

from vivavoce.agents import Agent, EndpointingOptions, SessionOptions
from vivavoce.agents.testing import ScriptedLLM, ScriptedRealtimeModel, ScriptedSTT, SessionHarness
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.testing import ScriptedVAD
from vivavoce.pipelines.testing.script import Step

ANSWER = "one two three four five six seven eight nine ten."
LIMITED = SessionOptions(endpointing=EndpointingOptions(max_turn_duration=1.0))
IN_ORDER = (("user", "part one"), ("assistant", "First."), ("user", "part two"), ("assistant", "Second."))


def listening(model: ScriptedRealtimeModel, **more: Any) -> SessionHarness:
    """Return a session whose model hears the caller, and whose VAD lets the session decide."""
    return SessionHarness(Agent("Help."), model=model, pipeline=RealtimePipeline(model, vad=ScriptedVAD()), **more)


def serving(model: ScriptedRealtimeModel) -> SessionHarness:
    """Return a session whose model's server decides."""
    return SessionHarness(Agent("Help."), model=model, pipeline=RealtimePipeline(model))


def test_a_turn_that_lasts_too_long_is_committed_once_in_its_midst_and_once_at_its_end() -> None:
    model = ScriptedRealtimeModel(
        [0.3, "First."], [0.3, "Second."], hears=["part one", "part two"], transcript_delay=0.9
    )
    harness = listening(model, options=LIMITED)
    harness.caller.makes_noise(0.5, 2.0)
    harness.run(until=12.0)
    harness.expect_history(*IN_ORDER).expect_outcomes("completed", "completed")
    assert model.connections[0].record.commits == pytest.approx([1.5, 2.4])
    model.assert_done()


def test_a_cascade_gives_both_parts_of_such_a_turn_one_answer_each_too() -> None:
    llm, stt = ScriptedLLM([0.3, "First."], [0.3, "Second."]), ScriptedSTT(["part one", "part two"], final_delay=0.2)
    harness = SessionHarness(Agent("Help."), llm, stt=stt, options=LIMITED)
    harness.caller.makes_noise(0.5, 2.0)
    harness.run(until=12.0)
    harness.expect_history(*IN_ORDER).expect_outcomes("completed", "completed")


def test_the_rest_of_such_a_turn_is_answered_behind_the_answer_to_its_first_part() -> None:
    model = ScriptedRealtimeModel([0.3, ANSWER], [0.3, "Second."], hears=["part one", "part two"], transcript_delay=0.9)
    harness = listening(model, options=LIMITED)
    harness.caller.makes_noise(0.5, 2.0)
    harness.run(until=12.0)
    harness.expect_played((1.8, 2.0), (4.1, 0.2)).expect_outcomes("completed", "completed")
    harness.expect_history(("user", "part one"), ("assistant", ANSWER), ("user", "part two"), ("assistant", "Second."))


def test_an_agent_whose_model_hears_words_in_silence_does_not_answer_itself() -> None:
    answers: list[Step] = [[0.3, "Yes."]] * 30
    model = ScriptedRealtimeModel(*answers, hears=["part one", *["you"] * 30], transcript_delay=0.9)
    harness = listening(model, options=LIMITED)
    harness.caller.makes_noise(0.5, 1.6)  # 0.1 of rest is no turn
    harness.run(until=30.0)
    harness.expect_history(("user", "part one"), ("assistant", "Yes."))
    assert model.connections[0].record.commits == pytest.approx([1.5])
    assert model.connections[0].record.clears == pytest.approx([1.8])


def test_speech_that_goes_on_after_a_commit_on_request_is_heard_to_its_end() -> None:
    model = ScriptedRealtimeModel([0.1, "First."], [0.1, "Second."], hears=["part one", "part two"])
    harness = listening(model)
    harness.caller.makes_noise(0.5, 3.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.5)
        harness.session.input.commit_turn()

    harness.run(scenario, until=6.0)
    harness.expect_history(("user", "part one part two"), ("assistant", "Second."))
    assert model.connections[0].record.commits == pytest.approx([1.5, 3.9])


@pytest.mark.parametrize("text", ["hello", "hello again"])
def test_a_transcript_that_comes_again_is_ignored_where_the_server_ends_turns(text: str) -> None:
    model = ScriptedRealtimeModel()
    harness = serving(model)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.5)
        model.start_reply([0.1, "Sure."], item_id="item_1")
        await harness.until(1.6)
        model.transcript("hello", item_id="item_1")
        await harness.until(2.2)
        model.transcript(text, item_id="item_1")
        model.transcript(text, item_id="item_1", is_final=False)

    harness.run(scenario, until=8.0)
    harness.expect_history(("user", "hello"), ("assistant", "Sure.")).expect_outcomes("completed")


@pytest.mark.parametrize("text", ["hello", "hello again"])
def test_a_transcript_that_comes_again_is_ignored_where_the_session_ends_turns(text: str) -> None:
    model = ScriptedRealtimeModel([0.1, "Sure."])
    harness = listening(model)
    harness.caller.makes_noise(0.5, 1.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.6)
        model.transcript("hello", item_id="item_1")
        await harness.until(2.2)
        model.transcript(text, item_id="item_1")

    harness.run(scenario, until=8.0)
    harness.expect_history(("user", "hello"), ("assistant", "Sure.")).expect_outcomes("completed")


def test_an_answer_that_was_cut_before_its_first_whole_word_leaves_no_message() -> None:
    model = ScriptedRealtimeModel([0.3, ANSWER], [0.3, "Sure."], hears=["count"])
    harness = listening(model)
    harness.caller.makes_noise(0.5, 1.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.8)  # it sounds since 1.7, and a word takes 0.2
        await harness.session.interrupt()

    harness.run(scenario, until=4.0)
    harness.expect_outcomes("interrupted").expect_history(("user", "count"))
    assert model.connections[0].record.truncations[0][1] == pytest.approx(0.1)
