"""Words with times: on the session's clock, over a reopened stream and over a change of the recogniser."""

from __future__ import annotations

import logging
from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest

from kit.fallback_listening import FRAME, LOST, First, Listening, Second, listen
from vivavoce.pipelines.core.errors import CapabilityError
from vivavoce.pipelines.events import PipelineEvent, UserFinal, UserInterim
from vivavoce.pipelines.listening.ears import Ears
from vivavoce.pipelines.pipeline import PipelineContext
from vivavoce.pipelines.speech import SpeechComponents, SpeechOptions
from vivavoce.pipelines.stt.audio_times import AudioTimes
from vivavoce.pipelines.stt.base import STTCapabilities, STTFinal, STTInterim, STTWord
from vivavoce.pipelines.stt.fallback import FallbackSTT
from vivavoce.pipelines.stt.recognised import last_words
from vivavoce.pipelines.testing import ScriptedSTT, VirtualClock, run_virtual, words_at

CAN = STTCapabilities(emits_words=True, diarizes=True, takes_key_terms=True)


def times(words: tuple[STTWord, ...]) -> list[tuple[str, float, float]]:
    return [(word.text, round(word.start, 3), round(word.end, 3)) for word in words]


# --- the value


def test_a_transcript_takes_its_speaker_and_its_main_language_from_what_it_is_made_of() -> None:
    mine, yours = words_at(0.0, "hello", speaker="A"), words_at(0.2, "there", speaker="B")
    assert STTFinal(text="hello", words=mine).speaker == "A"
    assert STTFinal(text="hello there", words=mine + yours).speaker == ""
    assert STTInterim(text="hola", languages=("es", "en")).language == "es"
    assert STTInterim(text="hola", language="es").languages == ("es",)


@pytest.mark.parametrize(("start", "end"), [(1.0, 0.9), (-0.1, 0.2), (0.0, float("inf")), (float("nan"), 1.0)])
def test_a_word_with_impossible_times_is_refused(start: float, end: float) -> None:
    with pytest.raises(ValueError, match="a word needs 0 <= start <= end"):
        STTWord(text="hello", start=start, end=end)


def test_words_that_are_no_words_are_refused() -> None:
    with pytest.raises(TypeError, match="need to be STTWord, got str"):
        STTFinal(text="hello", words=("hello",))  # type: ignore[arg-type]


def test_a_text_that_is_the_end_of_another_one_has_its_last_words() -> None:
    words = words_at(0.0, "Five, please: five five!")
    assert last_words(words, "five five") == words[2:]
    assert last_words(words, "Five please five five") == words
    assert last_words(words, "six") == last_words(words, "") == last_words((), "") == ()


# --- positions and times


def test_positions_follow_the_audio_over_pauses_and_bursts() -> None:
    heard = AudioTimes()

    def at(position: float) -> float:
        (word,) = heard.words((STTWord(text="x", start=position, end=position + 0.01),))
        return round(word.start, 6)

    for frame in range(50):  # 1 s from 10.0 on
        heard.push(0.02, 10.02 + frame * 0.02)
    for frame in range(50):  # nothing for 5 s
        heard.push(0.02, 16.02 + frame * 0.02)
    for _ in range(50):  # 1 s that comes in one go, 1 s late
        heard.push(0.02, 18.0)
    assert [at(0.5), at(0.98), at(1.5), at(2.5)] == [10.5, 10.98, 16.5, 17.5]
    assert AudioTimes().words(words_at(1.0, "x")) == words_at(1.0, "x")


