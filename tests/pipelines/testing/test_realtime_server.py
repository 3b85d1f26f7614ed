"""The scripted realtime server holds a conversation with the official SDK, and refuses requests as the protocol
does.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import pytest
from openai import APIStatusError, AsyncOpenAI, OpenAIError
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from websockets.exceptions import ConnectionClosedError, InvalidStatus

from vivavoce.pipelines.testing.realtime_server import (
    AnswerFault,
    AskedFor,
    ScriptedAnswer,
    ScriptedCall,
    ScriptedRealtimeServer,
    ScriptedWords,
)
from vivavoce.pipelines.testing.realtime_server.script import tone

SILENCE = bytes(24000 * 2)
"""A second."""

LIMIT = 60.0


class Client:
    """The official SDK, with its received events."""

    def __init__(self, connection: AsyncRealtimeConnection) -> None:
        self.connection = connection
        self.events: list[Any] = []

    @property
    def types(self) -> list[str]:
        """Of the events so far."""
        return [event.type for event in self.events]

    async def until(self, kind: str) -> Any:
        """Read on to the next event of a type."""
        with anyio.fail_after(LIMIT):
            while True:
                event = await self.connection.recv()
                self.events.append(event)
                if event.type == kind:
                    return event

    async def hear(self, pcm: bytes) -> None:
        """Push audio, 100 ms at a time."""
        for at in range(0, len(pcm), 4800):
            await self.connection.input_audio_buffer.append(audio=base64.b64encode(pcm[at : at + 4800]).decode())

    async def ask(self) -> Any:
        """Ask for an answer and read it to its end."""
        await self.connection.response.create()
        return (await self.until("response.done")).response


@asynccontextmanager
async def talking_to(server: ScriptedRealtimeServer, **session: Any) -> AsyncIterator[Client]:
    async with (
        AsyncOpenAI(api_key="secret", base_url=server.url) as sdk,
        sdk.realtime.connect(model="scripted") as connection,
    ):
        client = Client(connection)
        await client.until("session.created")
        if session:
            await connection.session.update(session=cast(Any, {"type": "realtime", **session}))
            await client.until("session.updated")
        yield client


NO_VAD = {"audio": {"input": {"turn_detection": None}}}
TEXT = {"output_modalities": ["text"], **NO_VAD}


async def test_a_spoken_turn_is_heard_transcribed_and_answered_with_speech() -> None:
    async with ScriptedRealtimeServer() as server:
        server.hears("What is the weather?")
        server.answers("It is sunny.")
        transcribing = {"audio": {"input": {"transcription": {"model": "gpt-4o-transcribe"}}}}
        async with talking_to(server, **transcribing) as client:
            await client.hear(SILENCE[:9600] + tone(1.0) + SILENCE)
            done = await client.until("response.done")

    started = next(event for event in client.events if event.type == "input_audio_buffer.speech_started")
    stopped = next(event for event in client.events if event.type == "input_audio_buffer.speech_stopped")
    assert started.audio_start_ms == 0  # 200 ms of silence, 300 of padding
    assert stopped.audio_end_ms == 1700
    words = next(e for e in client.events if e.type.endswith("transcription.completed"))
    assert (words.transcript, words.item_id) == ("What is the weather?", started.item_id)
    audio = b"".join(base64.b64decode(e.delta) for e in client.events if e.type == "response.output_audio.delta")
    assert len(audio) == 3 * round(0.2 * 24000) * 2
    deltas = [e.delta for e in client.events if e.type == "response.output_audio_transcript.delta"]
    assert "".join(deltas) == "It is sunny."
    assert done.response.status == "completed"
    assert done.response.output[0].content[0].transcript == "It is sunny."
    assert done.response.usage.output_token_details.audio_tokens == 12
    assert server.connection.conversation.texts == [("user", "What is the weather?"), ("assistant", "It is sunny.")]
    assert server.handshakes == [{"model": "scripted", "authorization": "Bearer secret"}]


async def test_the_events_of_an_answer_come_in_the_protocols_order() -> None:
    async with ScriptedRealtimeServer() as server:
        server.answers(ScriptedAnswer(text="Hi.", calls=(ScriptedCall(name="look", arguments='{"at": 1}'),)))
        async with talking_to(server, **NO_VAD) as client:
            client.events.clear()
            await client.ask()
            await client.until("rate_limits.updated")

    assert client.types == [
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        "response.output_audio.delta",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "conversation.item.done",
        "response.output_item.done",
        "response.output_item.added",
        "conversation.item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "conversation.item.done",
        "response.output_item.done",
        "response.done",
        "rate_limits.updated",
    ]


async def test_each_event_has_the_shape_that_the_sdk_declares() -> None:
    from openai.types.realtime import RealtimeServerEvent
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)
    async with ScriptedRealtimeServer() as server:
        server.hears("Hello", ScriptedWords(text="", failure="audio_unintelligible"))
        server.answers(ScriptedAnswer(text="Hi.", calls=(ScriptedCall(name="look"),)), "Yes.")
        async with talking_to(server, audio={"input": {"transcription": {"model": "whisper-1"}}}) as client:
            raw: list[bytes] = []
            await client.connection.send({"type": "response.cancel"})
            await client.hear(tone(0.5) + SILENCE + tone(0.5) + SILENCE)
            last = {"error", "conversation.item.input_audio_transcription.failed", "response.done"}
            with anyio.fail_after(LIMIT):
                while not last <= {json.loads(one)["type"] for one in raw}:
                    raw.append(await client.connection.recv_bytes())

    for one in raw:
        adapter.validate_json(one)


async def test_tools_are_called_and_their_outputs_answered() -> None:
    def mind(asked: AskedFor) -> ScriptedAnswer | str:
        outputs = [item["output"] for item in asked.items if item["type"] == "function_call_output"]
        if outputs:
            return f"It is {outputs[-1]}."
        assert asked.tools[0]["name"] == "weather"
        return ScriptedAnswer(calls=(ScriptedCall(name="weather", arguments='{"city": "Oslo"}'),))

    tool = {"type": "function", "name": "weather", "description": "The weather.", "parameters": {}}
    async with ScriptedRealtimeServer(mind=mind) as server, talking_to(server, **TEXT, tools=[tool]) as client:
        first = await client.ask()
        call = first.output[0]
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "cold"}
        await client.connection.conversation.item.create(item=output)  # type: ignore[arg-type]
        await client.until("conversation.item.done")
        second = await client.ask()

    assert (call.name, call.arguments) == ("weather", '{"city": "Oslo"}')
    assert second.output[0].content[0].text == "It is cold."


async def test_speech_interrupts_an_answer_and_what_was_heard_can_be_cut_to() -> None:
    async with ScriptedRealtimeServer() as server:
        server.answers(ScriptedAnswer(text="one two three four five six seven eight " * 8, speed=2), "Fine.")
        async with talking_to(server, audio={"input": {"turn_detection": {"type": "server_vad"}}}) as client:
            await client.connection.response.create()
            await client.until("response.output_audio.delta")
            await client.hear(tone(0.5))
            cut = (await client.until("response.done")).response
            item_id = cut.output[0].id
            await client.connection.conversation.item.truncate(item_id=item_id, content_index=0, audio_end_ms=100)
            await client.until("conversation.item.truncated")
            await client.hear(SILENCE)
            await client.until("response.done")

    assert (cut.status, cut.status_details.reason) == ("cancelled", "turn_detected")
    assert cut.output[0].status == "incomplete"
    assert server.asked[1].items[0]["content"] == [{"type": "output_audio", "transcript": None}]


def message(role: str, kind: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": kind, "text": "Hi"}]}


@pytest.mark.parametrize(
    ("kind", "fields", "code"),
    [
        ("input_audio_buffer.commit", {}, "input_audio_buffer_commit_empty"),
        ("input_audio_buffer.append", {"audio": "no base64!"}, "invalid_value"),
        ("response.cancel", {}, "response_cancel_not_active"),
        ("response.create", {"response": {"output_modalities": ["both"]}}, "invalid_value"),
        ("conversation.item.delete", {"item_id": "none"}, "item_delete_invalid_item_id"),
        ("conversation.item.retrieve", {"item_id": "none"}, "item_not_found"),
        ("conversation.item.create", {"item": message("assistant", "text")}, "invalid_value"),
        ("conversation.item.create", {"item": {"type": "function_call_output"}}, "missing_required_parameter"),
        ("session.update", {"session": {"modalities": ["text"]}}, "missing_required_parameter"),
        ("session.update", {"session": {"type": "realtime", "voice": "ash"}}, "unknown_parameter"),
        ("session.update", {"session": {"type": "realtime", "output_modalities": ["text", "audio"]}}, "invalid_value"),
        ("session.make_tea", {}, "invalid_value"),
    ],
)
async def test_what_the_protocol_does_not_allow_is_an_error_event_with_the_clients_event_id(
    kind: str, fields: dict[str, Any], code: str
) -> None:
    async with ScriptedRealtimeServer() as server, talking_to(server) as client:
        await client.connection.send_raw(json.dumps({"type": kind, "event_id": "mine", **fields}))
        error = (await client.until("error")).error
        await client.connection.session.update(session={"type": "realtime"})
        await client.until("session.updated")

    assert (error.code, error.event_id) == (code, "mine")


async def test_a_second_answer_at_a_time_is_refused() -> None:
    async with ScriptedRealtimeServer() as server:
        server.answers(ScriptedAnswer(text="Slow.", delay=30))
        async with talking_to(server, **TEXT) as client:
            await client.connection.response.create()
            await client.connection.response.create()
            error = (await client.until("error")).error
            await client.connection.response.cancel()
            cut = (await client.until("response.done")).response

    assert error.code == "conversation_already_has_active_response"
    assert (cut.status, cut.status_details.reason) == ("cancelled", "client_cancelled")


async def test_an_answer_out_of_band_leaves_the_conversation_alone() -> None:
    async with ScriptedRealtimeServer() as server:
        server.answers("A joke.")
        async with talking_to(server, **TEXT) as client:
            await client.connection.response.create(response={"conversation": "none", "metadata": {"a": "b"}})
            done = (await client.until("response.done")).response

    assert done.metadata == {"a": "b"}
    assert done.output[0].content[0].text == "A joke."
    assert server.connection.conversation.texts == []


async def test_a_late_transcript_comes_after_the_answer() -> None:
    async with ScriptedRealtimeServer() as server:
        server.hears(ScriptedWords(text="Hello", delay=0.5))
        server.answers("Hi.")
        async with talking_to(server, audio={"input": {"transcription": {"model": "whisper-1"}}}) as client:
            await client.hear(tone(0.5) + SILENCE)
            await client.until("conversation.item.input_audio_transcription.completed")

    assert "response.done" in client.types


async def test_a_transcription_session_transcribes_and_does_not_answer() -> None:
    async with ScriptedRealtimeServer() as server, AsyncOpenAI(api_key="x", base_url=server.url) as sdk:
        server.hears("Book a table")
        async with sdk.realtime.connect(extra_query={"intent": "transcription"}) as connection:
            client = Client(connection)
            await client.until("session.created")
            audio = {"input": {"transcription": {"model": "gpt-4o-transcribe"}}}
            await connection.session.update(session=cast(Any, {"type": "transcription", "audio": audio}))
            await client.until("session.updated")
            await client.hear(tone(0.5) + SILENCE)
            words = await client.until("conversation.item.input_audio_transcription.completed")

    assert words.transcript == "Book a table"
    assert server.asked == []


@pytest.mark.parametrize("fault", [AnswerFault.RATE_LIMIT, AnswerFault.FAIL])
async def test_an_answer_fails_on_demand_and_the_next_one_works(fault: AnswerFault) -> None:
    async with ScriptedRealtimeServer() as server:
        server.answers(ScriptedAnswer(text="one two three", fault=fault), "Fine.")
        async with talking_to(server, **TEXT) as client:
            failed, fine = await client.ask(), await client.ask()

    codes = {AnswerFault.RATE_LIMIT: "rate_limit_exceeded", AnswerFault.FAIL: "server_error"}
    assert (failed.status, failed.status_details.error.code) == ("failed", codes[fault])
    assert fine.output[0].content[0].text == "Fine."


async def test_when_the_script_is_over_an_answer_fails_and_says_so() -> None:
    async with ScriptedRealtimeServer() as server, talking_to(server, **TEXT) as client:
        failed = await client.ask()

    assert failed.status_details.error.code == "script_over"


async def test_the_connection_is_lost_on_demand() -> None:
    async with ScriptedRealtimeServer() as server:
        server.answers(ScriptedAnswer(text="one two", fault=AnswerFault.CLOSE))
        async with talking_to(server, **TEXT) as client:
            with pytest.raises(ConnectionClosedError):
                await client.ask()

    assert client.types[-1] == "response.output_text.delta"


async def test_a_session_expires_on_demand() -> None:
    async with ScriptedRealtimeServer() as server, talking_to(server) as client:
        await server.connection.expire()
        error = (await client.until("error")).error
        with pytest.raises((ConnectionClosedError, OpenAIError, StopAsyncIteration)):
            await anext(aiter(client.connection))

    assert error.code == "session_expired"


async def test_a_stalled_answer_says_nothing_more_and_keeps_the_connection() -> None:
    async with ScriptedRealtimeServer() as server:
        server.answers(ScriptedAnswer(text="one two", fault=AnswerFault.STALL))
        async with talking_to(server, **TEXT) as client:
            await client.connection.response.create()
            await client.until("response.output_text.delta")
            with anyio.move_on_after(0.3) as scope:
                await client.connection.recv()

    assert scope.cancelled_caught


async def test_a_frame_is_malformed_on_demand() -> None:
    async with ScriptedRealtimeServer() as server:
        server.answers(ScriptedAnswer(text="one two", fault=AnswerFault.MALFORMED))
        async with talking_to(server, **TEXT) as client:
            with pytest.raises(json.JSONDecodeError):
                await client.ask()
            done = await client.until("response.done")

    assert done.response.status == "completed"


async def test_events_come_out_of_order_on_demand() -> None:
    async with ScriptedRealtimeServer() as server:
        server.answers(ScriptedAnswer(text="one", fault=AnswerFault.OUT_OF_ORDER))
        async with talking_to(server, **TEXT) as client:
            await client.ask()

    assert client.types.index("response.output_text.delta") < client.types.index("response.output_item.added")


@pytest.mark.parametrize("status", [401, 429, 503])
async def test_a_handshake_is_refused_on_demand(status: int) -> None:
    async with ScriptedRealtimeServer() as server:
        server.refuse(status)
        with pytest.raises((InvalidStatus, APIStatusError)) as caught:
            async with talking_to(server):
                pass
        async with talking_to(server) as client:
            assert client.types == ["session.created"]

    assert str(status) in str(caught.value)
