"""A conversation flow that says something by itself, in `on_turn_start` or in the middle of `run`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from vivavoce.agents import Agent, ConversationFlow
from vivavoce.agents.testing import ScriptedLLM, SessionHarness


class Talker(ConversationFlow):
    """Speaks where `way` wants it to."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.ended = False

    async def on_turn_start(self, transcript: str) -> None:
        if self.way == "start":
            await self.session.say("Aside.")

    async def run(self, transcript: str) -> AsyncIterator[str]:
        yield "Before it. "
        if self.way == "await":
            await self.session.say("Aside.")
        elif self.way == "leave":
            _ = self.session.say("Aside.")
        elif self.way == "stop":
            _ = self.session.say("Aside, which is a long one that nobody hears to its end.")
            _ = self.session.interrupt()
        yield "After it."
        self.ended = True


def run(flow: Talker, *, until: float = 9.0) -> list[str]:
    """Return the agent's texts, in order."""
    harness = SessionHarness(Agent("Help."), ScriptedLLM())
    harness.caller.says("a table", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        harness.session.update_flow(flow)

    harness.run(scenario, until=until)
    return [text for role, text in harness.messages if role == "assistant"]


@pytest.mark.parametrize("way", ["await", "leave"])
def test_what_run_says_is_heard_after_what_it_yielded_before(way: str) -> None:
    flow = Talker(way)
    assert run(flow) == ["Before it.", "Aside.", "After it."]
    assert flow.ended


def test_what_on_turn_start_says_is_heard_before_the_answer() -> None:
    assert run(Talker("start")) == ["Aside.", "Before it. After it."]


def test_an_interrupt_in_run_stops_what_it_said_and_not_the_answer() -> None:
    flow = Talker("stop")
    said = run(flow)
    assert said[0] == "Before it."
    assert said[-1] == "After it."
    assert flow.ended
