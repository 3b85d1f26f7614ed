"""ElevenLabs itself: `ELEVENLABS_API_KEY=… pytest -m live tests/plugins/elevenlabs`. It says what the twin assumes."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing

import anyio
import pytest

from kit.listening_streams import finals, push
from vivavoce.pipelines.core.errors import ProviderStatusError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.testing import check_tts
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.plugins import elevenlabs

VARIABLE = "ELEVENLABS_API_KEY"
KEY = os.environ.get(VARIABLE)
"""Read before the tests' fixture removes it."""

LIMIT = 30.0

pytestmark = [pytest.mark.live(VARIABLE), pytest.mark.timeout(120)]


def words(chunks: list[AudioChunk]) -> list[str]:
    return [word.text for chunk in chunks for word in chunk.words]


async def test_the_vendor_keeps_the_promises_of_a_tts() -> None:
    await check_tts(lambda: elevenlabs.TTS(api_key=KEY), limit=LIMIT)


async def test_times_go_on_over_sentences_and_end_with_the_audio() -> None:
    async def text() -> AsyncGenerator[str, None]:
        yield "One, two. Three, four. "
        await anyio.sleep(5)
        yield "Five, six."

    async with elevenlabs.TTS(api_key=KEY) as tts:
        with anyio.fail_after(LIMIT):
            chunks = [chunk async for chunk in tts.stream(text())]
    times = [word.start for chunk in chunks for word in chunk.words]
    assert words(chunks) == ["One,", "two.", "Three,", "four.", "Five,", "six."]
    assert times == sorted(times)
    assert 0.7 < times[-1] / sum(chunk.frame.duration for chunk in chunks) < 1.0


async def test_cuts_leave_nothing_in_the_next_speech_and_do_not_end_the_connection() -> None:
    async with elevenlabs.TTS(api_key=KEY) as tts:
        for _ in range(7):
            async with aclosing(
                tts.synthesize("This sentence is cut off long before its end, as they all are.")
            ) as cut:
                while not (await anext(cut)).frame.data:
                    pass
        with anyio.fail_after(LIMIT):
            chunks = [chunk async for chunk in tts.synthesize("All new.")]
    assert words(chunks) == ["All", "new."]


@pytest.mark.parametrize(
    ("model", "voice", "told"),
    [(elevenlabs.DEFAULT_MODEL, "nobody00000000000000", "nobody"), ("eleven_x", elevenlabs.DEFAULT_VOICE, "eleven_x")],
)
async def test_what_does_not_exist_is_named(model: str, voice: str, told: str) -> None:
    async with elevenlabs.TTS(api_key=KEY, model=model, voice=voice) as tts:
        with pytest.raises(ProviderStatusError, match=told) as caught:
            await anext(tts.synthesize("Hello."))
    assert not caught.value.retryable


async def test_the_vendor_hears_its_own_voice() -> None:
    text = "Can I have a table for two people tomorrow evening?"
    options = elevenlabs.TTSOptions(sample_rate=16_000)
    async with elevenlabs.TTS(api_key=KEY, options=options) as tts, elevenlabs.STT(api_key=KEY) as stt:
        data = b"".join([chunk.frame.data async for chunk in tts.synthesize(text)])
        stream = await stt.open()
        push(stream, AudioFrame.silence(1.0, 16_000), AudioFrame(data, 16_000), AudioFrame.silence(0.5, 16_000))
        stream.flush()
        [final] = await finals(stream, 1)
        await stream.aclose()
    assert "table" in final.text.casefold()
    assert 0.8 < final.words[0].start < final.words[-1].end < 7.0


async def test_the_vendor_refuses_a_wrong_key_at_the_opening() -> None:
    async with elevenlabs.STT(api_key="sk_wrong") as stt:
        with pytest.raises(ProviderStatusError) as caught:
            await stt.open()
    assert not caught.value.retryable
