"""google.RealtimeModel against a scripted server, through the real SDK: the port's promises, and failures."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import Any

import anyio
import pytest

from kit.gemini_session import ASKING, CALL, REMOTE, model, session, weather
from kit.limits import LIMIT
from kit.open_connection import Session, words
from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    ProviderConnectionError,
    ProviderError,
    ProviderStatusError,
)
from vivavoce.pipelines.llm.base import Done, GenerateRequest, Usage
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage, FunctionCall, FunctionCallOutput
from vivavoce.pipelines.media.frame import AudioFrame, VideoFrame
from vivavoce.pipelines.realtime_model.base import (
    RealtimeEnding,
    RealtimeInputCommitted,
    RealtimeProblem,
    RealtimeReplyCancelled,
    RealtimeReplyStarted,
    RealtimeResumable,
    RealtimeSetup,
    RealtimeSpeechEnded,
    RealtimeSpeechStarted,
    RealtimeTranscript,
)
from vivavoce.pipelines.testing import check_failure, check_realtime_model
from vivavoce.pipelines.testing.realtime_server.script import tone
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.plugins import google
from vivavoce.plugins.google.twin.live import LiveTwin, Turn


def mind(received: list[dict[str, Any]]) -> Turn | str:
    """Call the tool once, then talk."""
    if any("tool_response" in message for message in received):
        return Turn(text="It is cold in Oslo, and it will stay so.", delay=0.01)
    return Turn(text="One moment.", calls=(CALL,))


async def test_it_keeps_the_promises_of_a_realtime_model() -> None:
    async with LiveTwin(mind) as server:
        await check_realtime_model(lambda: model(server), ASKING, AudioFrame(tone(0.6), 24000), limit=LIMIT)


async def test_it_keeps_them_with_answers_in_text() -> None:
    setup = RealtimeSetup(turn_detection="local", answers="text")
    async with LiveTwin() as server, session(server, setup, generates_text=True) as opened:
        server.answers("one two")
        answer = await opened.answer()
    assert words(answer) == "one two"
    assert not [item for item in answer if isinstance(item, AudioChunk)]


async def test_a_connection_begins_with_the_settings_and_the_past(server: LiveTwin) -> None:
    past = ChatContext(
        (
            ChatMessage(role="user", content="Is it cold?"),
            FunctionCall(call_id="c1", name="weather", arguments='{"city": "Oslo"}'),
            FunctionCallOutput(call_id="c1", name="weather", output="cold"),
            ChatMessage(role="assistant", content="Yes, it", interrupted=True),
        )
    )
    setup = RealtimeSetup(instructions="Be brief.", tools=(weather,), history=past)
    async with session(server, setup, voice="Puck", language="en-US", silence=0.7):
        await server.got(lambda message: "client_content" in message)

    sent = server.setups[0]
    assert sent["model"] == "models/m"
    assert sent["systemInstruction"]["parts"] == [{"text": "Be brief."}]
    assert sent["tools"][0]["functionDeclarations"][0]["name"] == "weather"
    assert sent["generationConfig"]["responseModalities"] == ["AUDIO"]
    assert "inputAudioTranscription" in sent
    assert "outputAudioTranscription" in sent
    assert "sessionResumption" in sent
    turns = server.received[0]["client_content"]["turns"]
    assert [turn["role"] for turn in turns] == ["user", "model", "user", "model", "user"]
    assert server.queries[0]["key"] == "secret"


async def test_a_resumed_connection_names_its_handle_and_tells_no_past(server: LiveTwin) -> None:
    past = ChatContext((ChatMessage(role="user", content="Hello"),))
    async with session(server, RealtimeSetup(history=past, resume="h1")) as opened:
        await server.send({"sessionResumptionUpdate": {"newHandle": "h2", "resumable": True}})
        await server.send({"goAway": {"timeLeft": "9.5s"}})
        await opened.until(lambda: opened.of(RealtimeEnding))

    assert server.setups[0]["sessionResumption"] == {"handle": "h1"}
    assert server.received == []
    assert opened.of(RealtimeResumable) == [RealtimeResumable("h2")]
    assert opened.of(RealtimeEnding) == [RealtimeEnding(9.5)]


async def test_audio_is_sent_as_it_comes_where_the_server_decides_and_its_answer_is_accepted(
    server: LiveTwin,
) -> None:
    async with session(server, REMOTE) as opened:
        opened.connection.push(AudioFrame(bytes(640), 16000))
        await server.got(lambda message: message.get("realtime_input", {}).get("audio") == 640)
        await server.send({"voiceActivity": {"type": "ACTIVITY_START", "audioOffset": "0.01s"}})
        await server.send({"voiceActivity": {"type": "ACTIVITY_END"}})
        await server.send({"serverContent": {"inputTranscription": {"text": "What is "}}})
        server.answers("It is sunny.")
        await server.play()
        await opened.until(lambda: opened.of(RealtimeReplyStarted))
        reply = opened.of(RealtimeReplyStarted)[0]
        answer = [item async for item in opened.connection.accept(reply.reply_id)]
        await opened.until(lambda: any(one.is_final for one in opened.of(RealtimeTranscript)))

    assert opened.of(RealtimeSpeechStarted)[0].ago == pytest.approx(0.01)
    assert opened.of(RealtimeSpeechEnded)
    assert opened.of(RealtimeInputCommitted)[0].item_id == reply.item_id
    final = opened.of(RealtimeTranscript)[-1]
    assert (final.text, final.item_id, final.is_final) == ("What is ", reply.item_id, True)
    assert words(answer) == "It is sunny."
    tokens = Usage(input_tokens=20, output_tokens=7, cached_tokens=5)
    audio = replace(tokens, input_audio_tokens=12, output_audio_tokens=6, cached_audio_tokens=2)
    assert answer[-2:] == [audio, Done("stop")]


async def test_words_that_cut_the_model_belong_to_the_next_turn(server: LiveTwin) -> None:
    async with session(server, REMOTE) as opened:
        await server.send({"serverContent": {"inputTranscription": {"text": "Tell me more"}}})
        server.answers(Turn(text="one two three", ends=False))
        await server.play()
        await server.send({"serverContent": {"inputTranscription": {"text": "Stop"}}})
        await server.send({"serverContent": {"interrupted": True}})
        await server.send({"serverContent": {"turnComplete": True}})
        await opened.until(lambda: opened.of(RealtimeReplyCancelled))
        reply = opened.of(RealtimeReplyStarted)[0]
        answer = [item async for item in opened.connection.accept(reply.reply_id)]
        await server.send({"serverContent": {"inputTranscription": {"text": " it.", "finished": True}}})
        await opened.until(lambda: sum(one.is_final for one in opened.of(RealtimeTranscript)) == 2)

    finals = [one for one in opened.of(RealtimeTranscript) if one.is_final]
    assert [one.text for one in finals] == ["Tell me more", "Stop it."]
    assert finals[0].item_id == reply.item_id != finals[1].item_id
    assert opened.of(RealtimeReplyCancelled) == [RealtimeReplyCancelled(reply.reply_id)]
    assert answer[-1] == Done("cancelled")


async def test_where_we_decide_audio_is_sent_when_an_answer_is_asked_for_and_never_what_was_cleared(
    server: LiveTwin,
) -> None:
    async with session(server) as opened:
        server.answers("Yes.")
        opened.connection.push(AudioFrame(bytes(6400), 16000))
        opened.connection.clear()
        opened.connection.push(AudioFrame(bytes(640), 16000))
        opened.connection.commit()
        assert words(await opened.answer()) == "Yes."

    sent = [message["realtime_input"] for message in server.received if "realtime_input" in message]
    assert [next(iter(one)) for one in sent] == ["activityStart", "audio", "activityEnd"]
    assert sent[1] == {"audio": 640}


def heard(text: str, **more: bool) -> dict[str, Any]:
    return {"serverContent": {"inputTranscription": {"text": text, **more}}}


def finals(opened: Session) -> list[tuple[str, str]]:
    return [(one.text, one.item_id) for one in opened.of(RealtimeTranscript) if one.is_final]


async def test_a_transcript_that_comes_after_the_next_commit_is_of_the_commit_before(server: LiveTwin) -> None:
    async with session(server) as opened:
        server.answers("Yes.", "No.")
        opened.connection.push(AudioFrame(bytes(640), 16000))
        opened.connection.commit()
        assert words(await opened.answer()) == "Yes."
        opened.connection.push(AudioFrame(bytes(640), 16000))
        opened.connection.commit()
        await server.send(heard("part "))
        await server.send(heard("one", finished=True))
        await opened.until(lambda: finals(opened))
        assert words(await opened.answer()) == "No."
        await server.send(heard("part two", finished=True))
        await opened.until(lambda: len(finals(opened)) == 2)

    names = [one.item_id for one in opened.of(RealtimeInputCommitted)]
    assert finals(opened) == [("part one", names[0]), ("part two", names[1])]
    assert {one.item_id for one in opened.of(RealtimeTranscript)} == set(names)


async def test_a_transcript_that_comes_before_the_next_answer_is_of_the_commit_before_if_that_has_none(
    server: LiveTwin,
) -> None:
    async with session(server) as opened:
        server.answers("Yes.", Turn(text="No.", delay=0.3))
        opened.connection.push(AudioFrame(bytes(640), 16000))
        opened.connection.commit()
        assert words(await opened.answer()) == "Yes."
        opened.connection.push(AudioFrame(bytes(640), 16000))
        opened.connection.commit()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(opened.answer)
            await server.got(lambda message: "activityEnd" in message.get("realtime_input", {}), 2)
            await server.send(heard("part one"))
        await server.send(heard("part two", finished=True))
        await opened.until(lambda: len(finals(opened)) == 2)

    names = [one.item_id for one in opened.of(RealtimeInputCommitted)]
    assert finals(opened) == [("part one", names[0]), ("part two", names[1])]


async def test_words_that_come_when_the_answer_is_over_are_of_no_new_turn(server: LiveTwin) -> None:
    async with session(server) as opened:
        server.answers("Yes.")
        opened.connection.push(AudioFrame(bytes(640), 16000))
        opened.connection.commit()
        assert words(await opened.answer()) == "Yes."
        await server.send(heard("hello"))
        await server.send(heard("", finished=True))
        await opened.until(lambda: finals(opened))

    [name] = [one.item_id for one in opened.of(RealtimeInputCommitted)]
    assert finals(opened) == [("hello", name)]


async def test_a_closed_answer_is_interrupted_and_what_still_comes_of_it_is_nobodys(server: LiveTwin) -> None:
    async with session(server) as opened:
        server.answers(Turn(text="one two three four", delay=0.1), "Fine.")
        async with aclosing(opened.connection.generate(ASKING)) as answer:
            await anext(answer)
        assert words(await opened.answer()) == "Fine."

    assert not opened.of(RealtimeReplyCancelled)
    assert not opened.of(RealtimeReplyStarted)


async def test_a_refused_answer_is_interrupted(server: LiveTwin) -> None:
    async with session(server, REMOTE) as opened:
        server.answers(Turn(text="one two", ends=False), "Fine.")
        await server.play()
        await opened.until(lambda: opened.of(RealtimeReplyStarted))
        opened.connection.refuse(opened.of(RealtimeReplyStarted)[0].reply_id)
        await server.got(lambda message: message.get("client_content") is not None)
        await server.send({"serverContent": {"interrupted": True}})
        assert words(await opened.answer()) == "Fine."
        with pytest.raises(KeyError):
            opened.connection.accept(opened.of(RealtimeReplyStarted)[0].reply_id)


async def test_words_pictures_and_instructions_of_one_answer_are_told(server: LiveTwin) -> None:
    async with session(server) as opened:
        server.answers("A cat.", "Hello.")
        opened.connection.append(ChatMessage(role="user", content="This?", images=(VideoFrame(b"x", "image/png"),)))
        opened.connection.push_video(VideoFrame(b"y", "image/jpeg"))
        await opened.answer(GenerateRequest(context=ChatContext(), extra_instructions="Be kind."))
        chunks = [chunk async for chunk in opened.connection.say("Hello.")]

    contents = [message["client_content"] for message in server.received if "client_content" in message]
    texts = [part.get("text") for content in contents for turn in content.get("turns") or [] for part in turn["parts"]]
    assert texts[:2] == ["This?", None]
    assert "Be kind." in texts[2]
    assert "Hello." in texts[3]
    assert chunks[0].item_id


@pytest.mark.parametrize(
    ("code", "reason", "kind", "retryable"),
    [
        (1011, "internal error", ProviderConnectionError, True),
        (1007, "invalid argument", ProviderStatusError, False),
        (1008, "the operation was aborted", ProviderConnectionError, True),
        (1011, "You exceeded your current quota", ProviderStatusError, True),
    ],
)
async def test_a_closed_connection_tells_whether_to_try_again(
    server: LiveTwin, code: int, reason: str, kind: type[ProviderError], retryable: bool
) -> None:
    async with session(server) as opened:
        await server.got(lambda _: True, 0)
        await server.close(code, reason)
        await opened.until(lambda: opened.error is not None)
        assert type(opened.error) is kind
        assert opened.error.retryable is retryable
        with pytest.raises(kind):
            await opened.answer()


async def test_a_lost_connection_fails_the_answer_that_it_carried(server: LiveTwin) -> None:
    async with session(server) as opened:
        server.answers(Turn(text="one two", ends=False))
        async with aclosing(opened.connection.generate(ASKING)) as answer:
            await anext(answer)
            server.abort()
            with pytest.raises(ProviderConnectionError):
                [item async for item in answer]


async def test_broken_messages_are_problems_and_the_conversation_goes_on(server: LiveTwin) -> None:
    async with session(server) as opened:
        await server.send("{")
        blob = {"mimeType": "audio/pcm;rate=8000", "data": "AAAA"}
        await server.send({"serverContent": {"modelTurn": {"parts": [{"inlineData": blob}]}}})
        await server.send({"serverContent": {"turnComplete": True}})
        await opened.until(lambda: len(opened.of(RealtimeProblem)) == 2)
        server.answers("Fine.")
        assert words(await opened.answer()) == "Fine."


@pytest.mark.parametrize(("status", "retryable"), [(403, False), (429, True), (503, True)])
async def test_a_refused_handshake_tells_whether_to_try_again(server: LiveTwin, status: int, retryable: bool) -> None:
    server.refusals += [status, status]
    async with model(server) as one:
        with pytest.raises(ProviderStatusError) as caught:
            await one.open(REMOTE)
        assert (caught.value.status, caught.value.retryable) == (status, retryable)
        assert "secret" not in str(caught.value)
        await check_failure(lambda: one.open(REMOTE))


async def test_a_server_that_does_not_take_the_settings_or_is_not_there_is_an_error(server: LiveTwin) -> None:
    server.first = {"goAway": {}}
    async with model(server) as one:
        await check_failure(lambda: one.open(REMOTE))
    async with google.RealtimeModel(api_key="k", base_url="https://127.0.0.1:1") as one:
        with pytest.raises(ProviderConnectionError):
            await one.open(REMOTE)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="GOOGLE_API_KEY or GEMINI_API_KEY"):
        google.RealtimeModel()
    with pytest.raises(ValueError, match="silence"):
        google.RealtimeOptions(silence=0)
    assert "secret" not in repr(google.RealtimeModel(api_key="secret"))
