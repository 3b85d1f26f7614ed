"""Briefing: the person of a warm transfer is told who calls, and decides by the model's tools or by a key."""

from __future__ import annotations

import pytest

from vivavoce.agents import Agent
from vivavoce.agents.telephony import Briefing
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.llm.tools import ToolCall


def a_briefing(briefing: Briefing, *answers: object, says: str = "", presses: str = "") -> SessionHarness:
    harness = SessionHarness(briefing, ScriptedLLM(*answers))  # type: ignore[arg-type]  # steps of any kind
    if says:
        harness.caller.says(says, 4.0, 5.0)
    if presses:
        harness.caller.presses(presses, 4.0)
    return harness.run(until=12.0)


@pytest.mark.parametrize(
    ("name", "arguments", "is_taken", "reason"),
    [("take_call", "{}", True, ""), ("decline_call", '{"reason": "in a meeting"}', False, "in a meeting")],
)
def test_the_person_decides_in_words(name: str, arguments: str, is_taken: bool, reason: str) -> None:
    briefing = Briefing("A caller wants to book.")
    harness = a_briefing(briefing, [ToolCall(call_id="c", name=name, arguments=arguments)], "Well.", says="all right")
    assert (briefing.is_taken, briefing.reason) == (is_taken, reason)
    assert harness.messages[0] == ("assistant", "A caller wants to book.")


@pytest.mark.parametrize(("keys", "is_taken"), [("1", True), ("2", False), ("5", None), ("12", True)])
def test_the_person_decides_by_a_key_and_the_first_decision_counts(keys: str, is_taken: bool | None) -> None:
    briefing = Briefing("A caller.")
    a_briefing(briefing, presses=keys)
    assert briefing.is_taken is is_taken


def test_the_model_gets_the_conversation_with_the_caller_and_finds_the_words() -> None:
    call = SessionHarness(Agent("Help."), ScriptedLLM("I will ask."))
    call.caller.says("my bill is wrong", 1.0, 2.0)
    call.run(until=6.0)
    harness = a_briefing(Briefing(history=call.session.history), "Somebody has a wrong bill. Do you take the call?")
    [request] = harness.llm.requests
    assert "user: my bill is wrong\nassistant: I will ask." in request.instructions
    assert harness.messages == [("assistant", "Somebody has a wrong bill. Do you take the call?")]
