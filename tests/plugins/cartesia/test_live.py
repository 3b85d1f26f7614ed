"""Cartesia itself, with the key of the environment: `pytest -m live`. It says what the twin only assumes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import anyio
import pytest

from kit.listening_streams import finals, push
from vivavoce.pipelines.core.errors import ProviderStatusError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.base import STTEndOfTurn
from vivavoce.pipelines.testing import check_tts
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.plugins import cartesia

pytestmark = [
    pytest.mark.live("CARTESIA_API_KEY"),
    pytest.mark.timeout(120),
]

LIMIT = 30.0


def words(chunks: list[AudioChunk]) -> list[str]:
    return [word.text for chunk in chunks for word in chunk.words]


async def test_the_vendor_keeps_the_promises_of_a_tts() -> None:
    await check_tts(lambda: cartesia.TTS(), limit=LIMIT)


async def test_times_go_on_over_sentences_and_over_a_pause_that_ends_the_context() -> None:
    async def text() -> AsyncGenerator[str, None]:
        yield "One, two. Three, four. "
        await anyio.sleep(5)
        yield "Five, six."

    async with cartesia.TTS() as tts:
        with anyio.fail_after(LIMIT):
            chunks = [chunk async for chunk in tts.stream(text())]
    times = [word.start for chunk in chunks for word in chunk.words]
    assert words(chunks) == ["One,", "two.", "Three,", "four.", "Five,", "six."]
    assert times == sorted(times)
    assert times[-1] < sum(chunk.frame.duration for chunk in chunks)


async def test_a_cut_leaves_nothing_in_the_next_speech() -> None:
    async with cartesia.TTS() as tts:
        async with aclosing(tts.synthesize("This sentence is cut off long before its end, as they all are.")) as speech:
            while not (await anext(speech)).frame.data:
                pass
        with anyio.fail_after(LIMIT):
            chunks = [chunk async for chunk in tts.synthesize("All new.")]
    assert words(chunks) == ["All", "new."]


@pytest.mark.parametrize(
    ("model", "voice", "told"),
    [(cartesia.DEFAULT_MODEL, "nobody", "nobody"), ("sonic-99", cartesia.DEFAULT_VOICE, "sonic-99")],
)
async def test_what_does_not_exist_is_named(model: str, voice: str, told: str) -> None:
    async with cartesia.TTS(model=model, voice=voice) as tts:
        with pytest.raises(ProviderStatusError, match=told) as caught:
            await anext(tts.synthesize("Hello."))
    assert not caught.value.retryable


async def spoken(text: str) -> list[AudioFrame]:
    """Return a sentence by the vendor's voice, with silence around it."""
    async with cartesia.TTS(options=cartesia.TTSOptions(sample_rate=16_000)) as voice:
        speech = b"".join([chunk.frame.data async for chunk in voice.synthesize(text)])
    silence = AudioFrame.silence(1.5, 16_000)
    return [silence, AudioFrame(speech, 16_000), silence]


@pytest.mark.parametrize("model", ["ink-2", "ink-whisper"])
async def test_the_vendor_hears_a_sentence(model: str) -> None:
    audio = await spoken("Can I have a table for two people tomorrow evening?")
    async with cartesia.STT(model) as stt:
        stream = await stt.open()
        for frame in audio:
            push(stream, frame)
            await anyio.sleep(frame.duration)  # the service takes audio as fast as it is spoken
        if stt.capabilities.needs_flush:
            stream.flush()
        with anyio.fail_after(LIMIT):
            [final] = await finals(stream, 1)
            if stt.capabilities.emits_end_of_turn:
                assert isinstance(await anext(stream.events()), STTEndOfTurn)
        await stream.aclose()
    assert "table" in final.text.casefold()
    assert bool(final.words) is stt.capabilities.emits_words


async def test_a_recogniser_that_does_not_exist_is_named() -> None:
    async with cartesia.STT("ink-99") as stt:
        with pytest.raises(ProviderStatusError, match="ink-99"), anyio.fail_after(LIMIT):
            await anext((await stt.open()).events())
