"""openai.TTS at servers with OpenAI's `audio/speech`: formats, rates, voices and lengths."""

from __future__ import annotations

import struct

import pytest

from kit.limits import LIMIT
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError, ProviderProtocolError, ProviderStatusError
from vivavoce.pipelines.testing import check_tts
from vivavoce.pipelines.testing.realtime_server.script import tone
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.plugins import openai
from vivavoce.plugins.openai.twin import BREAK, HANG, OpenAITwin, Spoken, refusal
from vivavoce.plugins.openai.wav_head import WavHead


async def speak(tts: openai.TTS, text: str = "Hello there.") -> list[AudioChunk]:
    async with tts:
        return [chunk async for chunk in tts.synthesize(text)]


def groq(twin: OpenAITwin, options: openai.TTSOptions | None = None) -> openai.TTS:
    return openai.TTS(server="groq", base_url=twin.url, api_key="secret", options=options)


async def test_a_voice_by_wav_files_keeps_the_promises_of_a_tts() -> None:
    async with OpenAITwin("groq") as twin:
        twin.default = Spoken(pcm=tone(0.5), rate=48000)
        await check_tts(lambda: groq(twin), limit=LIMIT)
    assert twin.refused == []


async def test_groq_is_asked_for_wav_in_its_own_voice() -> None:
    async with OpenAITwin("groq") as twin:
        twin.add(Spoken(pcm=tone(0.5), rate=48000))
        chunks = await speak(groq(twin))
    assert twin.bodies[0] == {
        "model": "canopylabs/orpheus-v1-english",
        "voice": "autumn",
        "input": "Hello there.",
        "response_format": "wav",
    }
    assert b"".join(chunk.frame.data for chunk in chunks) == tone(0.5)
    assert {chunk.frame.sample_rate for chunk in chunks} == {48000}
    assert "".join(chunk.text for chunk in chunks) == "Hello there."


async def test_a_text_longer_than_the_server_takes_is_several_requests() -> None:
    text = "Lorem ipsum dolor sit amet. " * 15
    async with OpenAITwin("groq") as twin:
        twin.default = Spoken(pcm=tone(0.1), rate=48000)
        chunks = await speak(groq(twin), text)
    assert len(twin.requests) == 3
    assert "".join(body["input"] for body in twin.bodies) == text == "".join(chunk.text for chunk in chunks)
    assert [chunk.is_end for chunk in chunks if chunk.is_end] == [True]


async def test_wav_of_another_rate_than_expected_is_converted() -> None:
    async with OpenAITwin("groq") as twin:
        twin.add(Spoken(pcm=tone(0.5), rate=24000))
        chunks = await speak(groq(twin))
    assert {chunk.frame.sample_rate for chunk in chunks} == {48000}
    assert sum(chunk.frame.samples for chunk in chunks) / 48000 == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("server", "model", "voice"), [("kokoro", "kokoro", "af_heart"), ("openai", "gpt-4o-mini-tts", "marin")]
)
async def test_a_named_server_has_its_usual_model_and_voice(server: openai.ServerName, model: str, voice: str) -> None:
    async with OpenAITwin(server) as twin:
        twin.add(Spoken(pcm=tone(0.1)))
        await speak(openai.TTS(server=server, base_url=twin.url, api_key="secret"))
    body = twin.bodies[0]
    assert (body["model"], body["voice"], body["response_format"]) == (model, voice, "pcm")


async def test_a_server_of_ones_own_speaks_at_the_rate_and_in_the_format_that_are_set() -> None:
    options = openai.TTSOptions(sample_rate=16000, response_format="pcm")
    async with OpenAITwin() as twin:
        twin.add(Spoken(pcm=tone(0.1)))
        tts = openai.TTS(model="m", voice="a voice of its own", base_url=twin.url, options=options)
        assert tts.capabilities.sample_rate == 16000
        chunks = await speak(tts)
    assert {chunk.frame.sample_rate for chunk in chunks} == {16000}
    assert twin.bodies[0]["voice"] == "a voice of its own"


async def test_a_voice_that_the_server_has_not_is_its_own_error() -> None:
    async with OpenAITwin("groq") as twin:
        twin.add(refusal(400, "voice must be one of [autumn diana hannah austin daniel troy]"))
        with pytest.raises(ProviderStatusError, match="voice must be one of.*with voice 'marin'"):
            await speak(openai.TTS(server="groq", voice="marin", base_url=twin.url, api_key="secret"))


@pytest.mark.parametrize("then", [[BREAK], [HANG]])
async def test_a_wav_file_that_breaks_off_has_spoken_its_beginning(then: list[object]) -> None:
    options = openai.TTSOptions(connection=openai.ConnectionOptions(read_timeout=0.3))
    heard: list[AudioChunk] = []
    async with OpenAITwin("groq") as twin, groq(twin, options) as tts:
        twin.add(Spoken(pcm=tone(0.1), rate=48000, then=then))  # type: ignore[arg-type]
        try:
            async for chunk in tts.synthesize("Hello there."):
                heard.append(chunk)
        except ProviderError as error:
            heard_of = str(error)
    assert "lost" in heard_of or "too long" in heard_of
    assert sum(chunk.frame.samples for chunk in heard) > 0


def wav(*, kind: int = 1, channels: int = 1, bits: int = 16, length: int = 4, extra: bytes = b"") -> bytes:
    fields = struct.pack("<HHIIHH", kind, channels, 24000, 48000, 2, bits)
    return (
        b"RIFF" + struct.pack("<I", 0) + b"WAVEfmt " + struct.pack("<I", len(fields)) + fields + extra
        + b"data" + struct.pack("<I", length)
    )  # fmt: skip


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_the_head_of_a_wav_file_may_come_in_any_pieces(size: int) -> None:
    data = wav(extra=b"LIST" + struct.pack("<I", 3) + b"abc\0") + b"\1\0\2\0" + b"LIST\4\0\0\0junk"
    head = WavHead()
    assert b"".join(head.push(data[at : at + size]) for at in range(0, len(data), size)) == b"\1\0\2\0"
    assert head.sample_rate == 24000


@pytest.mark.parametrize("length", [0, 0xFFFFFFFF, 0x7FFFFFFF])
def test_the_samples_of_a_stream_have_no_known_length(length: int) -> None:
    assert WavHead().push(wav(length=length) + bytes(100)) == bytes(100)


@pytest.mark.parametrize(
    "data",
    [
        b"ID3\4" + bytes(20),
        wav(channels=2),
        wav(bits=32),
        wav(kind=3),
        b"RIFF\0\0\0\0WAVEdata\4\0\0\0",
        b"RIFF\0\0\0\0WAVEfmt \2\0\0\0\1\0data",
        b"RIFF\0\0\0\0WAVELIST\xff\xff\xff\x7f" + bytes(70_000),
    ],
)
def test_other_data_than_mono_16_bit_pcm_is_refused(data: bytes) -> None:
    with pytest.raises(ProviderProtocolError, match="check response_format"):
        WavHead().push(data)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="perplexity has no voices; those with voices: openai"):
        openai.TTS(server="perplexity", api_key="k")
    with pytest.raises(ConfigurationError, match="speaches needs voice"):
        openai.TTS(server="speaches", model="kokoro")
    with pytest.raises(ConfigurationError, match="response_format"):
        openai.TTSOptions(response_format="mp3")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="sample_rate"):
        openai.TTSOptions(sample_rate=10)
