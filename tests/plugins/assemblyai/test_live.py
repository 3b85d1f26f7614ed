"""AssemblyAI itself: `ASSEMBLYAI_API_KEY=… pytest -m live tests/plugins/assemblyai`."""

from __future__ import annotations

import os

import anyio
import pytest

from kit.listening_streams import finals
from vivavoce.pipelines.core.errors import ProviderStatusError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.testing.promises import frames_of
from vivavoce.plugins import assemblyai, espeak

VARIABLE = "ASSEMBLYAI_API_KEY"
KEY = os.environ.get(VARIABLE)
"""Read before the tests' fixture removes it."""

pytestmark = [pytest.mark.live(VARIABLE), pytest.mark.timeout(60)]


async def spoken(text: str) -> list[AudioFrame]:
    """Return a sentence by espeak, with silence around it."""
    async with espeak.TTS() as voice:
        speech = [chunk.frame async for chunk in voice.synthesize(text) if chunk.frame.data]
    silence = AudioFrame.silence(1.5, speech[0].sample_rate)
    return [silence, AudioFrame(b"".join(frame.data for frame in speech), silence.sample_rate), silence]


@pytest.mark.parametrize("model", ["universal-3-6-pro", "universal-streaming-english"])
async def test_the_vendor_hears_a_sentence_and_judges_its_end(model: str) -> None:
    async with assemblyai.STT(model, api_key=KEY) as stt:
        stream = await stt.open_with_key_terms(["table"])
        for audio in await spoken("Can I have a table for two people tomorrow evening?"):
            for frame in frames_of(audio, 16_000):  # the service takes audio as fast as it is spoken
                stream.push(frame)
                await anyio.sleep(frame.duration)
        [final] = await finals(stream, 1)
        await stream.aclose()
    assert "table" in final.text.casefold()
    assert [word.text for word in final.words]
    assert 1.0 < final.words[0].start < final.words[-1].end < 7.0


async def test_the_vendor_refuses_a_wrong_key_and_a_model_that_does_not_exist() -> None:
    for stt, status in ((assemblyai.STT(api_key="wrong"), 401), (assemblyai.STT("universal-9", api_key=KEY), 400)):
        with pytest.raises(ProviderStatusError) as caught:
            await stt.open()
        assert caught.value.status == status
        await stt.aclose()
