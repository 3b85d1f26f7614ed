"""The calls of OpenAI's Realtime API that no stream yields, and answers without tools: the wire, message by message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.llm.tools import ToolCall, ToolChoice, function_tool
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.realtime_model.base import RealtimeSetup
from vivavoce.plugins import openai
from vivavoce.plugins.openai.realtime_wire import RealtimeWire


@function_tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"cold in {city}"


class Served:
    """A wire, and the events of its server."""

    def __init__(self) -> None:
        self.posted: list[dict[str, Any]] = []
        self.wire = RealtimeWire(
            RealtimeSetup(tools=(weather,)),
            openai.RealtimeOptions(),
            post=self.posted.append,
            report=lambda event: None,
            failures=Failures(provider="openai"),
        )

    def sends(self, kind: str, **fields: Any) -> None:
        self.wire.feed(json.dumps({"type": kind, **fields}))

    def begins(self) -> None:
        self.sends("response.created", response={"id": "r1"})

    def calls(self, arguments: str = "{}") -> None:
        item = {"id": "i1", "type": "function_call", "call_id": "c1", "name": "weather", "arguments": arguments}
        self.sends("response.output_item.done", response_id="r1", item=item)

    def ends(self, status: str = "completed") -> None:
        details = {"error": {"code": "server_error"}} if status == "failed" else {"reason": "turn_detected"}
        self.sends("response.done", response={"id": "r1", "status": status, "status_details": details})

    @property
    def outputs(self) -> list[tuple[str, str]]:
        items = [message["item"] for message in self.posted if message["type"] == "conversation.item.create"]
        return [(item["call_id"], item["output"]) for item in items if item["type"] == "function_call_output"]

    @property
    def deleted(self) -> list[str]:
        return [message["item_id"] for message in self.posted if message["type"] == "conversation.item.delete"]


@pytest.mark.parametrize(
    ("is_closed", "status", "arguments"),
    [
        (True, "completed", "{}"),
        (True, "cancelled", '{"ci'),
        (False, "cancelled", '{"ci'),
        (False, "failed", "{}"),
        (False, "completed", "{}"),
    ],
    ids=["closed before its end", "cancelled here", "cut by the server", "failed", "closed before it was read"],
)
def test_a_call_that_no_stream_yields_gets_one_output(is_closed: bool, status: str, arguments: str) -> None:
    served = Served()
    served.begins()
    answer = served.wire.accept("r1")
    if is_closed:
        served.wire.give_up(answer)
    served.calls(arguments)
    served.ends(status)
    served.wire.give_up(answer)
    [(call_id, output)] = served.outputs
    assert (call_id, output.startswith("Not run: ")) == ("c1", True)


async def test_a_call_that_was_read_gets_its_output_from_the_session() -> None:
    served = Served()
    served.begins()
    answer = served.wire.accept("r1")
    served.calls()
    served.ends()
    read = [item async for item in answer.feed.items() if isinstance(item, ToolCall)]
    served.wire.give_up(answer)
    assert [call.call_id for call in read] == ["c1"]
    assert served.outputs == []


@pytest.mark.parametrize("is_over", [False, True])
def test_a_call_of_a_refused_answer_leaves_the_conversation_with_it(is_over: bool) -> None:
    served = Served()
    served.begins()
    if is_over:
        served.calls()
        served.ends()
        served.wire.refuse("r1")
    else:
        served.wire.refuse("r1")
        served.calls()
        served.ends("cancelled")
    assert (served.deleted, served.outputs) == (["i1"], [])


def test_an_answer_without_tools_is_asked_for_as_such() -> None:
    served = Served()
    choice = ToolChoice(mode="none")
    served.wire.ask(GenerateRequest(context=ChatContext(), tools=(weather,), tool_choice=choice))
    assert served.posted[-1]["response"]["tool_choice"] == "none"
