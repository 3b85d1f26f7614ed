"""Requests and answers of a model, in the words of the GenAI conventions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vivavoce.agents.telemetry.tracing.model_messages import MOST_CHARACTERS, answered, asked
from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.llm.chat_items import AgentHandoff, ChatMessage, ConfigChange
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.media.frame import VideoFrame


def messages(context: ChatContext) -> list[Any]:
    return list(json.loads(str(asked(GenerateRequest(context=context))["gen_ai.input.messages"])))


def test_what_no_model_is_told_is_not_told_here() -> None:
    context = ChatContext(
        [
            AgentHandoff(old_agent="a", new_agent="b"),
            ConfigChange(instructions="secret"),
            ChatMessage(role="user", content="hi"),
        ]
    )
    assert messages(context) == [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]


def test_a_picture_is_named_and_not_sent() -> None:
    picture = VideoFrame(b"pixels", "image/jpeg", 30, 20)
    context = ChatContext([ChatMessage(role="user", content="look", images=(picture,))])
    (message,) = messages(context)
    assert message["parts"] == [{"type": "text", "content": "look"}, {"type": "image", "mime_type": "image/jpeg"}]


def test_standing_and_extra_instructions_are_parts_of_their_own() -> None:
    request = GenerateRequest(context=ChatContext(), instructions="Be kind.", extra_instructions="Be brief.")
    told = json.loads(str(asked(request)["gen_ai.system_instructions"]))
    assert [part["content"] for part in told] == ["Be kind.", "Be brief."]
    assert "gen_ai.system_instructions" not in asked(GenerateRequest(context=ChatContext()))


def test_of_a_long_conversation_the_newest_messages_are_told_whole_and_the_others_counted() -> None:
    context = ChatContext([ChatMessage(role="user", content=f"{number} " + "x" * 1000) for number in range(200)])
    found = asked(GenerateRequest(context=context))
    told = messages(context)
    assert len(str(found["gen_ai.input.messages"])) < MOST_CHARACTERS + 2000
    assert len(told) > 20
    assert [message["parts"][0]["content"].split()[0] for message in told] == [
        str(number) for number in range(200 - len(told), 200)
    ]
    assert found["vivavoce.llm.messages_left_out"] == 200 - len(told)


def test_a_message_that_is_longer_than_that_by_itself_is_told_whole() -> None:
    context = ChatContext([ChatMessage(role="user", content="x" * (2 * MOST_CHARACTERS))])
    assert len(messages(context)[0]["parts"][0]["content"]) == 2 * MOST_CHARACTERS
    assert "vivavoce.llm.messages_left_out" not in asked(GenerateRequest(context=context))


@pytest.mark.parametrize(
    "arguments",
    ["{day: ", '{"day": NaN}', "[" * 100_000, '{"day": ' * 300 + "1" + "}" * 300],
    ids=["cut off", "no number", "no end", "too deep"],
)
def test_arguments_that_are_no_json_are_told_as_the_model_wrote_them(arguments: str) -> None:
    (message,) = json.loads(answered("", [ToolCall(call_id="c", name="f", arguments=arguments)], "stop")[OUTPUT])
    assert message["parts"] == [{"type": "tool_call", "id": "c", "name": "f", "arguments": arguments}]


def test_half_of_a_surrogate_pair_does_not_cost_the_rest() -> None:
    call = ToolCall(call_id="c", name="f", arguments='{"what": "\\ud83d"}')
    told = answered("Well \ud83d", [call], "stop")[OUTPUT]
    text, asked_for = json.loads(told.encode())[0]["parts"]  # as OTLP has it
    assert (text["content"], asked_for["arguments"]) == ("Well \ufffd", {"what": "\ufffd"})


def test_an_answer_that_was_cut_off_has_an_error_for_its_finish_reason_and_none_is_no_message() -> None:
    (message,) = json.loads(answered("Well", [], "")[OUTPUT])
    assert message["finish_reason"] == "error"
    assert answered("", [], "stop") == {}


OUTPUT = "gen_ai.output.messages"
