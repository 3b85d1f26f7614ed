"""FallbackTTS: the next voice by error and by latency, also in mid-sentence, without repeated or lost words."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

import anyio
import pytest

from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError, ProviderConnectionError, ProviderError
from vivavoce.pipelines.core.incidents import FellBack, on_fallback
from vivavoce.pipelines.core.tending import Tending
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.testing import HANG, ScriptedTTS, ScriptedTTSOptions, TTSFault, VirtualClock, run_virtual
from vivavoce.pipelines.tts.base import TTS, AudioChunk, TTSCapabilities, Word
from vivavoce.pipelines.tts.fallback import FallbackTTS, FallbackTTSOptions

LOST = ProviderConnectionError("down", provider="first")
TEXT = "one two three four five six seven eight."


class First(ScriptedTTS):
    provider = "first"


class Second(ScriptedTTS):
    provider = "second"


async def speak(tts: TTS, text: str = TEXT) -> list[AudioChunk]:
    return [chunk async for chunk in tts.synthesize(text)]


def seconds(chunks: Sequence[AudioChunk]) -> float:
    return sum(chunk.frame.duration for chunk in chunks)


def spoken(chunks: Sequence[AudioChunk]) -> list[tuple[str, float]]:
    return [(word.text, round(word.start, 3)) for chunk in chunks for word in chunk.words]


def test_a_voice_that_fails_before_its_audio_is_passed_over_and_the_fallback_is_reported() -> None:
    told: list[FellBack] = []
    second = Second()

    async def main() -> None:
        on_fallback.set(told.append)
        tts = FallbackTTS([First(faults={0: TTSFault("before", LOST)}), second])
        assert tts.model == "first"
        chunks = await speak(tts)
        assert seconds(chunks) == pytest.approx(1.6)
        assert not any(chunk.text for chunk in chunks)
        assert tts.model == "second"

    run_virtual(main())
    assert second.texts == [TEXT]
    assert told == [FellBack("tts", "first", "", LOST, successor="second")]


def test_the_first_voice_connects_ahead() -> None:
    first, second = First(), Second()
    FallbackTTS([first, second]).warm()
    assert (first.warmed, second.warmed) == (1, 0)


def test_in_mid_sentence_the_next_voice_goes_on_behind_the_last_complete_word_of_a_voice_with_word_times() -> None:
    first = First(emits_words=True, faults={0: TTSFault("middle", LOST)})
    second = Second(emits_words=True, options=ScriptedTTSOptions(seconds_per_word=0.3))
    chunks = run_virtual(speak(FallbackTTS([first, second])))
    assert second.texts == ["five six seven eight."]
    assert spoken(chunks) == [
        ("one", 0.0),
        ("two", 0.2),
        ("three", 0.4),
        ("four", 0.6),
        ("five", 0.8),
        ("six", 1.1),
        ("seven", 1.4),
        ("eight.", 1.7),
    ]
    assert [chunk.text for chunk in chunks if chunk.text] == ["five six seven eight."]
    assert seconds(chunks) == pytest.approx(0.8 + 1.2)


def test_a_word_that_was_begun_is_spoken_again_from_its_beginning() -> None:
    """After 5 of 9 words of 0.2 s, chunks of 20 ms: the fault lies within the fifth word."""
    first = First(emits_words=True, faults={0: TTSFault("middle", LOST)})
    second = Second()
    run_virtual(speak(FallbackTTS([first, second]), TEXT + " nine."))
    assert second.texts == ["five six seven eight. nine."]


class Breaks(ScriptedTTS):
    """It breaks off after so many words of its first text."""

    provider = "breaks"

    def __init__(self, words: int, *, emits_words: bool, streams_text: bool, pace: float = 0.2) -> None:
        options = ScriptedTTSOptions(seconds_per_word=pace)
        super().__init__(emits_words=emits_words, streams_text=streams_text, options=options)
        self._left = words * pace
        self._has_failed = False

    async def _cut(self, chunks: AsyncGenerator[AudioChunk, None]) -> AsyncGenerator[AudioChunk, None]:
        async with aclosing(chunks):
            async for chunk in chunks:
                if chunk.frame.data and self._left < 0.01 and not self._has_failed:
                    self._has_failed = True
                    raise LOST
                self._left -= chunk.frame.duration
                yield chunk

    def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        return self._cut(super().synthesize(text))

    def stream(self, text: AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        return self._cut(super().stream(text))


SENTENCES = ("One two three four.", "Five six seven eight.", "Nine ten eleven twelve.")
STREAMED = pytest.mark.parametrize("streams_text", [False, True], ids=["whole texts", "streamed text"])
PACES = pytest.mark.parametrize("pace", [0.1, 0.2, 0.8], ids=["fast", "even", "slow"])


async def say_all(tts: FallbackTTS, *, streams_text: bool) -> list[AudioChunk]:
    pieces_of = [f"{word} " for word in " ".join(SENTENCES).split()]
    if streams_text:
        return [chunk async for chunk in tts.stream(pieces(*pieces_of))]
    return await speak(tts, " ".join(SENTENCES))


@STREAMED
@PACES
@pytest.mark.parametrize("words", range(1, 12))
def test_with_word_times_each_word_is_spoken_once_wherever_the_voice_breaks_off(
    words: int, pace: float, streams_text: bool
) -> None:
    first = Breaks(words, emits_words=True, streams_text=streams_text, pace=pace)
    second = Second(emits_words=True, streams_text=streams_text)
    chunks = run_virtual(say_all(FallbackTTS([first, second]), streams_text=streams_text))
    assert [word for word, _ in spoken(chunks)] == " ".join(SENTENCES).split()
    assert seconds(chunks) == pytest.approx(words * pace + (12 - words) * 0.2)


@PACES
@pytest.mark.parametrize("words", range(1, 12))
def test_without_word_times_the_sentence_is_spoken_again_in_which_the_voice_broke_off(words: int, pace: float) -> None:
    first, second = Breaks(words, emits_words=False, streams_text=False, pace=pace), Second()
    chunks = run_virtual(say_all(FallbackTTS([first, second]), streams_text=False))
    whole = words // 4  # sentences that were heard in full
    assert second.texts == list(SENTENCES[whole:])
    again = words % 4
    assert seconds(chunks) == pytest.approx(words * pace + (12 - words + again) * 0.2)


class Spells(TTS):
    """It spells the text in its own way, gives a word every half second, and breaks off behind the last one."""

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
        raise LOST


@pytest.mark.parametrize(
    ("text", "words", "rest"),
    [
        ("I paid 5 for five apples", "I paid five for", "five apples"),
        ("I paid 5 for five apples", "I paid five", "5 for five apples"),  # of "5" it may have been only a part
        ("The room is 2 floors up, room two.", "The room is two floors", "up, room two."),
        ("It is at 3 p.m. and at 4 p.m. too", "It is at three p m and at", "4 p.m. too"),
        ("Take 2024 as it is, 24 times", "Take twenty twenty four as", "it is, 24 times"),
        ("another an apple", "another an", "apple"),
        ("Yes, yes and yes!", "yes yes", "and yes!"),
        ("a cat and a dog and a bird", "a cat and a", "dog and a bird"),
        ("今天天气很好，今天很热", "今天 天气", "很好，今天很热"),
        ("one two", "one two", ""),
    ],
)
def test_no_later_equal_word_is_taken_for_one_that_the_voice_spells_in_another_way(
    text: str, words: str, rest: str
) -> None:
    second = Second(emits_words=True)
    run_virtual(speak(FallbackTTS([Spells(*words.split()), second]), text))
    assert second.texts == ([rest] if rest else [])


def test_a_long_text_with_another_spelling_in_its_middle_goes_on_at_its_place() -> None:
    text = " ".join(f"word{number % 7} and" for number in range(300)).replace("word3", "3", 1)
    words = text.replace(" 3 ", " number three ", 1).split()[:400]
    second = Second(emits_words=True)
    run_virtual(speak(FallbackTTS([Spells(*words), second]), text))
    assert second.texts == [" ".join(text.split()[399:])]


def test_a_voice_that_fails_after_its_last_word_changes_nothing_for_the_caller() -> None:
    second = Second()
    told: list[FellBack] = []

    async def main() -> None:
        on_fallback.set(told.append)
        tts = FallbackTTS([First(emits_words=True, faults={0: TTSFault("after", LOST)}), second])
        assert seconds(await speak(tts)) == pytest.approx(1.6)
        await speak(tts, "next one.")

    run_virtual(main())
    assert second.texts == ["next one."]
    assert told == []


@pytest.mark.parametrize(
    ("when", "text", "after"),
    [("before", TEXT, 1.0 + 0.2), ("middle", "five six seven eight.", 0.2 + 0.5 + 0.2)],
)
def test_a_voice_that_hangs_is_passed_over_within_its_limit(when: str, text: str, after: float) -> None:
    first = First(emits_words=True, faults={0: TTSFault(when)})  # type: ignore[arg-type]
    second = Second()

    async def main() -> None:
        clock = VirtualClock()
        tts = FallbackTTS([first, second], FallbackTTSOptions(first_byte=1.0, stall=0.5))
        await speak(tts)
        assert clock.now() == pytest.approx(after)

    run_virtual(main())
    assert second.texts == [text]
    assert first.cancelled == [0]


def test_the_last_voice_may_take_its_time() -> None:
    first, second = First(faults={0: TTSFault("before", LOST)}), Second(first_byte=5.0)
    chunks = run_virtual(speak(FallbackTTS([first, second], FallbackTTSOptions(first_byte=1.0))))
    assert seconds(chunks) == pytest.approx(1.6)


def test_a_consumer_that_takes_its_time_is_no_hang() -> None:
    second = Second()

    async def main() -> None:
        async for _ in FallbackTTS([First(), second], FallbackTTSOptions(stall=0.1)).synthesize("one two"):
            await anyio.sleep(1.0)

    run_virtual(main())
    assert second.texts == []


def test_a_voice_that_is_silent_though_there_are_words_is_passed_over() -> None:
    class Silent(First):
        async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
            return
            yield

    second = Second()

    async def main() -> None:
        tts = FallbackTTS([Silent(), second])
        assert seconds(await speak(tts)) == pytest.approx(1.6)
        assert await speak(FallbackTTS([Silent(), Silent()]), "…") == []

    run_virtual(main())
    assert second.texts == [TEXT]


def test_if_all_voices_fail_the_last_retryable_error_is_raised() -> None:
    broken = ProviderError("broken", provider="second")

    async def main() -> None:
        voices = [First(faults={0: TTSFault("before", LOST)}), Second(faults={0: TTSFault("before", broken)})]
        with pytest.raises(ProviderConnectionError, match="down"):
            await speak(FallbackTTS(voices))

    run_virtual(main())


def test_three_voices_take_turns_in_one_sentence() -> None:
    first = First(emits_words=True, faults={0: TTSFault("middle", LOST)})
    second = Second(emits_words=True, faults={0: TTSFault("middle", LOST)})
    third = ScriptedTTS(emits_words=True)
    chunks = run_virtual(speak(FallbackTTS([first, second, third])))
    assert third.texts == ["seven eight."]
    assert [word for word, _ in spoken(chunks)] == TEXT.split()


def test_the_audio_has_the_rate_of_the_first_voice() -> None:
    first, second = First(faults={0: TTSFault("before", LOST)}, sample_rate=24000), Second(sample_rate=16000)
    chunks = run_virtual(speak(FallbackTTS([first, second])))
    assert {chunk.frame.sample_rate for chunk in chunks} == {24000}
    assert seconds(chunks) == pytest.approx(1.6, abs=0.01)


def test_a_check_in_the_background_brings_the_first_voice_back() -> None:
    first, second = First(faults={0: TTSFault("before", LOST)}), Second()

    async def main() -> None:
        tts = FallbackTTS([first, second], FallbackTTSOptions(check_every=5.0), clock=VirtualClock())
        async with anyio.create_task_group() as group:
            group.start_soon(Tending((tts,)).run)
            await speak(tts)
            await anyio.sleep(6.0)
            await speak(tts, "again.")
            group.cancel_scope.cancel()

    run_virtual(main())
    assert first.texts == [TEXT, "Hello.", "again."]


# --- text as it comes


async def pieces(*texts: str | float) -> AsyncGenerator[str, None]:
    for text in texts:
        if isinstance(text, str):
            yield text
        else:
            await anyio.sleep(text)


async def stream(tts: TTS, *texts: str | float) -> list[AudioChunk]:
    return [chunk async for chunk in tts.stream(pieces(*texts))]


def test_streamed_text_goes_on_with_the_next_voice_and_no_later_word_is_lost() -> None:
    first = First(emits_words=True, streams_text=True, faults={0: TTSFault("middle", LOST)})
    second = Second(emits_words=True, streams_text=True)
    chunks = run_virtual(stream(FallbackTTS([first, second]), "one two ", 0.5, "three four ", 0.5, "five."))
    assert [word for word, _ in spoken(chunks)] == ["one", "two", "three", "four", "five."]
    assert [start for _, start in spoken(chunks)] == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8])
    assert second.texts == ["three four five."]


def test_a_voice_that_waits_for_streamed_text_does_not_hang() -> None:
    first, second = First(emits_words=True, streams_text=True), Second(emits_words=True, streams_text=True)
    chunks = run_virtual(stream(FallbackTTS([first, second]), "one ", 20.0, "two"))
    assert seconds(chunks) == pytest.approx(0.4)
    assert second.texts == []


def test_a_voice_that_hangs_with_streamed_text_to_speak_is_passed_over() -> None:
    first = First(emits_words=True, streams_text=True, faults={0: TTSFault("before")})
    second = Second(emits_words=True, streams_text=True)

    async def main() -> None:
        clock = VirtualClock()
        tts = FallbackTTS([first, second], FallbackTTSOptions(first_byte=1.0))
        await stream(tts, "one ", 3.0, "two")
        assert clock.now() == pytest.approx(1.0 + 0.2 + 3.0)

    run_virtual(main())
    assert second.texts == ["one two"]


def test_an_error_of_the_text_is_raised_and_blames_no_voice() -> None:
    async def broken() -> AsyncGenerator[str, None]:
        yield "one "
        raise KeyError("mine")

    async def main() -> None:
        voices = [First(emits_words=True, streams_text=True), Second(emits_words=True, streams_text=True)]
        tts = FallbackTTS(voices)
        with pytest.raises(KeyError, match="mine"):
            async for _ in tts.stream(broken()):
                pass
        assert tts.model == "first"

    run_virtual(main())


@pytest.mark.parametrize("lacks", ["streams_text", "emits_words"])
def test_text_is_streamed_only_if_all_voices_do_and_say_where_they_are(lacks: str) -> None:
    second = Second(sample_rate=8000, streams_text=lacks != "streams_text", emits_words=lacks != "emits_words")
    tts = FallbackTTS([First(streams_text=True, emits_words=True), second])
    assert tts.capabilities == TTSCapabilities(sample_rate=24000, emits_words=True, streams_text=False)

    async def main() -> None:
        with pytest.raises(CapabilityError, match=f"second lacks the capability '{lacks}'"):
            await stream(tts, "one")

    run_virtual(main())


def test_a_closed_synthesis_closes_its_voice_and_reads_no_more_text() -> None:
    first = First(emits_words=True, streams_text=True, options=ScriptedTTSOptions(chunk_interval=0.1))
    is_closed: list[bool] = []

    async def endless() -> AsyncGenerator[str, None]:
        try:
            while True:
                yield "word "
                await anyio.sleep(0.1)
        finally:
            is_closed.append(True)

    async def main() -> None:
        speech = FallbackTTS([first, Second(emits_words=True, streams_text=True)]).stream(endless())
        async for _ in speech:
            break
        await speech.aclose()

    run_virtual(main())
    assert first.cancelled == [0]
    assert is_closed == [True]


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ConfigurationError, match="two members"):
        FallbackTTS([ScriptedTTS()])
    with pytest.raises(ConfigurationError, match="stall"):
        FallbackTTSOptions(stall=-1)
    with pytest.raises(ConfigurationError, match="options"):
        FallbackTTS([ScriptedTTS()] * 2, HANG)  # type: ignore[arg-type]


def test_members_without_a_list_are_refused_with_the_list_that_is_needed() -> None:
    with pytest.raises(ConfigurationError, match=r"in one list, FallbackTTS\(\[a, b\]\), got .*ScriptedTTS"):
        FallbackTTS(ScriptedTTS(), ScriptedTTS())  # type: ignore[arg-type]


class HangsAsItFails(First):
    """Its clean-up waits for a server that is gone."""

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        try:
            async for chunk in super().synthesize(text):
                yield chunk
                raise LOST
        finally:
            await anyio.sleep_forever()


def test_a_voice_that_hangs_in_its_clean_up_is_passed_over_within_its_limit() -> None:
    second = Second()

    async def main() -> None:
        clock = VirtualClock()
        await speak(FallbackTTS([HangsAsItFails(), second], FallbackTTSOptions(stall=0.5)))
        assert clock.now() == pytest.approx(0.2 + 0.5 + 0.2)

    run_virtual(main())
    assert second.texts == [TEXT]
