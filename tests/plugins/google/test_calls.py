"""Tool calls of google.RealtimeModel: each gets exactly one output, at the right time."""

from __future__ import annotations

from contextlib import aclosing

import anyio
import pytest

from kit.gemini_session import ASKING, CALL, LOCAL, REMOTE, WAITS, model, session
from kit.open_connection import words
from vivavoce.pipelines.llm.base import LLMEvent
from vivavoce.pipelines.llm.chat_context import ChatMessage, FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.realtime_model.base import (
    RealtimeEnding,
    RealtimeReplyStarted,
    RealtimeSetup,
)
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.plugins.google.twin.live import LiveTwin, Turn


async def test_outputs_are_sent_together_when_an_answer_is_asked_for_unless_the_server_has_cancelled_their_calls(
    server: LiveTwin,
) -> None:
    async with session(server) as opened:
        server.answers(Turn(calls=(CALL, {**CALL, "id": "c2"})), "Cold.")
        calls = [item for item in await opened.answer() if isinstance(item, ToolCall)]
        await server.send({"toolCallCancellation": {"ids": ["c2"]}})
        await server.send({"goAway": {"timeLeft": "50s"}})
        await opened.until(lambda: opened.of(RealtimeEnding))
        for call in calls:
            opened.connection.append(FunctionCallOutput(call_id=call.call_id, name="weather", output="cold"))
        assert words(await opened.answer()) == "Cold."

    assert [(call.call_id, call.arguments) for call in calls] == [(one, '{"city": "Oslo"}') for one in ("c1", "c2")]
    sent = [message["tool_response"] for message in server.received if "tool_response" in message]
    assert len(sent) == 1
    assert [one["id"] for one in sent[0]["functionResponses"]] == ["c1"]


async def test_a_result_goes_at_once_to_an_answer_that_was_asked_for_and_has_not_begun(server: LiveTwin) -> None:
    async with session(server, name=WAITS) as opened:
        server.answers(Turn(calls=(CALL,)), Turn(ends=False), "Cold.")  # it waits for the output
        [call] = [item for item in await opened.answer() if isinstance(item, ToolCall)]
        opened.connection.append(ChatMessage(role="user", content="Are you there?"))
        answer: list[LLMEvent | AudioChunk] = []

        async def ask() -> None:
            answer.extend(await opened.answer())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await server.got(lambda message: "client_content" in message, 2)
            opened.connection.append(FunctionCallOutput(call_id=call.call_id, name="weather", output="cold"))
        assert words(answer) == "Cold."

    sent = [message["tool_response"] for message in server.received if "tool_response" in message]
    assert [one["id"] for response in sent for one in response["functionResponses"]] == ["c1"]
    assert model(server).capabilities.answers_results


async def test_the_model_learns_what_became_of_calls_that_it_cancelled(server: LiveTwin) -> None:
    async with session(server) as opened:
        server.answers(Turn(calls=(CALL, {**CALL, "id": "c2"})), "I see.")
        first, second = [item for item in await opened.answer() if isinstance(item, ToolCall)]
        opened.connection.append(FunctionCallOutput(call_id=first.call_id, name="weather", output="icy"))
        await server.send({"toolCallCancellation": {"ids": ["c1", "c2"]}})
        await server.send({"goAway": {"timeLeft": "50s"}})
        await opened.until(lambda: opened.of(RealtimeEnding))
        opened.connection.append(FunctionCallOutput(call_id=second.call_id, name="weather", output="mild"))
        assert words(await opened.answer()) == "I see."

    assert not [message for message in server.received if "tool_response" in message]
    contents = [message["client_content"] for message in server.received if "client_content" in message]
    told = [part["text"] for one in contents for turn in one.get("turns") or [] for part in turn["parts"]]
    [note] = told
    assert "icy" in note
    assert "mild" in note


@pytest.mark.parametrize("setup", [LOCAL, REMOTE], ids=["local", "remote"])
async def test_a_call_of_a_refused_answer_gets_one_output(server: LiveTwin, setup: RealtimeSetup) -> None:
    async with session(server, setup, name=WAITS) as opened:
        server.answers(Turn(calls=(CALL,)))
        if setup is REMOTE:  # that server would hear the next turn and wait
            server.answers(Turn(text="I cannot look.", ends=False))
        server.answers("Fine.")
        await server.play()
        await opened.until(lambda: opened.of(RealtimeReplyStarted))
        opened.connection.refuse(opened.of(RealtimeReplyStarted)[0].reply_id)
        if setup is REMOTE:
            await server.got(lambda message: message.get("client_content") is not None)
            await server.send({"serverContent": {"interrupted": True}})
        assert words(await opened.answer()) == "Fine."

    sent = [message["tool_response"] for message in server.received if "tool_response" in message]
    [output] = [one for response in sent for one in response["functionResponses"]]
    assert len(opened.of(RealtimeReplyStarted)) == 1
    assert output["id"] == "c1"
    assert output["response"]["error"].startswith("Not run: ")


async def test_a_call_that_comes_after_its_answer_was_closed_gets_one_output(server: LiveTwin) -> None:
    async with session(server) as opened:
        server.answers(Turn(text="one two", ends=False), "Fine.")
        async with aclosing(opened.connection.generate(ASKING)) as answer:
            await anext(answer)
        await server.send({"toolCall": {"functionCalls": [CALL]}})
        assert words(await opened.answer()) == "Fine."

    sent = [message["tool_response"] for message in server.received if "tool_response" in message]
    [output] = [one for response in sent for one in response["functionResponses"]]
    assert output["response"]["error"].startswith("Not run: ")
