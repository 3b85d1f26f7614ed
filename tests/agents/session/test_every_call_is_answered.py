"""Each call that a realtime model's server keeps in its conversation gets exactly one output there."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from kit.realtime_ledger import LedgerModel
from vivavoce.agents import Agent, SessionOptions, SpeechLimits, function_tool
from vivavoce.agents.agent import CompletedTurn, StopResponse
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.core.errors import ProviderStatusError, ToolError
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.pipelines.llm.chat_context import FunctionCall
from vivavoce.pipelines.llm.tools import ToolCall, ToolChoice
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities
from vivavoce.pipelines.realtime_model.fallback import FallbackRealtime
from vivavoce.pipelines.testing import ScriptedRealtimeModel, ScriptedVAD
from vivavoce.pipelines.tts.base import AudioChunk

CALL = ToolCall(call_id="c1", name="look_up", arguments="{}")
SECOND = ToolCall(call_id="c2", name="look_up", arguments="{}")
WORDS = "one two three four five six seven eight nine ten."
NONE = ToolChoice(mode="none")


class Clerk(Agent):
    """Looks things up."""

    def __init__(self, seconds: float = 0.1) -> None:
        super().__init__("Help.")
        self.seconds = seconds
        self.runs = 0

    @function_tool
    async def look_up(self) -> str:
        """Look it up."""
        self.runs += 1
        await anyio.sleep(self.seconds)
        return "found"

    @function_tool
    async def fail(self, how: int) -> str:
        """Fail."""
        raise ToolError(f"broken by {how}")

    @function_tool
    async def hand_over(self) -> Agent:
        """Hand over."""
        return Agent("Be another.")


def session_on(
    model: LedgerModel, agent: Agent | None = None, *, is_local: bool = True, **options: Any
) -> SessionHarness:
    """Return a session on that model whose turns the session ends, or the model's server."""
    pipeline = RealtimePipeline(model, vad=ScriptedVAD() if is_local else None)
    return SessionHarness(agent or Clerk(), model=model, pipeline=pipeline, options=SessionOptions(**options))


ONE_STEP = SpeechLimits(max_tool_steps=1)


def test_a_call_beyond_the_last_tool_step_is_told_that_it_was_not_run_and_a_waiting_server_answers_on() -> None:
    model, agent = LedgerModel([0.1, CALL], [0.1, SECOND], [0.1, "Here I am."], waits=True), Clerk()
    harness = session_on(model, agent, speech=ONE_STEP)
    harness.caller.makes_noise(0.5, 1.0)
    harness.caller.makes_noise(5.0, 5.5)
    harness.run(until=9.0)
    assert agent.runs == 1
    assert [call_id for call_id, _ in model.outputs] == ["c1", "c2"]
    assert model.outputs[1][1].startswith("Not run: ")
    assert harness.messages[-1] == ("assistant", "Here I am.")
    calls = [item.call_id for item in harness.session.history.items if isinstance(item, FunctionCall)]
    assert calls == ["c1"]


def test_a_call_of_an_answer_without_tools_is_not_run_and_the_server_learns_it() -> None:
    model, agent = LedgerModel([0.1, "Hello.", CALL], [0.1, "Here I am."], waits=True), Clerk()
    harness = session_on(model, agent)

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.reply("Greet.", tool_choice=NONE)
        await harness.session.reply("Go on.")

    harness.run(scenario)
    assert agent.runs == 0
    assert [request.tool_choice.mode for request in model.requests] == ["none", "auto"]
    [(call_id, output)] = model.outputs
    assert (call_id, output.startswith("Not run: ")) == ("c1", True)
    harness.expect_history(("assistant", "Hello."), ("assistant", "Here I am."))


