"""FallbackTTS behind the end of a voice's audio: nothing is said twice, and no audio is lost."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest

from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.testing import ScriptedTTS, TTSFault, run_virtual
from vivavoce.pipelines.tts.base import TTS, AudioChunk, TTSCapabilities, Word
from vivavoce.pipelines.tts.fallback import FallbackTTS

LOST = ProviderConnectionError("down", provider="first")
TEXT = "one two three four five six seven eight."
SENTENCES = ("One two three four.", "Five six seven eight.", "Nine ten eleven twelve.")


class First(ScriptedTTS):
    provider = "first"


class Second(ScriptedTTS):
    provider = "second"


async def speak(tts: TTS, text: str = TEXT) -> list[AudioChunk]:
    return [chunk async for chunk in tts.synthesize(text)]


async def stream(tts: TTS, *texts: str) -> list[AudioChunk]:
    async def pieces() -> AsyncGenerator[str, None]:
        for text in texts:
            yield text

    return [chunk async for chunk in tts.stream(pieces())]


def seconds(chunks: Sequence[AudioChunk]) -> float:
    return sum(chunk.frame.duration for chunk in chunks)


@pytest.mark.parametrize(
    ("emits_words", "streams_text"),
    [(False, False), (True, False), (True, True)],
    ids=["no word times", "word times", "streamed text"],
)
@pytest.mark.parametrize("error", [LOST, None], ids=["raises", "hangs"])
def test_nothing_is_said_twice_if_a_voice_fails_behind_its_last_chunk(
    error: ProviderError | None, emits_words: bool, streams_text: bool
) -> None:
    first = First(emits_words=emits_words, streams_text=streams_text, faults={0: TTSFault("after", error)})
    second = Second(emits_words=True, streams_text=True)
    tts = FallbackTTS([first, second])
    words = [f"{word} " for word in TEXT.split()]
    chunks = run_virtual(stream(tts, *words) if streams_text else speak(tts))
    assert second.texts == []
    assert seconds(chunks) == pytest.approx(1.6)


def test_behind_a_sentence_that_was_said_whole_the_next_voice_goes_on_with_the_next_one() -> None:
    first, second = First(faults={1: TTSFault("after", LOST)}), Second()
    chunks = run_virtual(speak(FallbackTTS([first, second]), " ".join(SENTENCES)))
    assert first.texts == list(SENTENCES[:2])
    assert second.texts == list(SENTENCES[2:])
    assert seconds(chunks) == pytest.approx(12 * 0.2)


class Spells(TTS):
    """It spells the text in its own way, half a second a word, marks the end of its audio, and breaks off."""

    provider = "spells"

    def __init__(self, *words: str) -> None:
        self._words = words

    @property
    def capabilities(self) -> TTSCapabilities:
        return TTSCapabilities(sample_rate=16000, emits_words=True)

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        for number, word in enumerate(self._words):
            times = Word(word, number / 2, (number + 1) / 2)
            yield AudioChunk(AudioFrame.silence(0.5, 16000), words=(times,))
        yield AudioChunk(AudioFrame(b"", 16000), is_end=True)
        raise LOST


@pytest.mark.parametrize("words", ["I paid five", "I paid five dollars", "I"])
def test_the_marked_end_of_the_audio_counts_however_the_voice_spells_the_last_words(words: str) -> None:
    second = Second()
    run_virtual(speak(FallbackTTS([Spells(*words.split()), second]), "I paid 5 $."))
    assert second.texts == []


def test_a_voice_that_marks_the_end_of_no_audio_is_passed_over() -> None:
    second = Second()
    chunks = run_virtual(speak(FallbackTTS([Spells(), second])))
    assert second.texts == [TEXT]
    assert seconds(chunks) == pytest.approx(1.6)


class Unmarked(TTS):
    """Another voice, without its marks."""

    provider = "unmarked"

    def __init__(self, voice: TTS) -> None:
        self._voice = voice

    @property
    def capabilities(self) -> TTSCapabilities:
        return self._voice.capabilities

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        async with aclosing(self._voice.synthesize(text)) as chunks:
            async for chunk in chunks:
                if not chunk.is_end:
                    yield chunk


@pytest.mark.parametrize("rate", [8000, 16000, 22050])
def test_no_audio_of_another_rate_is_lost_and_no_word_of_it_comes_again_when_its_voice_fails(rate: int) -> None:
    down = Second(faults={0: TTSFault("before", LOST)}, sample_rate=24000)
    breaks = Unmarked(First(emits_words=True, faults={0: TTSFault("after", LOST)}, sample_rate=rate))
    third = ScriptedTTS()
    chunks = run_virtual(speak(FallbackTTS([down, breaks, third])))
    assert third.texts == []
    assert seconds(chunks) == pytest.approx(1.6, abs=0.002)
