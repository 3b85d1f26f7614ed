"""Azure Speech itself: `AZURE_SPEECH_KEY=… AZURE_SPEECH_REGION=… pytest -m live tests/plugins/azure`.

It says what the twin only assumes: when streamed text is spoken, and what a stop does.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing

import anyio
import pytest

from kit.listening_streams import finals, push, until
from vivavoce.pipelines.core.errors import ProviderStatusError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.base import STTFinal
from vivavoce.pipelines.testing import check_tts
from vivavoce.plugins import azure, espeak

VARIABLE = "AZURE_SPEECH_KEY"
KEY, REGION = os.environ.get(VARIABLE), os.environ.get("AZURE_SPEECH_REGION", "westeurope")
"""Read before the tests' fixture removes them."""

pytestmark = [pytest.mark.live(VARIABLE), pytest.mark.timeout(120)]

LIMIT = 30.0


async def spoken(text: str) -> list[AudioFrame]:
    """Return a sentence by espeak, with silence around it."""
    async with espeak.TTS() as voice:
        speech = [chunk.frame async for chunk in voice.synthesize(text) if chunk.frame.data]
    silence = AudioFrame.silence(1.5, speech[0].sample_rate)
    return [silence, AudioFrame(b"".join(frame.data for frame in speech), silence.sample_rate), silence]


async def test_the_vendor_hears_a_sentence_and_another_one_after_a_flush() -> None:
    async with azure.STT(api_key=KEY, region=REGION) as stt:
        stream = await stt.open()
        for _ in range(2):
            push(stream, *await spoken("Can I have a table for two people tomorrow evening?"))
            stream.flush()
        first, second = [final for final in await finals(stream, 4) if final.text][:2]
        await stream.aclose()
    assert "table" in first.text.casefold()
    assert "table" in second.text.casefold()
    assert 1.0 < first.words[0].start < first.words[-1].end < 6.0 < second.words[0].start


@pytest.mark.parametrize("streams_text", [True, False], ids=["text", "documents"])
async def test_the_vendor_keeps_the_promises_of_a_tts(streams_text: bool) -> None:
    options = azure.TTSOptions(streams_text=streams_text)
    await check_tts(lambda: azure.TTS(api_key=KEY, region=REGION, options=options), limit=LIMIT)


async def test_a_cut_leaves_nothing_in_the_next_speech() -> None:
    async def text() -> AsyncGenerator[str, None]:
        yield "This sentence is cut off long before its end, as they all are. "
        await anyio.sleep_forever()

    async with azure.TTS(api_key=KEY, region=REGION) as tts:
        async with aclosing(tts.stream(text())) as speech:
            while not (await anext(speech)).frame.data:
                pass
        with anyio.fail_after(LIMIT):
            chunks = [chunk async for chunk in tts.synthesize("All new.")]
    assert [word.text for chunk in chunks for word in chunk.words] == ["All", "new."]


async def test_what_does_not_exist_is_named() -> None:
    async with azure.TTS("en-US-NobodyNeural", api_key=KEY, region=REGION) as tts:
        with pytest.raises(ProviderStatusError, match="NobodyNeural"):
            await anext(tts.synthesize("Hello."))
    async with azure.STT(language="xx-XX", api_key=KEY, region=REGION) as stt:
        with pytest.raises(ProviderStatusError, match="xx-XX"):
            await until(await stt.open(), STTFinal)
    async with azure.STT(api_key="0" * 32, region=REGION) as stt:
        with pytest.raises(ProviderStatusError, match="401"):
            await stt.open()
