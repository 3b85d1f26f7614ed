"""A booking by a conversation graph in a room, on both servers: real ears, a real voice, real audio.

The graph and the caller's grammar are those of examples/booking_graph.py; pocketsphinx hears the caller's synthetic
speech. A realtime model behind a real websocket speaks for the same graph.
"""

from __future__ import annotations

import html
import runpy
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from livekit import rtc

from kit.e2e.calls import OPTIONS, Call, caller_and_agent
from kit.e2e.realtime_calls import caller_and_realtime_agent
from kit.e2e.room_endpoint import RoomEndpoint
from kit.telemetry import Watching
from vivavoce.agents import AgentSession
from vivavoce.agents.events import ErrorOccurred, GraphMoved
from vivavoce.agents.graphs import GraphOptions, StateGraph
from vivavoce.agents.reports.page import render
from vivavoce.pipelines.testing.realtime_server import AskedFor, ScriptedRealtimeServer
from vivavoce.plugins import pocketsphinx
from vivavoce.plugins.openai.realtime_messages import SAY

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(120),
    pytest.mark.test_all("a recogniser may mishear a word on a busy machine"),
]

EXAMPLE = Path(__file__).parents[2] / "examples" / "booking_graph.py"
SAYS = ("a table please", "when are you open", "goodbye", "for two people", "yes")
GREETING = "Hello, this is the corner table. What can I do for you?"
PATIENCE = 2.5
"""Seconds until the caller is asked again; the question takes most of them."""


def booking() -> tuple[StateGraph, str]:
    """Return the graph of the example, with a caller who is asked again soon, and the caller's grammar."""
    example: dict[str, Any] = runpy.run_path(str(EXAMPLE))
    graph: StateGraph = example["graph"]
    waiting = graph.new_state("waiting")

    @waiting.body
    async def ask_again(session: AgentSession[Any]) -> AsyncIterator[str]:
        yield "Are you still there?"

    example["check"].after(PATIENCE).go_to(waiting)
    waiting.when_intent_matched(example["yes"]).go_to(example["booked"])
    return graph, example["CALLER"]


def way(it: Call) -> list[tuple[str, str]]:
    """Return the states to which the conversation moved, and why."""
    return [(event.state, event.reason) for event in it.recording.of(GraphMoved)]


async def test_a_caller_books_a_table_by_the_graph(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    graph, grammar = booking()
    watching = Watching()
    options = replace(OPTIONS, graph=GraphOptions(graph), telemetry=watching.telemetry)
    async with caller_and_agent(room_server, room_name, agent_room, grammar=grammar, texts=SAYS, rate=240) as call:
        it = await call(options=options)
        await it.talker.hears_the_agent(for_seconds=0.5)
        it.talker.say("a table please")  # over the greeting
        await it.turns(1)
        it.talker.say("when are you open")  # a global state, and back
        await it.turns(2)
        it.talker.say("goodbye")  # no intent of the graph
        await it.turns(3)
        it.talker.say("for two people")
        await it.turns(4)
        await it.turns(2, kind="say")  # the greeting is the first
        it.talker.say("yes")
        turns = await it.turns(5)
        await it.session.close()
        size = it.session.memory.private.get("size")
    assert way(it) == [
        ("greeting", "begin"),
        ("size", "transition"),
        ("opening", "transition"),
        ("size", "return"),
        ("check", "transition"),
        ("waiting", "transition"),
        ("booked", "transition"),
    ]
    assert [text for who, text in it.messages if who == "user"] == list(SAYS)
    greeting, *answers = it.session.history.messages("assistant")
    assert (greeting.interrupted, GREETING.startswith(greeting.content)) == (True, True)
    assert [one.content for one in answers] == [
        "For how many people?",
        "We are open from five to eleven. For how many people?",
        "Pardon?",
        "A table for two people. Is that right?",
        "Are you still there?",
        "It is booked. Thank you for calling.",
    ]
    assert [(turn.graph_state, turn.outcome, len(turn.transitions)) for turn in turns] == [
        ("size", "completed", 1),
        ("size", "completed", 1),
        ("size", "completed", 0),
        ("check", "completed", 1),
        ("booked", "completed", 1),
    ]
    assert turns[1].transitions == ("set_global('hours') → 'opening'",)
    assert (size, it.llm.requests) == ("for two people", [])
    assert not it.recording.of(ErrorOccurred)
    spans = [(span.attributes or {})["vivavoce.turn.graph_state"] for span in watching.of("turn")]
    assert spans == [turn.graph_state for turn in turns]
    page = html.unescape(render(it.session.report()))
    assert all("; ".join([turn.graph_state, *turn.transitions]) in page for turn in turns)


def says(asked: AskedFor) -> str:
    """Say the text that the session has asked for."""
    return asked.instructions.removeprefix(SAY.format(""))


async def test_a_realtime_model_speaks_for_the_graph(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    graph, grammar = booking()
    server = ScriptedRealtimeServer(mind=says)
    options = replace(OPTIONS, graph=GraphOptions(graph))
    async with (
        pocketsphinx.STT(grammar=grammar, fillers=pocketsphinx.FILLERS) as ears,
        caller_and_realtime_agent(room_server, room_name, agent_room, texts=(SAYS[0], SAYS[3])) as call,
    ):
        it = await call(server, options=options, stt=ears)
        await it.talker.hears_the_agent(for_seconds=0.5)
        it.talker.say("a table please")  # over the greeting
        await it.turns(1)
        it.talker.say("for two people")
        turns = await it.turns(2)
        await it.session.close()
    assert way(it) == [("greeting", "begin"), ("size", "transition"), ("check", "transition")]
    greeting, *answers = it.session.history.messages("assistant")
    assert greeting.interrupted
    assert [one.content for one in answers] == ["For how many people?", "A table for two people. Is that right?"]
    assert [text for who, text in it.messages if who == "user"] == ["a table please", "for two people"]
    assert [(turn.graph_state, turn.outcome) for turn in turns] == [("size", "completed"), ("check", "completed")]
    assert not it.recording.of(ErrorOccurred)
