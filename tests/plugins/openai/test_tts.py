"""openai.TTS against a scripted HTTP server: the port's promises, the request, errors, stalls and broken streams."""

from __future__ import annotations

from contextlib import aclosing

import anyio
import pytest

from kit.limits import LIMIT
from vivavoce.pipelines.core.errors import (
    CapabilityError,
    ConfigurationError,
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderStatusError,
    ProviderTimeoutError,
)
from vivavoce.pipelines.testing import check_failure, check_tts
from vivavoce.pipelines.testing.realtime_server.script import tone
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.pipelines.tts.pieces import pieces
from vivavoce.plugins import openai
from vivavoce.plugins.openai.tts import MAX_CHARACTERS
from vivavoce.plugins.openai.twin import BREAK, HANG, Answer, OpenAITwin, Step, refusal

PCM = {"Content-Type": "audio/pcm"}


def audio(*steps: Step) -> Answer:
    return Answer(steps=steps, headers=PCM)


def voice(server: OpenAITwin, options: openai.TTSOptions | None = None) -> openai.TTS:
    return openai.TTS(model="m", voice="cedar", base_url=server.url, api_key="secret", options=options)


async def speak(tts: openai.TTS, text: str = "Hello there.") -> list[AudioChunk]:
    return [chunk async for chunk in tts.synthesize(text)]


async def test_it_keeps_the_promises_of_a_tts(server: OpenAITwin) -> None:
    server.default = audio(tone(0.3), tone(0.2))
    await check_tts(lambda: voice(server), limit=LIMIT)


async def test_a_request_asks_for_pcm_in_the_voice_and_manner_that_are_set(server: OpenAITwin) -> None:
    server.default = audio(tone(0.1))
    async with voice(server, openai.TTSOptions(instructions="Calm.", speed=1.5)) as tts:
        chunks = await speak(tts)

    assert server.requests[0].path == "/v1/audio/speech"
    assert server.bodies[0] == {
        "model": "m",
        "voice": "cedar",
        "input": "Hello there.",
        "response_format": "pcm",
        "speed": 1.5,
        "instructions": "Calm.",
    }
    assert server.requests[0].headers["Authorization"] == "Bearer secret"
    assert [chunk.text for chunk in chunks if chunk.text] == ["Hello there."]


async def test_half_a_sample_waits_for_its_other_half(server: OpenAITwin) -> None:
    pcm = tone(0.1)
    server.add(audio(pcm[:1001], pcm[1001:2000], pcm[2000:]))
    async with voice(server) as tts:
        assert b"".join(chunk.frame.data for chunk in await speak(tts)) == pcm


async def test_text_without_words_asks_for_nothing(server: OpenAITwin) -> None:
    async with voice(server) as tts:
        assert await speak(tts, " … !") == []
    assert server.requests == []


def test_a_long_text_is_cut_at_spaces() -> None:
    text = "word " * 2000
    cut = list(pieces(text, MAX_CHARACTERS))
    assert all(len(piece) <= MAX_CHARACTERS for piece in cut)
    assert "".join(cut) == text
    assert all(piece.endswith("word") for piece in cut[:-1])
    assert [len(piece) for piece in pieces("x" * 5000, MAX_CHARACTERS)] == [4096, 904]


@pytest.mark.parametrize(
    ("answer", "kind", "retryable"),
    [
        (refusal(429, "slow down", code="rate_limit_exceeded"), ProviderStatusError, True),
        (refusal(429, code="insufficient_quota"), ProviderStatusError, False),
        (refusal(401), ProviderStatusError, False),
        (refusal(503), ProviderStatusError, True),
        (Answer(body={"no": "audio"}), ProviderProtocolError, False),
        (Answer(body="<html>"), ProviderProtocolError, False),
        (audio(tone(0.1), BREAK), ProviderConnectionError, True),
    ],
)
async def test_failures_are_mapped_and_tell_whether_to_try_again(
    server: OpenAITwin, answer: Answer, kind: type[ProviderError], retryable: bool
) -> None:
    server.add(answer, answer, audio(tone(0.1)))
    async with voice(server) as tts:
        with pytest.raises(kind) as caught:
            await speak(tts)
        assert caught.value.retryable is retryable
        await check_failure(lambda: tts.synthesize("Hello there."))
        assert await speak(tts)


async def test_an_answer_without_audio_is_left_to_the_pipeline_to_judge(server: OpenAITwin) -> None:
    server.add(audio(), audio(tone(0.1)))
    async with voice(server) as tts:
        assert await speak(tts) == []
        assert await speak(tts)


@pytest.mark.parametrize("steps", [[HANG], [tone(0.1), HANG]])
async def test_a_stalled_voice_is_a_timeout(server: OpenAITwin, steps: list[Step]) -> None:
    server.add(audio(*steps))
    options = openai.TTSOptions(connection=openai.ConnectionOptions(read_timeout=0.3))
    async with voice(server, options) as tts:
        with pytest.raises(ProviderTimeoutError):
            await speak(tts)


async def test_closing_a_synthesis_closes_its_connection(server: OpenAITwin) -> None:
    server.add(audio(tone(0.1), HANG))
    async with voice(server) as tts:
        async with aclosing(tts.synthesize("Hello there.")) as chunks:
            await anext(chunks)
        await server.client_is_gone()


async def test_neither_the_key_nor_the_text_is_in_an_error(server: OpenAITwin) -> None:
    server.add(refusal(400, "cannot say: my account number is 1234, with key secret"))
    async with voice(server) as tts:
        with pytest.raises(ProviderStatusError) as caught:
            await speak(tts, "my account number is 1234")
    assert "account" not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(tts)


async def test_nobody_listening_is_a_connection_error() -> None:
    async with openai.TTS(model="m", base_url="http://127.0.0.1:1/v1") as tts:
        with anyio.fail_after(60), pytest.raises(ProviderConnectionError):
            await speak(tts)


async def test_words_that_come_one_by_one_are_refused_for_sentences(server: OpenAITwin) -> None:
    async def text() -> object:
        yield "Hello"

    async with voice(server) as tts:
        with pytest.raises(CapabilityError):
            tts.stream(text())  # type: ignore[arg-type]


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="model"):
        openai.TTS(base_url="http://127.0.0.1:1/v1")
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        openai.TTS()
    with pytest.raises(ValueError, match="speed"):
        openai.TTSOptions(speed=9)
