"""What a session needs of an embedder: tokens in the usage, the budget and the report, and a span of each request."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kit.telemetry import Watching, kind_of
from vivavoce.agents import Agent, SessionOptions
from vivavoce.agents.budget import BudgetOptions, Price
from vivavoce.agents.events import ErrorOccurred, RetrievalMissed
from vivavoce.agents.knowledge import KnowledgeBase, KnowledgeOptions
from vivavoce.agents.reports.page import render
from vivavoce.agents.testing import HANG, ScriptedLLM, SessionHarness, ToolCall
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.testing import ScriptedEmbedder

QUESTION = "are you open on sundays"


def filled(embedder: ScriptedEmbedder) -> KnowledgeBase:
    base = KnowledgeBase(embedder=embedder)
    asyncio.run(base.add_text("We open at nine.", source="hours"))
    return base


def asking(
    embedder: ScriptedEmbedder, *steps: Any, mode: Any = "auto", watching: Watching | None = None, **options: Any
) -> SessionHarness:
    """A turn from 0.5 to 2.5 s, which is over at 2.9 s."""
    options["knowledge"] = KnowledgeOptions(base=filled(embedder), mode=mode)
    if watching is not None:
        options["telemetry"] = watching.telemetry
    harness = SessionHarness(Agent("Be nice."), ScriptedLLM(*steps), options=SessionOptions(**options))
    harness.caller.says(QUESTION, 0.5, 2.5, final_at=2.7)
    return harness


def meaning(**options: Any) -> ScriptedEmbedder:
    return ScriptedEmbedder(**options).when("open", 1, 0)


def test_the_tokens_of_a_search_count_in_the_session_and_its_turn_by_the_name_of_the_embedder() -> None:
    harness = asking(meaning(tokens=7), "Yes.").run(until=6.0)
    assert harness.session.usage.embedding_tokens == 7  # the documents were added outside of the session
    assert harness.session.usage.llm_input_tokens == 0
    assert [turn.usage.embedding_tokens for turn in harness.session.turns] == [7]
    report = harness.session.report()
    assert report.usage.embedding_tokens == 7
    page = render(report)
    assert "tokens embedded" in page
    assert "7 tokens embedded" in page


def test_the_cost_of_a_search_counts_in_the_budget() -> None:
    prices = {"scripted/embedder": Price(million_input=2.0)}
    harness = asking(meaning(tokens=500_000), "Yes.", budget=BudgetOptions(prices=prices)).run(until=6.0)
    budget = harness.session.report().budget
    assert budget is not None
    assert budget.cost == pytest.approx(1.0)


def test_an_embedder_without_a_price_is_reported_under_a_cost_limit() -> None:
    prices = {"scripted": Price()}
    harness = asking(meaning(), "Yes.", budget=BudgetOptions(prices=prices, cost=1.0)).run(until=6.0)
    errors = [str(event.error) for event in harness.recording.of(ErrorOccurred)]
    assert errors == ["'scripted/embedder' was used, which has no price; it counts as free"]


def test_tokens_that_an_embedder_does_not_report_are_estimated() -> None:
    harness = asking(meaning(), "Yes.").run(until=6.0)
    assert harness.session.usage.embedding_tokens == 6  # a token for each 4 bytes


def test_a_search_that_is_cut_counts_by_an_estimate_and_one_that_fails_does_not() -> None:
    harness = asking(ScriptedEmbedder(tokens=7).when("are you", delay=HANG), "Hm.").run(until=6.0)
    assert len(harness.recording.of(RetrievalMissed)) == 1
    assert harness.session.usage.embedding_tokens == 6
    failing = ScriptedEmbedder(tokens=7).when("are you", error=ProviderError("out of order", provider="scripted"))
    harness = asking(failing, "Hm.").run(until=6.0)
    assert harness.session.usage.embedding_tokens == 0


def test_an_answer_that_is_begun_ahead_counts_its_search_once_in_its_turn() -> None:
    harness = asking(meaning(tokens=7), "Yes.")
    harness.preemptive = True
    harness.run(until=6.0)
    assert harness.session.turns[0].preemptive
    assert harness.session.turns[0].usage.embedding_tokens == harness.session.usage.embedding_tokens == 7


def test_the_searches_of_the_model_and_those_on_request_count_too() -> None:
    call = ToolCall(call_id="1", name="search_knowledge", arguments='{"question": "open"}')
    harness = asking(meaning(tokens=7), [call], "Yes.", mode="tool").run(until=6.0)
    assert harness.session.usage.embedding_tokens == 7

    async def ask(harness: SessionHarness) -> None:
        await harness.session.knowledge.run_rag("open?")
        assert harness.session.usage.embedding_tokens == 7
        await harness.session.knowledge.session_base.add_text("The code is 17.", source="code")
        assert harness.session.usage.embedding_tokens == 14
        await harness.session.knowledge.run_session_rag("my code?")

    harness = SessionHarness(
        Agent("x"),
        ScriptedLLM("Yes.", "17."),
        options=SessionOptions(knowledge=KnowledgeOptions(base=filled(meaning(tokens=7)), mode="off")),
    )
    harness.run(ask, until=1.0)
    assert harness.session.usage.embedding_tokens == 21


def test_two_sessions_with_one_embedder_each_count_their_own() -> None:
    embedder = meaning(tokens=7)
    first, second = asking(embedder, "Yes.").run(until=6.0), asking(embedder, "Yes.").run(until=6.0)
    assert first.session.usage.embedding_tokens == second.session.usage.embedding_tokens == 7


def test_a_request_has_a_span_of_its_own_in_its_turn() -> None:
    watching = Watching()
    harness = asking(meaning(tokens=7), "Yes.", watching=watching).run(until=6.0)
    span = watching.one("embeddings")
    assert span.name == "embeddings embedder"
    attributes = {key: value for key, value in (span.attributes or {}).items() if key.startswith("gen_ai")}
    assert attributes == {
        "gen_ai.operation.name": "embeddings",
        "gen_ai.conversation.id": harness.session.id,
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "embedder",
        "gen_ai.embeddings.dimension.count": 2,
        "gen_ai.usage.input_tokens": 7,
    }
    assert QUESTION not in span.to_json()
    assert span.parent is not None
    assert span.parent.span_id == watching.one("turn").context.span_id
    tokens = [
        (point.sum, point.attributes["gen_ai.request.model"])
        for point in watching.points("gen_ai.client.token.usage")
        if point.attributes["gen_ai.operation.name"] == "embeddings"
    ]
    assert tokens == [(7, "embedder")]
    watching.check()


@pytest.mark.parametrize("is_late", [True, False])
def test_the_span_of_a_search_that_is_late_or_fails_says_so(is_late: bool) -> None:
    watching = Watching()
    error = ProviderError("out of order", provider="scripted")
    embedder = ScriptedEmbedder().when("are you", delay=HANG if is_late else 0.0, error=None if is_late else error)
    asking(embedder, "Hm.", watching=watching).run(until=6.0)
    attributes = watching.one("embeddings").attributes or {}
    assert (attributes.get("vivavoce.outcome"), "error.type" in attributes) == (
        ("cancelled", False) if is_late else (None, True)
    )
    assert "gen_ai.usage.input_tokens" not in attributes
    assert {kind_of(span) for span in watching.spans} >= {"embeddings", "turn"}
    watching.check()
