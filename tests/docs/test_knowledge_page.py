"""docs/knowledge.md: its code runs, and shows what the page says."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from vivavoce.agents import Agent, SessionOptions
from vivavoce.agents.events import KnowledgeUnanswered
from vivavoce.agents.knowledge import KnowledgeBase, KnowledgeOptions
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, ToolCall
from vivavoce.agents.transports import TextTransport
from vivavoce.pipelines import CascadingPipeline

TEXT = (Path(__file__).parents[2] / "docs" / "knowledge.md").read_text(encoding="utf-8")
FILL, EMBED, CALL, ASK, TESTS = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.M | re.S)


def run(code: str) -> dict[str, Any]:
    """Run code of the page; return its names."""
    names: dict[str, Any] = {}
    exec(code, names)
    return names


async def test_documents_are_added_and_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "handbook.txt").write_text("Parcels are returned within thirty days.")
    async with KnowledgeBase() as base:
        await run(FILL)["fill"](base)
    assert capsys.readouterr().out == "1.00 hours: We open at nine. On Sundays the shop is closed.\n"


def test_a_base_may_have_an_embedder() -> None:
    assert run(EMBED)["base"].embedder.dimensions == 768


async def test_a_call_reports_what_the_documents_lack(capsys: pytest.CaptureFixture[str]) -> None:
    async with KnowledgeBase() as base:
        await base.add_text("We open at nine.", source="hours")
        session = run(CALL)["answering"](CascadingPipeline(llm=ScriptedLLM("I do not know.")), base)
        told = asyncio.Event()
        session.on(KnowledgeUnanswered, lambda event: told.set())
        async with session:
            chat = TextTransport()
            await session.start(chat)
            chat.send("Do you sell violins?")
            await told.wait()
    assert capsys.readouterr().out == "to be written: Do you sell violins?\n"


def test_a_tool_answers_from_documents_of_the_session() -> None:
    call = ToolCall(call_id="1", name="look_up", arguments='{"question": "When does my contract end?"}')
    llm = ScriptedLLM([call], "In May.", "It ends in May.")
    options = SessionOptions(knowledge=KnowledgeOptions())
    harness = SessionHarness(Agent("x", tools=[run(ASK)["look_up"]]), llm, options=options)
    harness.caller.says("when does my contract end", 0.5, 2.0)
    harness.run(until=6.0)
    harness.expect_tools(("look_up", "In May."))
    assert "The contract ends in May." in "".join(llm.requests[1].texts())


def test_the_tests_of_the_page_pass() -> None:
    tests = [test for name, test in run(TESTS).items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()