def test_a_cascade_runs_no_call_of_an_answer_without_tools_and_keeps_none() -> None:
    agent = Clerk()
    harness = SessionHarness(agent, ScriptedLLM([0.1, "Hello.", CALL], default="More."))

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.reply("Greet.", tool_choice=NONE)

    harness.run(scenario)
    assert agent.runs == 0
    assert [request.tool_choice.mode for request in harness.llm.requests] == ["none"]
    harness.expect_history(("assistant", "Hello."))
    assert not [item for item in harness.session.history.items if isinstance(item, FunctionCall)]


def test_a_call_of_an_answer_that_is_refused_beside_a_protected_reply_gets_one_output() -> None:
    model, agent = LedgerModel([0.1, WORDS], [0.1, "Yes?"], waits=True), Clerk()
    harness = session_on(model, agent, is_local=False)

    async def scenario(harness: SessionHarness) -> None:
        _ = harness.session.reply("Explain.", interruptible=False)
        await harness.until(1.0)
        model.start_reply([CALL, "Refused."])

    harness.run(scenario, until=8.0)
    assert agent.runs == 0
    assert model.ledgers[0].made == ["c1"]
    model.check()
    assert harness.messages[-1] == ("assistant", "Yes?")


def test_a_call_whose_answer_is_cut_before_its_end_gets_one_output() -> None:
    model, agent = LedgerModel([0.1, WORDS, CALL, 3.0, "More."], [0.1, "Yes?"], waits=True), Clerk()
    harness = session_on(model, agent)
    harness.caller.makes_noise(0.5, 1.0)
    harness.caller.makes_noise(2.5, 3.4)
    harness.run(until=8.0)
    assert agent.runs == 0
    [(call_id, output)] = model.outputs
    assert (call_id, output.startswith("Not run: ")) == ("c1", True)
    assert harness.messages[-1] == ("assistant", "Yes?")


def test_a_call_whose_answer_fails_behind_it_gets_one_output() -> None:
    busy = ProviderStatusError("busy", provider="scripted", status=500, retryable=True)
    model, agent = LedgerModel([0.1, CALL, busy], [0.1, "Yes?"], waits=True), Clerk()
    harness = session_on(model, agent)
    harness.caller.makes_noise(0.5, 1.0)
    harness.caller.makes_noise(3.0, 3.5)
    harness.run(until=8.0)
    assert agent.runs == 0
    assert [call_id for call_id, _ in model.outputs] == ["c1"]
    assert harness.messages[-1] == ("assistant", "Yes?")


def test_a_call_that_a_stage_of_the_agent_keeps_back_gets_one_output() -> None:
    class Strict(Clerk):
        async def llm_stage(
            self, request: GenerateRequest, generate: Callable[[GenerateRequest], AsyncIterator[LLMEvent | AudioChunk]]
        ) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
            async for event in generate(request):
                if not isinstance(event, ToolCall):
                    yield event

    model, agent = LedgerModel([0.1, "Moment.", CALL], [0.1, "Yes?"], waits=True), Strict()
    harness = session_on(model, agent)
    harness.caller.makes_noise(0.5, 1.0)
    harness.caller.makes_noise(3.0, 3.5)
    harness.run(until=8.0)
    assert agent.runs == 0
    assert [call_id for call_id, _ in model.outputs] == ["c1"]
    assert harness.messages[-1] == ("assistant", "Yes?")


def test_text_typed_while_a_tool_runs_is_answered_once_its_result_is_there_by_a_server_that_waits() -> None:
    can = RealtimeCapabilities(answers_results=True)
    model = LedgerModel([0.1, CALL], [0.1, "It is found, and hello."], waits=True, capabilities=can)
    harness = session_on(model, Clerk(4.0))
    harness.caller.makes_noise(0.0, 0.1)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.5)
        harness.caller.types("hello")

    harness.run(scenario, until=8.0)
    harness.expect_outcomes("completed", "completed")
    [(start, _)] = harness.played
    assert start == pytest.approx(4.8, abs=0.2)
    assert model.outputs == [("c1", "found")]
    assert len(model.requests) == 2


