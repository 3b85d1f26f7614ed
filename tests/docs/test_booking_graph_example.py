"""examples/booking_graph.py in virtual time: a booking, a question beside it, words that fit nothing."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from vivavoce.agents import Agent, SessionOptions
from vivavoce.agents.graphs import GraphOptions
from vivavoce.agents.testing import SessionHarness

EXAMPLE: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "booking_graph.py"))


def test_a_caller_books_a_table_by_the_graph() -> None:
    options = SessionOptions(graph=GraphOptions(EXAMPLE["graph"]))
    harness = SessionHarness(Agent("You take table bookings."), options=options)
    for at, words in ((6, "a table please"), (10, "when are you open"), (17, "bananas"), (21, "for two people")):
        harness.caller.says(words, at, at + 0.8)
    harness.caller.says("when are you open", 26, 26.8)
    harness.caller.says("yes", 33, 33.5)
    harness.run(until=39.0)

    assert [text for role, text in harness.messages if role == "assistant"] == [
        "Hello, this is the corner table. What can I do for you?",
        "For how many people?",
        "We are open from five to eleven. For how many people?",
        "Pardon?",
        "A table for two people. Is that right?",
        "We are open from five to eleven. A table for two people. Is that right?",
        "It is booked. Thank you for calling.",
    ]
    assert harness.session.memory.private.get("size") == "for two people"
    assert harness.llm.requests == []
