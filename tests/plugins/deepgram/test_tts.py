"""deepgram.TTS against the twin: the port's promises, settings, refusals, and a twin that hears itself."""

from __future__ import annotations

import pytest

from kit.listening_streams import finals, push
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderStatusError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.resample import Resampler
from vivavoce.pipelines.testing import check_tts
from vivavoce.plugins import deepgram
from vivavoce.plugins.deepgram.twin import DeepgramTwin


def voice_of(twin: DeepgramTwin, voice: str = "aura-2-thalia-en", **options: object) -> deepgram.TTS:
    chosen = deepgram.TTSOptions(**options)  # type: ignore[arg-type]
    return deepgram.TTS(voice, base_url=twin.url, api_key=twin.key, options=chosen)


async def spoken(tts: deepgram.TTS, text: str) -> bytes:
    async with tts:
        return b"".join([chunk.frame.data async for chunk in tts.synthesize(text)])


async def test_it_keeps_the_promises_of_a_tts(twin: DeepgramTwin) -> None:
    await check_tts(lambda: voice_of(twin))


async def test_the_twins_recogniser_hears_the_words_of_its_voice(twin: DeepgramTwin) -> None:
    audio = AudioFrame(await spoken(voice_of(twin), "A table for two."), 24_000)
    async with deepgram.STT(base_url=twin.url, api_key=twin.key) as stt:
        stream = await stt.open()
        resampler = Resampler(24_000, 16_000)
        push(stream, AudioFrame(resampler.push(audio).data + resampler.flush().data + bytes(16_000), 16_000))
        [final] = await finals(stream, 1)
        await stream.aclose()
    assert final.text == "A table for two."


async def test_the_request_has_the_settings(twin: DeepgramTwin) -> None:
    await spoken(voice_of(twin, "aura-2-lara-de", speed=1.2, tags=("test",), opt_out=True), "Hallo.")
    assert twin.handshakes[0][2] == f"Token {twin.key}"
    assert twin.spoken == [
        (
            "Hallo.",
            {
                "model": ["aura-2-lara-de"],
                "encoding": ["linear16"],
                "container": ["none"],
                "sample_rate": ["24000"],
                "speed": ["1.2"],
                "mip_opt_out": ["true"],
                "tag": ["test"],
            },
        )
    ]


async def test_a_long_text_is_cut_into_requests(twin: DeepgramTwin) -> None:
    text = " ".join(["word"] * 900)
    await spoken(voice_of(twin), text)
    assert "".join(piece for piece, _ in twin.spoken) == text
    assert len(twin.spoken) == 3


async def test_a_voice_that_does_not_exist_is_named_with_those_of_its_language(twin: DeepgramTwin) -> None:
    with pytest.raises(ProviderStatusError) as caught:
        await spoken(voice_of(twin, "aura-2-nobody-nl"), "Hallo.")
    for text in ("'aura-2-nobody-nl'", "aura-2-beatrix-nl", "check voice"):
        assert text in str(caught.value)
    assert "aura-2-thalia-en" not in str(caught.value)


async def test_a_voice_without_a_language_comes_with_the_form_of_a_name(twin: DeepgramTwin) -> None:
    with pytest.raises(ProviderStatusError) as caught:
        await spoken(voice_of(twin, "thalia"), "Hello.")
    assert "'thalia'; voices are aura-2-NAME-LANGUAGE, such as aura-2-amalthea-en" in str(caught.value)


@pytest.mark.parametrize(("status", "retryable"), [(401, False), (402, False), (429, True), (503, True)])
async def test_a_refusal_says_whether_to_try_again(twin: DeepgramTwin, status: int, retryable: bool) -> None:
    twin.refuse(status)
    with pytest.raises(ProviderStatusError) as caught:
        await spoken(voice_of(twin), "Hello.")
    assert (caught.value.status, caught.value.retryable) == (status, retryable)


@pytest.mark.parametrize("speed", [0.5, 2])
def test_a_wrong_speed_is_an_error_at_once(speed: float) -> None:
    with pytest.raises(ConfigurationError):
        deepgram.TTSOptions(speed=speed)