def test_words_have_the_times_of_the_session_over_a_lost_stream_and_a_pause() -> None:
    stt, events = ScriptedSTT(capabilities=CAN), list[PipelineEvent]()

    async def main() -> None:
        clock = VirtualClock()

        async def hear(seconds: float) -> None:
            for _ in range(round(seconds / FRAME.duration)):
                await anyio.sleep(FRAME.duration)
                ears.push(FRAME)

        ears = Ears(SpeechComponents(stt=stt), SpeechOptions(), PipelineContext(clock=clock, emit=events.append))
        await anyio.sleep(3.0)
        async with anyio.create_task_group() as tasks:
            await tasks.start(ears.run)
            await hear(1.0)
            stt.stream.emit(STTInterim(text="one", words=words_at(0.5, "one", speaker="A"), confidence=0.5))
            await anyio.lowlevel.checkpoint()
            stt.fail()
            await anyio.sleep(4.0)  # without audio, until the next stream is there
            await hear(1.0)
            stt.stream.emit(
                STTFinal(text="two", words=words_at(0.5, "two", speaker="B"), confidence=0.9, languages=("en", "de"))
            )
            await anyio.sleep(0.1)
            tasks.cancel_scope.cancel()

    run_virtual(main())
    words = [event for event in events if isinstance(event, UserInterim | UserFinal)]
    assert [times(event.words) for event in words] == [
        [("one", 3.5, 3.7)],
        [("one", 3.5, 3.7)],  # the words of a lost stream's interim become a final
        [("two", 8.5, 8.7)],
    ]
    assert [(event.text, event.speaker, event.confidence, event.languages) for event in words] == [
        ("one", "A", 0.5, ()),
        ("one", "A", 0.5, ()),
        ("two", "B", 0.9, ("en", "de")),
    ]


# --- FallbackSTT


def test_the_next_recogniser_goes_on_counting_where_the_kept_audio_begins() -> None:
    can = STTCapabilities(emits_words=True, needs_flush=True)
    first, second = First(["one"], capabilities=can), Second(["two"], capabilities=can, open_delay=0.3)

    async def act(listening: Listening) -> None:
        await listening.say(1.0, silence=2.0)  # from 0.1 s to 1.2 s of the stream, settled
        listening.stream.speech_started(0.1)
        await listening.hear(0.5)
        first.fail(LOST)
        await listening.hear(0.5)
        listening.stream.flush()
        await listening.hear(0.3)

    listening = listen(FallbackSTT([first, second]), act)
    finals = [event for _, event in listening.events if isinstance(event, STTFinal)]
    assert [times(final.words) for final in finals] == [[("one", 0.1, 1.2)], [("two", 3.1, 4.2)]]


def test_a_final_that_is_made_of_an_interim_has_its_words_and_speaker() -> None:
    first, second = First(), Second()
    shown = STTInterim(text="hello there", words=words_at(0.3, "hello there", speaker="A"))

    async def act(listening: Listening) -> None:
        await listening.hear(0.2)
        listening.stream.speech_started(0.1)
        await listening.hear(0.5)
        first.stream.emit(shown)
        await listening.hear(0.1)
        listening.stream.flush()
        await listening.hear(20.0)

    listening = listen(FallbackSTT([first, second]), act)
    (final,) = (event for _, event in listening.events if isinstance(event, STTFinal))
    assert (final.text, final.words, final.speaker) == ("hello there", shown.words, "A")


def test_a_fallback_gives_key_terms_to_those_that_take_them(caplog: pytest.LogCaptureFixture) -> None:
    first, second = First(["one"], capabilities=CAN), Second(capabilities=STTCapabilities())
    third = ScriptedSTT(capabilities=replace(CAN, emits_words=False))
    stt = FallbackSTT([first, second, third])
    assert stt.capabilities == STTCapabilities(takes_key_terms=True)

    async def main() -> None:
        stream = await stt.open_with_key_terms(("Vivavoce",))
        first.fail(LOST)
        second.fail_open(LOST)
        await anyio.sleep(0.1)
        await stream.aclose()
        with pytest.raises(CapabilityError, match="fallback lacks the capability .takes_key_terms."):
            await FallbackSTT([second, Second()]).open_with_key_terms(("Vivavoce",))

    with caplog.at_level(logging.WARNING):
        run_virtual(main())
    assert [stream.key_terms for stream in (*first.streams, *third.streams)] == [("Vivavoce",)] * 2
    assert [record.message for record in caplog.records if "key terms" in record.message] == [
        "second takes no key terms: it hears without SessionOptions.key_terms; choose a recogniser with the capability "
        "'takes_key_terms', or leave them out"
    ]
