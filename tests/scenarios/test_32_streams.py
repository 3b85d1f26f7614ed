"""Scenario 32: the words of a call are written to streams, in order, and agents get the items of theirs."""

from __future__ import annotations

from typing import Any

from kit.handoff import TRANSFER
from kit.streams import Reader
from vivavoce.agents import Agent, MemoryOptions, SessionOptions, function_tool
from vivavoce.agents.memory import StreamItem
from vivavoce.agents.testing import ScriptedLLM, SessionHarness


class Front(Reader):
    """Hands the caller over to another reader."""

    def __init__(self, to: Agent) -> None:
        super().__init__("front")
        self._to = to

    @function_tool
    async def transfer(self) -> Any:
        """Hand the caller over."""
        return self._to, "He knows."


class Clerk(Reader):
    """Gets all words from its first moment on."""

    async def on_enter(self) -> None:
        await self.session.memory.add_agent(self, tags=["transcript"])


def harness_of(agent: Agent, *script: Any) -> SessionHarness:
    return SessionHarness(agent, ScriptedLLM(*script, delay=0.1), options=SessionOptions(memory=MemoryOptions()))


async def written(harness: SessionHarness) -> list[tuple[str, str]]:
    """Return the words of both transcripts so far, by their times."""
    found: list[tuple[StreamItem, str]] = []
    for name in ("user_transcript", "agent_transcript"):
        stream = await harness.session.memory.open_stream(name)
        found += [(item, name) async for item in stream.read(follow=False)]
    return [(name, item.value) for item, name in sorted(found, key=lambda entry: entry[0].at)]


def test_the_words_of_both_sides_are_written_in_their_order_and_reach_the_agent() -> None:
    agent = Clerk("clerk")
    harness = harness_of(agent, "Hello.", "Two of them.")
    harness.caller.says("hello there", 0.5, 1.5)
    harness.caller.says("a table for two", 6.0, 7.5)
    read: list[tuple[str, str]] = []

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(12.0)
        read.extend(await written(harness))

    harness.run(scenario, until=12.0)
    assert read == [
        ("user_transcript", "hello there"),
        ("agent_transcript", "Hello."),
        ("user_transcript", "a table for two"),
        ("agent_transcript", "Two of them."),
    ]
    assert agent.items == read


def test_of_an_answer_that_is_cut_the_heard_words_are_written() -> None:
    harness = harness_of(Reader(), "One two three four five six seven eight nine ten.", "Good.")
    harness.caller.says("count please", 0.5, 1.5)
    harness.caller.says("stop it now", 3.2, 4.2)
    read: list[tuple[str, str]] = []

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(12.0)
        read.extend(await written(harness))

    harness.run(scenario, until=12.0)
    heard = [message.content for message in harness.session.history.messages("assistant")]
    assert len(heard) == 2
    assert heard[0] != "One two three four five six seven eight nine ten."
    assert [words for name, words in read if name == "agent_transcript"] == heard
    assert [words for name, words in read if name == "user_transcript"] == ["count please", "stop it now"]


def test_after_a_handoff_the_agent_with_the_floor_is_a_member_and_gets_its_items() -> None:
    clerk = Clerk("clerk")
    harness = harness_of(Front(clerk), [TRANSFER], "How can I help?")
    harness.caller.says("the clerk please", 0.5, 1.5)
    members: list[list[str]] = []

    async def scenario(harness: SessionHarness) -> None:
        for at in (0.4, 8.0):
            await harness.until(at)
            members.append([member.id for member in await harness.session.memory.list_agents()])

    harness.run(scenario, until=8.0)
    assert members == [["front"], ["clerk"]]
    assert clerk.items == [("user_transcript", "the clerk please"), ("agent_transcript", "How can I help?")]