def test_a_result_is_sent_once_it_is_there_and_only_once_though_another_call_of_its_step_runs_on() -> None:
    slow = ToolCall(call_id="c2", name="crawl", arguments="{}")

    class Slow(Clerk):
        @function_tool
        async def crawl(self) -> str:
            """Take long."""
            await anyio.sleep(3.0)
            return "crawled"

    model = LedgerModel([0.1, CALL, slow], [0.1, "Both are there."])
    harness = session_on(model, Slow())
    harness.caller.makes_noise(0.0, 0.1)
    early: list[tuple[str, str]] = []

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.0)
        early.extend(model.outputs)

    harness.run(scenario, until=8.0)
    assert early == [("c1", "found")]
    assert model.outputs == [("c1", "found"), ("c2", "crawled")]
    harness.expect_tools(("look_up", "found"), ("crawl", "crawled"))


def test_a_server_that_answers_results_keeps_them_until_all_are_there_and_goes_on_by_a_call_that_was_not_run() -> None:
    model = LedgerModel(
        [0.1, "Hello.", CALL], [0.1, "Very well."], capabilities=RealtimeCapabilities(answers_results=True)
    )
    agent = Clerk()
    harness = session_on(model, agent)

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.reply("Greet.", tool_choice=NONE)

    harness.run(scenario)
    assert agent.runs == 0
    model.check()
    assert [request.tool_choice.mode for request in model.requests] == ["none", "none"]
    harness.expect_history(("assistant", "Hello."), ("assistant", "Very well."))


def test_the_floor_is_kept_until_the_answer_that_goes_on_by_a_call_that_was_not_run_is_over() -> None:
    can = RealtimeCapabilities(answers_results=True)
    model = LedgerModel([0.1, "Hello.", CALL], [0.3, "Very well."], [0.1, "Fine."], capabilities=can)
    harness = session_on(model)

    async def scenario(harness: SessionHarness) -> None:
        _ = harness.session.reply("Greet.", tool_choice=NONE)
        await harness.session.reply("Go on.", when_busy="queue")

    harness.run(scenario)
    harness.expect_history(("assistant", "Hello."), ("assistant", "Very well."), ("assistant", "Fine."))


def test_a_model_that_calls_on_and_on_without_leave_is_asked_a_limited_number_of_times() -> None:
    calls = [[ToolCall(call_id=f"c{number}", name="look_up", arguments="{}")] for number in range(9)]
    model = LedgerModel(*calls, capabilities=RealtimeCapabilities(answers_results=True))
    harness = session_on(model)

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.reply("Greet.", tool_choice=NONE)

    harness.run(scenario)
    model.check()
    assert len(model.requests) == 3


def test_a_call_of_an_answer_that_outlives_its_connection_is_told_to_the_next_one_with_its_output() -> None:
    model = LedgerModel(default="Fine.")
    harness = session_on(model, is_local=False)

    async def scenario(harness: SessionHarness) -> None:
        model.start_reply([1.5, CALL])
        await harness.until(harness.now + 0.1)
        model.fail()
        await harness.until(harness.now + 3.0)

    harness.run(scenario)
    assert [ledger.made for ledger in model.ledgers] == [["c1"], ["c1"]]
    model.check()


def test_a_call_of_a_turn_that_the_agent_drops_gets_one_output() -> None:
    class Silent(Clerk):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            await anyio.sleep(0.1)
            raise StopResponse

    model = LedgerModel(waits=True)
    harness = session_on(model, Silent(), is_local=False)

    async def scenario(harness: SessionHarness) -> None:
        model.speech_started()
        model.speech_ended()
        model.start_reply([CALL])

    harness.run(scenario, until=4.0)
    assert model.ledgers[0].made == ["c1"]
    model.check()


