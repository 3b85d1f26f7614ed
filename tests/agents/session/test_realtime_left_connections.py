"""A session whose model needs a new connection: the words that the old one still owes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from vivavoce.agents import Agent, EndpointingOptions, SessionOptions, function_tool
from vivavoce.agents.agent import CompletedTurn
from vivavoce.agents.events import ConnectionReplaced, ErrorOccurred
from vivavoce.agents.testing import ScriptedRealtimeModel, SessionHarness
from vivavoce.pipelines.llm.chat_context import ChatMessage
from vivavoce.pipelines.llm.chat_items import NO_TRANSCRIPT
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities, RealtimeEnding
from vivavoce.pipelines.testing import ScriptedVAD
from vivavoce.pipelines.testing.scripted_realtime import ScriptedRealtimeConnection

FIXED = RealtimeCapabilities(updates=False)
CALL = ToolCall(call_id="c1", name="move_on", arguments="{}")


class Host(Agent):
    """Hands off, or takes new instructions, in a tool."""

    def __init__(self, to: Agent | None = None) -> None:
        super().__init__("Help.")
        self.to = to

    @function_tool
    def move_on(self) -> Agent | None:
        """Go on."""
        if self.to is None:
            self.update_instructions("Be quick.")
        return self.to


class Other(Agent):
    def __init__(self) -> None:
        super().__init__("Be new.")

    async def on_enter(self) -> None:
        _ = self.session.reply("Say who you are.")


class Changing(Agent):
    """Takes new instructions in the hook of a turn, so that the next answer needs a new connection."""

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        self.update_instructions("Be quick.")


def listening(model: ScriptedRealtimeModel, agent: Agent, **more: Any) -> SessionHarness:
    return SessionHarness(agent, model=model, pipeline=RealtimePipeline(model, vad=ScriptedVAD()), **more)


def told(connection: ScriptedRealtimeConnection) -> list[tuple[str, str]]:
    """Return the messages that a connection was given as text."""
    items = [*connection.setup.history, *connection.record.appended]
    return [(item.role, item.content) for item in items if isinstance(item, ChatMessage)]


@pytest.mark.parametrize("agent", [lambda: Host(Other()), lambda: Host()], ids=["handoff", "update_instructions"])
def test_words_that_come_after_a_new_connection_was_needed_are_in_its_history(agent: Any) -> None:
    model = ScriptedRealtimeModel([CALL], "Welcome.", hears=["a table"], capabilities=FIXED, transcript_delay=0.05)
    harness = listening(model, agent())
    harness.caller.makes_noise(0.5, 1.0)
    harness.run(until=6.0)
    first, second = model.connections
    harness.expect_history(("user", "a table"), ("assistant", "Welcome."))
    assert told(second)[0] == ("user", "a table")
    assert (first.is_closed, second.record.commits) == (True, [])
    assert harness.recording.of(ErrorOccurred) == []


@pytest.mark.parametrize("delay", [0.05, 0.9])
def test_a_turn_whose_answer_needs_a_new_connection_is_heard_by_that(delay: float) -> None:
    model = ScriptedRealtimeModel("Sure.", hears=["a table", "a table"], capabilities=FIXED, transcript_delay=delay)
    harness = listening(model, Changing("Help."))
    harness.caller.makes_noise(0.5, 1.0)
    harness.run(until=6.0)
    first, second = model.connections
    assert (len(first.record.commits), len(second.record.commits)) == (1, 1)
    assert second.record.pushed_seconds >= 0.5
    harness.expect_history(("user", "a table"), ("assistant", "Sure.")).expect_outcomes("completed")


@pytest.mark.parametrize("deletes", [True, False])
def test_words_that_complete_a_message_while_the_new_connection_opens_reach_it(deletes: bool) -> None:
    can = replace(FIXED, deletes=deletes)
    hears, timing = ["part one", "part two"], {"transcript_delay": 0.6, "open_delay": 0.8}
    model = ScriptedRealtimeModel([1.0, "Sure."], [0.1, CALL], "Welcome.", hears=hears, capabilities=can, **timing)
    harness = listening(model, Host())
    harness.caller.makes_noise(1.5, 2.0)
    harness.caller.makes_noise(2.6, 3.0)  # one turn: the words of its second part come at 4.0
    harness.run(until=8.0)
    second = model.connections[1]
    harness.expect_history(("user", "part one part two"), ("assistant", "Welcome."))
    assert told(second) == [("user", "part one"), ("user", "part one part two")]
    assert len(second.record.deleted) == deletes


def test_words_that_are_too_late_for_the_old_connection_are_lost_with_it() -> None:
    endpointing = EndpointingOptions(transcript_timeout=0.5)
    model = ScriptedRealtimeModel([CALL], "Welcome.", hears=["a table"], capabilities=FIXED, transcript_delay=0.6)
    harness = listening(model, Host(Other()), options=SessionOptions(endpointing=endpointing))
    harness.caller.makes_noise(0.5, 1.0)
    closed: list[bool] = []

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.85)
        closed.append(model.connections[0].is_closed)
        await harness.until(1.95)
        closed.append(model.connections[0].is_closed)

    harness.run(scenario, until=6.0)
    assert closed == [False, True]  # it was left at 1.4
    harness.expect_history(("user", NO_TRANSCRIPT), ("assistant", "Welcome."))


def test_servers_that_number_the_items_of_each_connection_alike_are_told_apart() -> None:
    model = ScriptedRealtimeModel(
        [CALL], "Welcome.", "Sure.", hears=["a table", "for two"], capabilities=FIXED, transcript_delay=1.5
    )
    harness = listening(model, Host(Other()))
    harness.caller.makes_noise(0.5, 1.0)  # its words would come at 2.9, and the old connection is closed at 2.4
    harness.caller.makes_noise(3.0, 3.5)
    harness.run(until=8.0)
    assert [text for role, text in harness.messages if role == "user"] == [NO_TRANSCRIPT, "for two"]


def test_the_new_connection_serves_at_once_while_the_old_one_is_waited_for() -> None:
    model = ScriptedRealtimeModel(
        [CALL], "Welcome.", "Sure.", hears=["a table", "for two"], capabilities=FIXED, transcript_delay=0.9
    )
    harness = listening(model, Host(Other()))
    harness.caller.makes_noise(0.5, 1.0)
    harness.caller.makes_noise(1.7, 2.3)
    harness.run(until=6.0)
    [event] = harness.recording.of(ConnectionReplaced)
    assert (event.reason, event.gap) == ("update", 0.0)
    assert [text for role, text in harness.messages if role == "user"] == ["a table", "for two"]
    assert told(model.connections[1])[-1] == ("user", "a table")


def test_the_words_that_the_old_connection_owes_do_not_break_into_an_answer() -> None:
    model = ScriptedRealtimeModel([CALL], ["One.", 1.0, " Two."], hears=["a table"], capabilities=FIXED)
    harness = listening(model, Host(Other()))
    harness.caller.makes_noise(0.5, 1.0)
    seen: list[list[tuple[str, str]]] = []

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.0)  # the words came at 1.7, and the answer is made until 2.4
        seen.append(told(model.connections[1]))

    harness.run(scenario, until=6.0)
    assert ("user", "a table") not in seen[0]
    assert ("user", "a table") in told(model.connections[1])


def test_a_connection_that_is_renewed_still_gives_the_words_that_it_owes() -> None:
    model = ScriptedRealtimeModel("Sure.", hears=["a table"], transcript_delay=3.0)
    harness = listening(model, Agent("Help."))
    harness.caller.makes_noise(0.5, 1.0)

    async def scenario(harness: SessionHarness) -> None:
        model.emit(RealtimeEnding(13.5))  # due at 3.5

    harness.run(scenario, until=6.0)
    first, second = model.connections
    harness.expect_history(("user", "a table"), ("assistant", "Sure."))
    assert told(second) == [("assistant", "Sure."), ("user", "a table")]


def test_an_answer_that_is_asked_for_while_the_new_connection_opens_waits_for_it() -> None:
    model = ScriptedRealtimeModel("Sure.", capabilities=FIXED, open_delay=0.5)
    harness = listening(model, agent := Agent("Help."))

    async def scenario(harness: SessionHarness) -> None:
        agent.update_instructions("Be quick.")
        await harness.until(harness.now + 0.2)
        await harness.session.reply("Greet.")

    harness.run(scenario, until=3.0)
    first, second = model.connections
    assert (first.setup.instructions, second.setup.instructions) == ("Help.", "Be quick.")
    harness.expect_played((1.0, 0.2))  # asked for at 0.7


def test_the_words_of_a_turn_that_two_connections_heard_are_one_message() -> None:
    model = ScriptedRealtimeModel(["Sure."], ["Again."], hears=["a table", "a table"], transcript_delay=0.5)
    harness = listening(model, Agent("Help."))
    harness.caller.makes_noise(0.5, 1.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.7)  # the first has named the turn's audio at 1.4, and would have its words at 1.9
        model.fail()

    harness.run(scenario, until=6.0)
    assert [len(connection.record.commits) for connection in model.connections] == [1, 1]
    harness.expect_history(("user", "a table"), ("assistant", "Sure."))


def test_a_turn_that_no_connection_heard_leaves_the_names_of_the_next_ones_right() -> None:
    model = ScriptedRealtimeModel(
        "One.", "Two.", "Three.", hears=["second", "third"], open_delay=4.0, transcript_delay=0.5
    )
    harness = listening(model, Agent("Help."))

    async def scenario(harness: SessionHarness) -> None:
        model.fail()
        now = harness.now
        for start in (0.5, 2.0, 6.0):
            harness.caller.makes_noise(round(now + start, 2), round(now + start + 0.6, 2))
        await harness.until(now + 12.0)

    harness.run(scenario)
    texts = [text for role, text in harness.messages if role == "user"]
    assert texts[-1] == "third"
    assert "second" in texts[-2]


def test_late_words_of_an_answer_that_was_cut_come_over_the_old_connection_too() -> None:
    can = replace(FIXED, truncates=False)
    model = ScriptedRealtimeModel("Welcome.", hears=["a table"], capabilities=can, transcript_delay=0.9)
    harness = listening(model, agent := Agent("Help."))
    harness.caller.makes_noise(0.5, 1.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.7)
        agent.update_instructions("Be quick.")
        await harness.until(1.8)
        model.connections[0].server.transcript("Welcome.", "answer_1", True, "assistant")

    harness.run(scenario, until=6.0)
    harness.expect_history(("user", "a table"), ("assistant", "Welcome."))
