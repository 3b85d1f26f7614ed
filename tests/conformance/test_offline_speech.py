"""Silero, espeak-ng, pocketsphinx, hibari and moonshine keep the promises of their ports."""

from __future__ import annotations

from kit.limits import LIMIT
from kit.speech import BOOKING, sounding, spoken, spoken_naturally
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.testing import check_stt, check_tts, check_vad
from vivavoce.plugins import espeak, hibari, moonshine, pocketsphinx, silero


async def test_silero_keeps_the_promises_of_a_vad() -> None:
    (speech,) = await spoken("could I have a table by the window please")
    begin, end = sounding(speech)
    bare = AudioFrame(speech.data[2 * round(16000 * begin) : 2 * round(16000 * end)], 16000)
    await check_vad(silero.VAD, bare, min_share=0.9)


async def test_espeak_keeps_the_promises_of_a_tts() -> None:
    await check_tts(espeak.TTS, limit=LIMIT)


async def test_pocketsphinx_keeps_the_promises_of_an_stt() -> None:
    (speech,) = await spoken("tomorrow evening at half past six")
    await check_stt(
        lambda: pocketsphinx.STT(grammar=BOOKING), speech, expected="tomorrow evening at half past six", limit=LIMIT
    )


async def test_hibari_keeps_the_promises_of_a_tts() -> None:
    await check_tts(hibari.TTS, limit=LIMIT)


async def test_moonshine_keeps_the_promises_of_an_stt() -> None:
    words = "do you have a table for six on sunday evening"
    (speech,) = await spoken_naturally(words)
    await check_stt(moonshine.STT, speech, expected=words, limit=LIMIT)
