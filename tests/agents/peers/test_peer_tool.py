"""PeerTool: another agent as a tool of the model."""

from __future__ import annotations

import json
from typing import Annotated

import pytest
from pydantic import BaseModel, Field, field_validator

from kit.talking_peers import running, talker
from vivavoce.agents import Agent
from vivavoce.agents.peers import AgentCard, AgentRegistry, Peer, PeerServer, PeerTool
from vivavoce.agents.testing import ScriptedLLM
from vivavoce.agents.transports import TextTransport
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.llm.tools import ToolCall


class TaxQuestion(BaseModel):
    """Ask the specialist for taxes."""

    words: str = Field(description="The question")
    year: Annotated[int, Field(ge=1900)] = 2026
    tags: list[str] = Field(default_factory=list)

    @field_validator("words")
    @classmethod
    def _has_words(cls, words: str) -> str:
        if not words:
            raise ValueError("no words")
        return words


class TaxAnswer(BaseModel):
    form: str


def calls(name: str, **arguments: object) -> list[ToolCall]:
    return [ToolCall(call_id=new_id("call"), name=name, arguments=json.dumps(arguments))]


def test_the_fields_of_the_model_are_the_arguments_of_the_tool() -> None:
    tool = PeerTool("tax", TaxQuestion)
    assert (tool.name, tool.description) == ("ask_tax_question", "Ask the specialist for taxes.")
    schema = tool.parameters_schema()
    assert schema["required"] == ["words"]
    assert schema["properties"]["words"]["description"] == "The question"
    assert schema["properties"]["year"]["minimum"] == 1900
    assert list(schema["properties"]) == ["words", "year", "tags"]
    named = PeerTool("tax", TaxQuestion, name="tax", description="Taxes.")
    assert (named.name, named.description) == ("tax", "Taxes.")


def test_wrong_arguments_are_refused() -> None:
    for arguments in (("tax", str), ("tax", TaxAnswer(form="x")), (3, TaxQuestion)):
        with pytest.raises(ConfigurationError):
            PeerTool(*arguments)
    with pytest.raises(ConfigurationError, match="timeout"):
        PeerTool("tax", TaxQuestion, timeout=0)


async def test_the_model_asks_another_agent_by_its_id_and_is_told_what_went_wrong() -> None:
    asked: list[TaxQuestion] = []
    outputs: list[tuple[str, bool]] = []
    async with AgentRegistry() as registry, PeerServer() as server, running(talker("tax")) as tax:

        @tax.peers.on_message(TaxQuestion)
        async def answer(peer: Peer, question: TaxQuestion) -> TaxAnswer | str | None:
            asked.append(question)
            return {"which form?": TaxAnswer(form="A"), "note": None}.get(question.words, "Ask again.")

        server.add(tax)
        llm = ScriptedLLM(
            calls("ask_tax_question", words="which form?", year=2020),
            calls("ask_tax_question", words="note"),
            calls("ask_tax_question", words="x"),
            calls("ask_tax_question", words=""),
            calls("ask_nobody", words="x"),
            "Form A.",
        )
        tools = [PeerTool("tax", TaxQuestion), PeerTool("nobody", TaxQuestion, name="ask_nobody")]
        host = talker("host", CascadingPipeline(llm=llm), agent=Agent("x", tools=tools), registry=registry)
        host.on("tool_called", lambda event: outputs.append((event.output, event.is_error)))
        await registry.register(AgentCard("tax", server.url_of(tax)))
        async with host:
            chat = TextTransport()
            await host.start(chat)
            chat.send("which form?")
            assert (await chat.receive()).text == "Form A."
    assert outputs[:3] == [('{"form": "A"}', False), ("done", False), ("Ask again.", False)]
    assert outputs[3][1]
    assert "words: Value error, no words" in outputs[3][0]
    assert outputs[4] == ("The other agent gave no answer: the registry has no agent 'nobody'", True)
    assert [(one.words, one.year, one.tags) for one in asked] == [
        ("which form?", 2020, []),
        ("note", 2026, []),
        ("x", 2026, []),
    ]
