"""openai.STT against the scripted realtime server: the port's promises, order, silence, and failures."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from kit.limits import LIMIT
from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    ProviderConnectionError,
    ProviderError,
    ProviderStatusError,
)
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.stt.base import STTEvent, STTFinal, STTInterim, STTStream
from vivavoce.pipelines.testing import check_failure, check_stt
from vivavoce.pipelines.testing.realtime_server import ScriptedRealtimeServer, ScriptedWords
from vivavoce.pipelines.testing.realtime_server.script import tone
from vivavoce.plugins import openai
from vivavoce.plugins.openai.stt_wire import TranscriptionWire

SPEECH = AudioFrame(tone(0.6), 24000)


@asynccontextmanager
async def listening(
    server: ScriptedRealtimeServer, options: openai.STTOptions | None = None
) -> AsyncIterator[STTStream]:
    async with openai.STT(model="m", language="en", base_url=server.url, api_key="secret", options=options) as stt:
        stream = await stt.open()
        try:
            yield stream
        finally:
            await stream.aclose()


def push(stream: STTStream, pcm: bytes) -> None:
    for at in range(0, len(pcm), 960):
        stream.push(AudioFrame(pcm[at : at + 960], 24000))


def silence(seconds: float) -> bytes:
    return bytes(round(seconds * 24000) * 2)


def say(stream: STTStream, seconds: float = 0.6) -> None:
    stream.speech_started(0.0)
    push(stream, tone(seconds))
    stream.flush()


async def finals(stream: STTStream, count: int) -> list[str]:
    texts: list[str] = []
    with anyio.fail_after(LIMIT):
        async for event in stream.events():
            if isinstance(event, STTFinal):
                texts.append(event.text)
            if len(texts) == count:
                break
    return texts


async def test_it_keeps_the_promises_of_an_stt() -> None:
    async with ScriptedRealtimeServer() as server:
        server.hears(*["Hello there."] * 10)
        await check_stt(lambda: openai.STT(model="m", base_url=server.url), SPEECH, expected="hello there", limit=LIMIT)


async def test_a_session_is_one_of_transcription_in_which_the_vad_here_ends_utterances() -> None:
    async with ScriptedRealtimeServer() as server:
        options = openai.STTOptions(prompt="names: Ada", keywords=("Ada",))
        async with listening(server, options):
            session = server.connection.settings.session

    assert server.handshakes[0] == {"intent": "transcription", "authorization": "Bearer secret"}
    assert session["type"] == "transcription"
    assert session["audio"]["input"]["turn_detection"] is None
    assert session["audio"]["input"]["transcription"] == {
        "model": "m",
        "language": "en",
        "prompt": "names: Ada",
        "keywords": ["Ada"],
    }


async def test_silence_is_not_sent_and_the_onset_is() -> None:
    async with ScriptedRealtimeServer() as server, listening(server) as stream:
        server.hears("Hello")
        push(stream, silence(3.0))
        push(stream, tone(0.3))
        stream.speech_started(0.3)
        push(stream, tone(0.3))
        stream.flush()
        push(stream, silence(3.0))
        assert await finals(stream, 1) == ["Hello"]

    assert server.connection.audio_ms == 800  # 0.2 of pre-roll


async def test_interims_come_before_the_final() -> None:
    options = openai.STTOptions(emits_interims=True)
    async with ScriptedRealtimeServer() as server, listening(server, options) as stream:
        server.hears("one two")
        say(stream)
        events: list[STTEvent] = []
        with anyio.fail_after(LIMIT):
            async for event in stream.events():
                events.append(event)
                if isinstance(event, STTFinal):
                    break

    assert [event.text for event in events if isinstance(event, STTInterim)] == ["one", "one two"]
    final = events[-1]
    assert isinstance(final, STTFinal)
    assert (final.text, final.language, round(final.audio_seconds, 3)) == ("one two", "en", 0.6)


async def test_transcripts_come_in_the_order_of_the_speech() -> None:
    async with ScriptedRealtimeServer() as server, listening(server) as stream:
        server.hears(ScriptedWords(text="first", delay=0.5), ScriptedWords(text="second", delay=0.0))
        say(stream)
        say(stream)
        assert await finals(stream, 2) == ["first", "second"]


async def test_a_transcript_waits_only_so_long_for_the_one_before() -> None:
    options = openai.STTOptions(order_limit=0.2)
    async with ScriptedRealtimeServer() as server, listening(server, options) as stream:
        server.hears(ScriptedWords(text="never", delay=60), "second")
        say(stream)
        say(stream)
        assert await finals(stream, 2) == ["", "second"]


async def test_a_discarded_utterance_is_not_reported() -> None:
    async with ScriptedRealtimeServer() as server, listening(server) as stream:
        server.hears(ScriptedWords(text="forgotten", delay=0.1), "kept")
        say(stream)
        stream.discard()
        stream.speech_started(0.0)
        push(stream, tone(0.3))
        stream.discard()
        say(stream)
        assert await finals(stream, 1) == ["kept"]


async def test_a_flush_without_speech_settles_at_once_and_a_short_word_is_long_enough() -> None:
    async with ScriptedRealtimeServer() as server, listening(server) as stream:
        server.hears("no")
        stream.flush()
        say(stream, 0.02)
        assert await finals(stream, 2) == ["", "no"]


async def test_a_flush_without_speech_is_answered_behind_the_words_before_it() -> None:
    async with ScriptedRealtimeServer() as server, listening(server) as stream:
        server.hears("first", "second")
        say(stream)
        stream.flush()
        say(stream)
        assert await finals(stream, 3) == ["first", "", "second"]


async def test_what_cannot_be_transcribed_is_settled_as_nothing() -> None:
    async with ScriptedRealtimeServer() as server, listening(server) as stream:
        server.hears(ScriptedWords(text="", failure="audio_unintelligible"), "fine")
        say(stream)
        say(stream)
        assert await finals(stream, 2) == ["", "fine"]


@pytest.mark.parametrize("is_expired", [True, False])
async def test_a_lost_stream_raises_and_is_worth_another_try(is_expired: bool) -> None:
    async with ScriptedRealtimeServer() as server, listening(server) as stream:
        if is_expired:
            await server.connection.expire()
        else:
            server.connection.abort()
        with anyio.fail_after(LIMIT), pytest.raises(ProviderConnectionError) as caught:
            async for _ in stream.events():
                pass
        assert caught.value.retryable
        say(stream)  # no complaint


@pytest.mark.parametrize("frame", ["{", "[]", '{"type": "input_audio_buffer.committed", "item_id": 1}'])
async def test_a_broken_frame_is_passed_over(frame: str, caplog: pytest.LogCaptureFixture) -> None:
    async with ScriptedRealtimeServer() as server, listening(server) as stream:
        server.hears("fine")
        await server.connection.send_raw(frame)
        say(stream)
        assert await finals(stream, 1) == ["fine"]
    assert "openai: needed" in caplog.text


@pytest.mark.parametrize(("status", "retryable"), [(401, False), (429, True), (500, True)])
async def test_a_refused_handshake_tells_whether_to_try_again(status: int, retryable: bool) -> None:
    async with ScriptedRealtimeServer() as server, openai.STT(model="m", base_url=server.url) as stt:
        server.refuse(status, status)
        with pytest.raises(ProviderStatusError) as caught:
            await stt.open()
        assert caught.value.retryable is retryable
        await check_failure(stt.open)


async def test_nobody_listening_is_a_connection_error() -> None:
    async with openai.STT(model="m", base_url="ws://127.0.0.1:1/v1") as stt:
        with pytest.raises(ProviderConnectionError):
            await stt.open()


def wire() -> tuple[TranscriptionWire, list[dict[str, Any]], list[STTEvent]]:
    posted: list[dict[str, Any]] = []
    reported: list[STTEvent] = []
    made = TranscriptionWire({}, "", post=posted.append, report=reported.append, failures=Failures(provider="openai"))
    return made, posted, reported


def test_a_refused_commit_settles_its_utterance() -> None:
    made, posted, reported = wire()
    made.start()
    made.flush()
    error = {"code": "input_audio_buffer_commit_empty", "event_id": posted[-1]["event_id"]}
    made.feed(json.dumps({"type": "error", "error": error}))
    assert [event.text for event in reported if isinstance(event, STTFinal)] == [""]


@pytest.mark.parametrize(("code", "retryable"), [("insufficient_quota", False), ("session_expired", True)])
def test_an_error_that_ends_everything_raises(code: str, retryable: bool) -> None:
    made, _, _ = wire()
    made.is_ready = True
    with pytest.raises(ProviderError) as caught:
        made.feed(json.dumps({"type": "error", "error": {"code": code}}))
    assert caught.value.retryable is retryable


def test_transcripts_of_nobody_and_events_of_other_kinds_are_passed_over() -> None:
    made, _, reported = wire()
    for kind in ("conversation.item.input_audio_transcription.completed", "rate_limits.updated"):
        made.feed(json.dumps({"type": kind, "item_id": "i", "transcript": "no"}))
    assert reported == []


def test_words_that_come_while_the_user_speaks_are_interims_of_the_open_utterance() -> None:
    made, _, reported = wire()
    made.start()
    made.feed(json.dumps({"type": "conversation.item.input_audio_transcription.delta", "item_id": "i", "delta": "so"}))
    assert reported == [STTInterim(text="so")]


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="model"):
        openai.STT(base_url="http://127.0.0.1:1/v1")
    with pytest.raises(ValueError, match="order_limit"):
        openai.STTOptions(order_limit=0)


@pytest.mark.parametrize(("has_interims", "shown"), [(True, ["one", "one two"]), (False, [])])
def test_deltas_before_the_commit_are_interims_of_a_model_that_is_known_to_have_them(
    has_interims: bool, shown: list[str]
) -> None:
    kind = "conversation.item.input_audio_transcription"
    events: list[STTEvent] = []
    wire = TranscriptionWire(
        {}, "en", post=lambda _: None, report=events.append, failures=Failures(provider="t"), has_interims=has_interims
    )
    wire.start()
    wire.push(SPEECH)
    for delta in ("one", " two"):
        wire.feed(json.dumps({"type": f"{kind}.delta", "item_id": "i", "delta": delta}))
    wire.flush()
    wire.feed(json.dumps({"type": "input_audio_buffer.committed", "item_id": "i"}))
    wire.feed(json.dumps({"type": f"{kind}.completed", "item_id": "i", "transcript": "One two."}))
    assert [event.text for event in events if isinstance(event, STTInterim)] == shown
    assert [event.text for event in events if isinstance(event, STTFinal)] == ["One two."]


@pytest.mark.parametrize(
    ("model", "option", "has_interims"),
    [
        ("gpt-live-transcribe", None, True),
        ("gpt-4o-transcribe", None, False),
        ("mine", True, True),
        ("mine", None, False),
    ],
)
def test_interims_are_claimed_only_of_models_that_have_them_while_the_user_speaks(
    model: str, option: bool | None, has_interims: bool
) -> None:
    options = openai.STTOptions(emits_interims=option)
    stt = openai.STT(model=model, base_url="http://127.0.0.1:1/v1", options=options)
    assert stt.capabilities.emits_interims is has_interims