@pytest.mark.parametrize(
    "call",
    [
        CALL,
        ToolCall(call_id="c1", name="fail", arguments='{"how": 1}'),
        ToolCall(call_id="c1", name="fail", arguments="{"),
        ToolCall(call_id="c1", name="nobody", arguments="{}"),
        ToolCall(call_id="c1", name="hand_over", arguments="{}"),
    ],
    ids=["returns", "raises", "invalid", "unknown", "hands over"],
)
@pytest.mark.parametrize("updates", [True, False], ids=["updated", "connected anew"])
@pytest.mark.parametrize("disturbance", ["none", "cut", "update", "close"])
def test_each_call_that_is_run_gets_one_output(call: ToolCall, updates: bool, disturbance: str) -> None:
    can = RealtimeCapabilities(updates=updates)
    model = LedgerModel([0.1, "Moment.", call], default="Fine.", waits=True, capabilities=can, open_delay=0.1)
    harness = session_on(model, Clerk(2.0))

    async def scenario(harness: SessionHarness) -> None:
        harness.caller.makes_noise(harness.now + 0.5, harness.now + 1.0)
        await harness.until(harness.now + 2.5)
        if disturbance == "cut":
            harness.caller.types("never mind")
        elif disturbance == "update":
            harness.session.agent.update_instructions("Be quick.")
            await harness.session.reply("Say so.", when_busy="queue")
        elif disturbance == "close":
            return
        await harness.until(harness.now + 4.0)

    harness.run(scenario)
    model.check()
    assert any("c1" in ledger.made for ledger in model.ledgers)


def test_a_call_of_an_answer_that_is_cut_gets_its_output_though_nobody_asks_a_server_that_decides_turns() -> None:
    can = RealtimeCapabilities(answers_results=True)
    model = LedgerModel(waits=True, capabilities=can)
    harness = session_on(model, is_local=False)

    async def scenario(harness: SessionHarness) -> None:
        model.start_reply(["One moment please.", CALL, 3.0, "More."])
        await harness.until(harness.now + 0.3)
        await harness.session.interrupt()
        await harness.until(harness.now + 1.0)
        [(call_id, output)] = model.outputs
        assert (call_id, output.startswith("Not run: ")) == ("c1", True)

    harness.run(scenario)


def test_the_last_refused_call_of_a_model_that_calls_on_and_on_gets_its_output_though_it_is_not_asked_again() -> None:
    calls = [[ToolCall(call_id=f"c{number}", name="look_up", arguments="{}")] for number in range(9)]
    model = LedgerModel(*calls, capabilities=RealtimeCapabilities(answers_results=True))
    harness = session_on(model, is_local=False)

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.reply("Greet.", tool_choice=NONE)
        assert [call_id for call_id, _ in model.outputs] == ["c0", "c1", "c2"]

    harness.run(scenario)
    assert len(model.requests) == 3


def test_a_result_that_comes_while_typed_text_is_answered_is_answered_next_by_a_server_that_goes_on() -> None:
    can = RealtimeCapabilities(answers_results=True)
    model = LedgerModel([0.1, CALL], [1.0, "Yes, I am here."], [0.1, "It is found."], capabilities=can)
    harness = session_on(model, Clerk(2.5))
    harness.caller.makes_noise(0.0, 0.1)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.5)
        harness.caller.types("are you there?")

    harness.run(scenario, until=9.0)
    assert [text for role, text in harness.messages if role == "assistant"] == ["Yes, I am here.", "It is found."]
    assert model.outputs == [("c1", "found")]


def test_a_model_that_falls_back_keeps_and_asks_by_outputs_as_the_connected_one_does() -> None:
    broken = ScriptedRealtimeModel(capabilities=RealtimeCapabilities(answers_results=True))
    broken.fail_open()
    model = LedgerModel([0.1, "Hello.", CALL])
    pipeline = RealtimePipeline(FallbackRealtime([broken, model]), vad=ScriptedVAD())
    harness = SessionHarness(Clerk(), model=model, pipeline=pipeline)

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.reply("Greet.", tool_choice=NONE)

    harness.run(scenario)
    model.check()
    harness.expect_history(("assistant", "Hello."))
