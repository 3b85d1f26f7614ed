"""Sessions that follow a conversation graph, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from kit.realtime import realtime_of
from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.events import GraphMoved
from vivavoce.agents.graphs import GraphOptions, PatternIntents, StateGraph
from vivavoce.agents.testing import ScriptedLLM, SessionHarness


class RealtimeHarness(SessionHarness):
    """A harness whose pipeline is a speech-to-speech model in whose turns the session decides."""

    pipeline_of = staticmethod(realtime_of)


def graph_harness(
    graph: StateGraph,
    llm: ScriptedLLM | None = None,
    *,
    agent: Agent | None = None,
    kind: type[SessionHarness] = SessionHarness,
    **options: Any,
) -> SessionHarness:
    """Return a harness whose session follows the graph."""
    given = SessionOptions(graph=GraphOptions(graph), **options)
    return kind(agent or Agent("You take bookings."), llm, options=given)


def way(harness: SessionHarness) -> list[str]:
    """Return the states to which the conversation moved, in order."""
    return [event.state for event in harness.recording.of(GraphMoved)]


def booking() -> StateGraph:
    """A booking: a greeting by a body, the details by the model, an end by a body; opening hours from everywhere."""
    graph = StateGraph(PatternIntents())
    book = graph.new_intent("book", ["a table for {people} on {day}", "book a table"], slots=None)
    hours = graph.new_intent("hours", ["when are you open", "opening hours"])
    bye = graph.new_intent("bye", ["goodbye"])
    greeting = graph.new_state("greeting", initial=True)
    details = graph.new_state("details", instructions="Ask for the day.")
    opening = graph.new_state("opening")
    done = graph.new_state("done")

    @greeting.body
    async def greet(session: AgentSession[Any]) -> AsyncIterator[str]:
        yield "Hello. "
        yield "A table for when?"

    @opening.body
    async def tell(session: AgentSession[Any]) -> AsyncIterator[str]:
        yield "We are open from five."

    @done.body
    async def leave(session: AgentSession[Any]) -> AsyncIterator[str]:
        yield "See you."

    greeting.when_intent_matched(book).go_to(details)
    details.when_intent_matched(bye).go_to(done)
    details.after(20).go_to(done)
    opening.set_global(hours)
    return graph
