"""Scenario 19: a tool that returns an agent hands the conversation over to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
import pytest

from kit.handoff import HANDED_OVER, TRANSFER, Clerk, Desk, short, stages
from vivavoce.agents import (
    Agent,
    Handoff,
    SessionOptions,
    SpeechLimits,
    function_tool,
)
from vivavoce.agents.events import AgentChanged
from vivavoce.agents.records import HandoffRecord
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, run_virtual
from vivavoce.pipelines.llm.chat_context import FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall

# --- by a tool


def test_the_old_agent_leaves_the_floor_changes_the_new_one_enters() -> None:
    desk = Desk([TRANSFER], enters="Billing here, hello.", leaves="Goodbye now.").asked()
    harness = desk.harness.run(until=5.0)
    assert desk.log == [
        "front enters",
        "front transfers",
        "front leaves",
        "billing enters",
        "billing leaves",
        "front cleans up",
        "billing cleans up",
    ]
    harness.expect_played((2.2, 0.4), (2.8, 0.6))
    assert desk.items == [
        "user: billing please",
        "FunctionCall",
        HANDED_OVER,
        "assistant: Goodbye now.",
        "front -> billing",
        "assistant: Billing here, hello.",
    ]
    harness.expect_states(
        "agent",
        ("listening", 0.5),
        ("thinking", 1.9),
        ("speaking", 2.2),
        ("idle", 2.6),
        ("speaking", 2.8),
        ("idle", 3.4),
    )
    (changed,) = harness.recording.of(AgentChanged)
    assert (changed.old, changed.agent, changed.turn_id) == ("front", "billing", "turn_1")
    assert changed.at == pytest.approx(2.6)
    assert harness.session.agent is desk.billing
    assert len(desk.llm.requests) == 1  # the greeting is the answer
    harness.expect_outcomes("completed", "completed", "completed")


def test_the_record_of_the_turn_has_the_handoff_and_its_stages_sum() -> None:
    harness = Desk([TRANSFER], enters="Billing here, hello.").asked().harness.run(until=5.0)
    turn = next(turn for turn in harness.session.turns if turn.kind == "turn")
    (handoff,) = turn.handoffs
    assert replace(handoff, seconds=round(handoff.seconds, 6)) == HandoffRecord(old="front", new="billing", seconds=0.8)
    assert stages(turn) == {
        "vad_silence": 0.2,
        "endpointing_wait": 0.2,
        "model_first_token": 0.1,
        "handoff": 0.2,
    }
    assert turn.e2e_latency == pytest.approx(0.7)  # 1.5 to 2.2, where the caller hears the new agent


def test_without_a_greeting_the_new_agent_s_model_answers_with_its_own_instructions_and_tools() -> None:
    desk = Desk([TRANSFER], "How can I help?").asked()
    desk.front.to = Agent("Be billing.", id="billing")
    harness = desk.harness.run(until=5.0)
    first, second = desk.llm.requests
    assert (first.instructions, second.instructions) == ("You are front.", "Be billing.")
    assert ([tool.name for tool in first.tools], second.tools) == (["transfer", "look_up"], ())
    assert [short(item) for item in second.context.items] == [
        "user: billing please",
        "FunctionCall",
        HANDED_OVER,
        "front -> billing",
    ]
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 1.9), ("speaking", 2.3), ("idle", 3.1))
    (turn,) = harness.session.turns
    assert turn.e2e_latency == pytest.approx(sum(stages(turn).values())) == pytest.approx(0.8)
    assert len(turn.handoffs) == 1


def test_with_an_output_the_new_agent_s_model_answers_after_the_greeting_too() -> None:
    desk = Desk([TRANSFER], "You owe ten.", enters="Billing here, hello.").asked()
    desk.front.to = (desk.billing, {"owed": 10})
    harness = desk.harness.run(until=6.0)
    assert desk.items == [
        "user: billing please",
        "FunctionCall",
        'output: {"owed":10}',
        "front -> billing",
        "assistant: Billing here, hello.",
        "assistant: You owe ten.",
    ]
    harness.expect_played((2.2, 0.6), (3.1, 0.6))


def test_words_before_the_call_are_heard_before_the_handoff() -> None:
    desk = Desk(["Let me put you through.", TRANSFER], enters="Billing here, hello.").asked()
    harness = desk.harness.run(until=6.0)
    harness.expect_played((2.2, 1.0), (3.4, 0.6))
    assert desk.items[1:5] == [
        "assistant: Let me put you through.",
        "FunctionCall",
        HANDED_OVER,
        "front -> billing",
    ]
    assert harness.recording.of(AgentChanged)[0].at == pytest.approx(3.2)


def test_of_several_agents_the_first_call_s_one_is_taken_and_the_model_is_told_of_the_other() -> None:
    desk = Desk([TRANSFER, ToolCall(call_id="c2", name="escalate", arguments="{}")], "Fine.")

    class Front(Clerk):
        @function_tool
        async def escalate(self) -> Agent:
            """Hand over to the boss."""
            return Agent("Be the boss.", id="boss")

    front = Front("front", desk.log)
    front.to = desk.billing
    harness = SessionHarness(front, desk.llm)
    harness.caller.says("billing please", 0.5, 1.5)
    harness.run(until=6.0)
    outputs = [(o.output, o.is_error) for o in harness.session.history.items if isinstance(o, FunctionCallOutput)]
    assert outputs == [
        (HANDED_OVER.removeprefix("output: "), False),
        (
            "Not handed over to 'boss': another tool called beside this one hands the conversation over.",
            True,
        ),
    ]
    assert harness.session.agent.id == "billing"
    assert len(desk.llm.requests) == 2
    assert [(event.output, event.is_error) for event in harness.tools] == outputs
    (turn,) = [turn for turn in harness.session.turns if turn.kind == "turn"]
    assert [(record.output, record.is_error) for record in turn.tools] == outputs


def test_while_another_call_of_the_step_runs_no_model_is_told_that_a_handoff_is_made() -> None:
    class Front(Clerk):
        @function_tool
        async def search(self) -> str:
            """Search for long."""
            await anyio.sleep(6.0)
            return "found"

    log: list[str] = []
    front = Front("front", log)
    front.to = Clerk("billing", log)
    calls = [TRANSFER, ToolCall(call_id="c2", name="search", arguments="{}")]
    llm = ScriptedLLM(calls, "Just a moment.", "Found.", delay=0.1)
    harness = SessionHarness(front, llm)
    harness.caller.says("billing please", 0.5, 1.5)
    harness.caller.says("are you there", 3.0, 4.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(6.0)
        assert harness.tools == []  # which agent is taken is known with the step
        await harness.until(12.0)

    harness.run(scenario)
    running = [o.output for o in llm.requests[1].context.items if isinstance(o, FunctionCallOutput)]
    assert [output.startswith("The call is still running") for output in running] == [True, True]
    told = [event.output for event in harness.tools]
    assert sorted(told) == sorted([HANDED_OVER.removeprefix("output: "), "found"])
    assert harness.session.agent.id == "billing"


def test_a_result_beside_the_agent_is_answered_by_the_new_one() -> None:
    script = [TRANSFER, ToolCall(call_id="c2", name="look_up", arguments="{}")]
    desk = Desk(script, "It was found.", enters="Billing here, hello.").asked()
    desk.harness.run(until=6.0)
    assert desk.items[-2:] == ["assistant: Billing here, hello.", "assistant: It was found."]
    assert desk.llm.requests[1].instructions == "You are billing."


def test_a_tool_that_returns_the_agent_that_it_belongs_to_changes_nothing() -> None:
    desk = Desk([TRANSFER], "What else?").asked()
    desk.front.to = desk.front
    harness = desk.harness.run(until=5.0)
    assert desk.log == ["front enters", "front transfers", "front leaves", "front cleans up"]
    assert harness.recording.of(AgentChanged) == []
    harness.expect_history(("user", "billing please"), ("assistant", "What else?")).expect_outcomes("completed")


@pytest.mark.parametrize("result", [Agent, (Agent, "See you.")])
def test_a_tool_that_returns_the_class_of_an_agent_fails_and_says_what_to_return(result: Any) -> None:
    @function_tool
    def transfer() -> Any:
        """Transfer."""
        return result

    harness = SessionHarness(Agent("x", tools=[transfer]), ScriptedLLM([TRANSFER], "Sorry."))
    harness.caller.types("billing please", 1.0)
    harness.expects_error("tool", contains="transfer returned the class Agent; return Agent()")
    harness.run(until=5.0).expect.contains_tool_call("transfer").failed(contains="ConfigurationError")


def test_an_agent_of_another_session_cannot_take_over_and_the_model_is_told() -> None:
    desk = Desk([TRANSFER], "Sorry.").asked()
    desk.harness.expects_error("tool", contains="SessionError")
    other = SessionHarness(desk.billing)

    async def main() -> None:
        async with other, desk.harness:
            await desk.harness.until(5.0)

    run_virtual(main())
    assert "output: Not handed over to 'billing': it cannot take over." in desk.items
    told = [(event.output, event.is_error) for event in desk.harness.tools]
    assert told == [("Not handed over to 'billing': it cannot take over.", True)]
    assert desk.errors == ["tool: SessionError"]
    assert desk.harness.session.agent is desk.front
    assert desk.log.count("billing cleans up") == 1


def test_a_handoff_happens_though_the_speech_that_asked_for_it_is_cut() -> None:
    class Slow(Clerk):
        @function_tool
        async def transfer_slowly(self) -> Any:
            """Hand over, slowly."""
            await anyio.sleep(3.0)
            return self.to

    log: list[str] = []
    front, billing = Slow("front", log), Clerk("billing", log, enters="Billing here, hello.")
    front.to = billing
    transfer = ToolCall(call_id="c1", name="transfer_slowly", arguments="{}")
    llm = ScriptedLLM(["Let me put you through, one moment.", transfer], delay=0.1)
    harness = SessionHarness(front, llm)
    harness.caller.says("billing please", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.5)
        await harness.session.interrupt()
        await harness.until(8.0)

    harness.run(scenario)
    assert harness.session.agent is billing
    assert harness.recording.of(AgentChanged)[0].at == pytest.approx(5.0)
    assert len(llm.requests) == 1  # nothing is left to answer
    assert harness.messages[-1] == ("assistant", "Billing here, hello.")


# --- the user meanwhile


def test_a_turn_committed_while_a_handoff_runs_is_answered_by_the_new_agent() -> None:
    class Lingering(Clerk):
        async def on_exit(self) -> None:
            await anyio.sleep(4.0)

    llm = ScriptedLLM([TRANSFER], "Ten.", delay=0.1)
    log: list[str] = []
    front, billing = Lingering("front", log), Clerk("billing", log)
    front.to = billing
    harness = SessionHarness(front, llm)
    harness.caller.says("billing please", 0.5, 1.5)
    harness.caller.says("what do I owe", 3.0, 4.0)  # committed at 4.4; the handoff runs from 2.0 to 6.0
    harness.run(until=8.0)
    assert [request.instructions for request in llm.requests] == ["You are front.", "You are billing."]
    assert [round(at, 6) for at in llm.requested_at] == [1.9, 6.0]
    harness.expect_history(("user", "billing please"), ("user", "what do I owe"), ("assistant", "Ten."))
    harness.expect_states(
        "agent",
        ("listening", 0.5),
        ("thinking", 1.9),
        ("speaking", 6.3),
        ("idle", 6.5),
    )
    answer = harness.session.turns[-1]
    assert (stages(answer)["queue"], round(answer.e2e_latency or 0.0, 6)) == (1.6, 2.3)


def test_words_over_the_greeting_cut_it_and_are_answered_by_the_new_agent() -> None:
    desk = Desk([TRANSFER], "Ten.", enters="Billing here, hello, how may I help you today?").asked()
    desk.harness.caller.says("what do I owe", 3.0, 4.0)
    harness = desk.harness.run(until=8.0)
    assert [request.instructions for request in desk.llm.requests] == ["You are front.", "You are billing."]
    assert harness.messages[-2:] == [("user", "what do I owe"), ("assistant", "Ten.")]
    assert [turn.outcome for turn in harness.session.turns] == ["interrupted", "completed", "completed"]


# --- hooks that fail


class Broken(Clerk):
    async def on_enter(self) -> None:
        await super().on_enter()
        raise RuntimeError("no")


def test_a_failing_on_enter_gives_the_floor_back_to_the_new_agent() -> None:
    desk = Desk([TRANSFER], "How can I help?", "Ten.").asked()
    desk.billing = desk.front.to = Broken("billing", desk.log)
    desk.harness.caller.says("what do I owe", 4.0, 5.0)
    harness = desk.harness.expects_error("hook").run(until=8.0)
    assert desk.errors == ["hook: RuntimeError"]
    assert harness.session.agent is desk.billing
    assert [text for role, text in harness.messages if role == "assistant"] == ["How can I help?", "Ten."]
    assert harness.session.turns[0].handoffs[0].error == "RuntimeError"


def test_an_on_exit_that_hangs_is_cut_at_its_limit_and_the_handoff_goes_on() -> None:
    class Stuck(Clerk):
        async def on_exit(self) -> None:
            await self.session.say("One two three four five six.")
            await anyio.sleep_forever()

    options = SessionOptions(speech=SpeechLimits(hook_timeout=1.0))
    desk = Desk(options=options)
    front = Stuck("front", desk.log)
    harness = SessionHarness(front, desk.llm, options=options)
    handoffs: list[Handoff] = []

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        handoffs.append(harness.session.update_agent(desk.billing))
        await handoffs[0]
        assert harness.now == pytest.approx(1.0 + 1.4 + 1.0)  # its speech, and its limit from then on

    harness.expects_error("hook").run(scenario)
    assert handoffs[0].outcome == "failed"
    assert "did not end within 1 s" in str(handoffs[0].exception())
    assert "billing enters" in desk.log


def test_an_on_enter_may_speak_for_longer_than_its_limit() -> None:
    greeting = "one two three four five six seven eight nine ten."
    desk = Desk(enters=greeting, options=SessionOptions(speech=SpeechLimits(hook_timeout=1.0)))

    async def scenario(harness: SessionHarness) -> None:
        handoff = harness.session.update_agent(desk.billing)
        await handoff
        assert handoff.outcome == "completed"
        assert harness.now == pytest.approx(2.2)

    desk.harness.run(scenario).expect_history(("assistant", greeting))
