"""Deepgram itself: `DEEPGRAM_API_KEY=… pytest -m live tests/plugins/deepgram`."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from kit.listening_streams import finals, push
from vivavoce.pipelines.core.errors import ProviderStatusError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.base import STT
from vivavoce.plugins import deepgram, espeak

VARIABLE = "DEEPGRAM_API_KEY"
KEY = os.environ.get(VARIABLE)
"""Read before the tests' fixture removes it."""

pytestmark = [pytest.mark.live(VARIABLE), pytest.mark.timeout(60)]


async def spoken(text: str) -> list[AudioFrame]:
    """Return a sentence by espeak, with silence around it."""
    async with espeak.TTS() as voice:
        speech = [chunk.frame async for chunk in voice.synthesize(text) if chunk.frame.data]
    silence = AudioFrame.silence(1.5, speech[0].sample_rate)
    return [silence, AudioFrame(b"".join(frame.data for frame in speech), silence.sample_rate), silence]


@pytest.mark.parametrize(
    "make", [lambda: deepgram.STT(api_key=KEY), lambda: deepgram.FluxSTT(api_key=KEY)], ids=["Nova", "Flux"]
)
async def test_the_vendor_hears_a_sentence(make: Callable[[], STT]) -> None:
    async with make() as stt:
        stream = await stt.open()
        push(stream, *await spoken("Can I have a table for two people tomorrow evening?"))
        [final] = await finals(stream, 1)
        await stream.aclose()
    assert "table" in final.text.casefold()
    assert [word.text for word in final.words]
    assert 1.0 < final.words[0].start < final.words[-1].end < 6.0


async def test_the_vendor_speaks_a_sentence() -> None:
    async with deepgram.TTS(api_key=KEY) as tts:
        seconds = sum([chunk.frame.duration async for chunk in tts.synthesize("Hello there, how are you today?")])
    assert 1.0 < seconds < 6.0


async def test_a_flux_voice_tells_what_was_heard_also_if_all_audio_has_come() -> None:
    async with deepgram.FluxTTS(api_key=KEY) as tts:
        for is_cut in (True, False):
            chunks, seconds = tts.synthesize("One, two, three, four, five, six, seven, eight, nine, ten."), 0.0
            [first] = [await anext(chunks)]
            async for chunk in chunks:
                seconds += chunk.frame.duration
                if is_cut and seconds > 1.5:
                    break
            assert first.heard is not None
            heard = await first.heard(1.5)
            await chunks.aclose()
            assert heard is not None
            assert heard.casefold().startswith("one")
            assert "ten" not in heard


async def test_the_vendor_refuses_a_wrong_key_and_a_model_that_does_not_exist() -> None:
    for stt, status in ((deepgram.STT(api_key="wrong"), 401), (deepgram.STT("nova-9", api_key=KEY), 400)):
        with pytest.raises(ProviderStatusError) as caught:
            await stt.open()
        assert caught.value.status == status
        await stt.aclose()
