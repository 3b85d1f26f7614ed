"""elevenlabs.TTS on the twin: text as it comes, words with times, settings."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace

import anyio.lowlevel
import pytest

from kit.limits import LIMIT
from kit.voiced import at_quarters, error_of, hear, heard, levels, pieces, words
from vivavoce.pipelines.core.errors import (
    ConfigurationError,
)
from vivavoce.pipelines.testing import run_virtual
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.plugins import elevenlabs
from vivavoce.plugins.elevenlabs.twin import ElevenLabsTwin, TwinPace

Make = Callable[..., elevenlabs.TTS]

KEY = ElevenLabsTwin.key
PACE = TwinPace(first_byte=0.0, interval=0.0)


# --- text and words


async def test_streamed_text_goes_sentence_by_sentence_into_one_context(twin: ElevenLabsTwin, make: Make) -> None:
    chunks = await heard(make().stream(pieces("Hel", "lo there. How a", "re you", "? And so", " on")))
    [context] = twin.contexts
    assert twin.received == [
        {"text": " ", "context_id": context.id},
        *(
            {"text": text, "context_id": context.id, "flush": True}
            for text in ("Hello there. ", "How are you? ", "And so on ")
        ),
        {"context_id": context.id, "close_context": True},
    ]
    assert words(chunks) == at_quarters("Hello there. How are you? And so on")
    assert sum(chunk.frame.duration for chunk in chunks) == 2.0


async def test_a_sentence_is_spoken_when_white_space_follows_it(twin: ElevenLabsTwin, make: Make) -> None:
    sounds = anyio.Event()

    async def text() -> AsyncGenerator[str, None]:
        yield "Dr. "
        yield "Smith is here. "
        await sounds.wait()
        yield "Come in."

    async with aclosing(make().stream(text())) as chunks:
        with anyio.fail_after(LIMIT):
            async for chunk in chunks:
                if chunk.frame.data:
                    sounds.set()
    assert [context.text for context in twin.contexts] == ["Dr. Smith is here. Come in. "]


async def test_text_without_words_is_sent_with_the_first_words_or_not_at_all(twin: ElevenLabsTwin, make: Make) -> None:
    tts = make()
    assert await heard(tts.stream(pieces("… ", "\n\n", "!"))) == []
    assert await heard(tts.synthesize("…")) == []
    assert twin.received == []
    await heard(tts.stream(pieces("...\n\n", "Well. ", "…")))
    assert twin.contexts[0].text == "... Well. "


@pytest.mark.parametrize("times", ["chunk", "answer"])
@pytest.mark.parametrize("names", ["camel", "plural", "snake"])
@pytest.mark.parametrize("cuts_words", [False, True])
async def test_words_have_their_times_in_each_form_in_which_the_vendor_tells_them(
    twin: ElevenLabsTwin, make: Make, times: str, names: str, cuts_words: bool
) -> None:
    twin.pace = replace(PACE, times=times, names=names, cuts_words=cuts_words)  # type: ignore[arg-type]
    chunks = await heard(make().stream(pieces("Hello there, Ann. ", "How are you?")))
    assert words(chunks) == at_quarters("Hello there, Ann. How are you?")
    assert levels(chunks) == {twin.contexts[0].level}
    assert sum(chunk.frame.samples for chunk in chunks) == 36_000


async def test_words_are_those_of_the_text_and_with_dictionaries_those_that_are_spoken(
    twin: ElevenLabsTwin, make: Make
) -> None:
    twin.pace = replace(PACE, spoken={"Dr.": "Doctor"})
    dictionaries = elevenlabs.TTSOptions(pronunciations=(elevenlabs.Pronunciation("dict_1", "v_1"),))
    assert words(await heard(make().synthesize("Dr. Smith."))) == at_quarters("Dr. Smith.")
    tts = make(options=dictionaries)
    assert words(await heard(tts.synthesize("Dr. Smith."))) == at_quarters("Doctor Smith.")
    twin.pace = replace(PACE, has_alignment=False)
    assert words(await heard(make().synthesize("Yes."))) == at_quarters("Yes.")


async def test_a_text_without_spaces_has_a_word_for_each_sign(twin: ElevenLabsTwin, make: Make) -> None:
    chunks = await heard(make(language="zh").synthesize("你好。"))
    assert [word for word, _, _ in words(chunks)] == ["你", "好。"]


def test_a_pause_that_outlives_the_context_begins_another_one_whose_times_go_on() -> None:
    async def main() -> None:
        async def text() -> AsyncGenerator[str, None]:
            yield "Hello there. "
            await anyio.sleep(100)
            yield "At once. "
            for _ in range(2):
                await anyio.sleep(160)
                yield "And later. "

        async with ElevenLabsTwin() as twin, elevenlabs.TTS(base_url=twin.url, api_key=twin.key) as tts:
            chunks = await heard(tts.stream(text()), limit=600)
            texts = [context.text for context in twin.contexts]
            assert texts == ["Hello there. At once. ", "And later. ", "And later. "]
            assert words(chunks) == at_quarters("Hello there. At once. And later. And later.")
            await twin.until(lambda: not twin.live)
            assert len(twin.connections) == 1

    run_virtual(main())


async def test_an_error_of_the_source_of_the_text_is_raised_behind_the_speech_before_it(
    twin: ElevenLabsTwin, make: Make
) -> None:
    async def text() -> AsyncGenerator[str, None]:
        yield "Hello there. How"
        raise LookupError("no more")

    chunks: list[AudioChunk] = []
    with pytest.raises(LookupError, match="no more"):
        await hear(make().stream(text()), chunks)
    assert [word for word, _, _ in words(chunks)] == ["Hello", "there."]
    await twin.until(lambda: not twin.live)


# --- settings


async def test_the_settings_are_in_the_handshake_and_in_the_first_message(twin: ElevenLabsTwin, make: Make) -> None:
    options = elevenlabs.TTSOptions(
        speed=1.1,
        stability=0.4,
        similarity=0.8,
        style=0.2,
        speaker_boost=False,
        pronunciations=(elevenlabs.Pronunciation("dict_1", "v_1"),),
        normalization="off",
        ssml=True,
        log=False,
        sample_rate=8000,
    )
    tts = make(voice="another-voice", language="de", options=options)
    chunks = await heard(tts.stream(pieces("Guten Tag. ", "Wie geht's?")))
    assert {chunk.frame.sample_rate for chunk in chunks} == {8000} == {tts.capabilities.sample_rate}
    path, query, key = twin.handshakes[0]
    assert (path, key) == ("/v1/text-to-speech/another-voice/multi-stream-input", twin.key)
    assert {name: value for name, (value,) in query.items()} == {
        "model_id": "eleven_flash_v2_5",
        "output_format": "pcm_8000",
        "auto_mode": "true",
        "sync_alignment": "true",
        "inactivity_timeout": "180",
        "apply_text_normalization": "off",
        "language_code": "de",
        "enable_ssml_parsing": "true",
        "enable_logging": "false",
    }
    assert twin.contexts[0].first == {
        "text": " ",
        "voice_settings": {
            "speed": 1.1,
            "stability": 0.4,
            "similarity_boost": 0.8,
            "style": 0.2,
            "use_speaker_boost": False,
        },
        "pronunciation_dictionary_locators": [{"pronunciation_dictionary_id": "dict_1", "version_id": "v_1"}],
        "context_id": twin.contexts[0].id,
    }


NORMALIZED = elevenlabs.TTSOptions(normalization="on")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"language": "xx"}, "the languages of eleven_flash_v2_5 are en, ar.*got 'xx'"),
        ({"model": "eleven_multilingual_v2", "language": "de"}, "goes by the language of the text; leave language out"),
        ({"model": "eleven_flash_v2", "language": "de"}, "the languages of eleven_flash_v2 are en; got 'de'"),
        ({"model": "eleven_v9", "language": "in English"}, "code such as 'en', got 'in English'"),
        ({"model": "eleven_v3"}, "has an API of its own.*use one of eleven_flash_v2_5"),
        ({"options": NORMALIZED}, "eleven_flash_v2_5 cannot normalise text"),
        ({"voice": ""}, "need voice as a name"),
        ({"voice": "George Smith?"}, "voice must be an id such as"),
        ({"model": None}, "need model as a str"),
        ({"base_url": "elevenlabs"}, "base_url must be a URL"),
        ({"region": "eu"}, "region or base_url"),
        ({"base_url": None}, "set ELEVENLABS_API_KEY or ELEVEN_API_KEY or give api_key"),
    ],
)
def test_a_wrong_argument_is_refused_at_once(arguments: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        elevenlabs.TTS(**{"base_url": "http://127.0.0.1:9", **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"speed": 0.5}, "speed >= 0.7"),
        ({"speed": 2.0}, "speed <= 1.2, got 2.0"),
        ({"stability": 3}, "stability <= 1, got 3"),
        ({"normalization": "yes"}, "normalization"),
        ({"sample_rate": 48_000}, "one of .*16000.* Hz, got 48000"),
        ({"pronunciations": (elevenlabs.Pronunciation("d", ""),)}, "the ids of a dictionary and of its version"),
    ],
)
def test_a_wrong_option_is_refused(arguments: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        elevenlabs.TTSOptions(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("variable", ["ELEVENLABS_API_KEY", "ELEVEN_API_KEY"])
async def test_the_key_of_the_environment_goes_to_the_vendor_only(
    twin: ElevenLabsTwin, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, twin.key)
    for region, host in (("", "api.elevenlabs.io"), ("us", "api.us."), ("eu", "api.eu.residency.elevenlabs.io")):
        async with elevenlabs.TTS(region=region) as of_the_vendor:  # type: ignore[arg-type]
            assert host in repr(of_the_vendor)
            assert twin.key not in repr(of_the_vendor)
    async with elevenlabs.TTS(base_url=twin.url) as elsewhere:
        assert (await error_of(KEY, elsewhere.synthesize("Hello."))).provider == "elevenlabs"
    assert twin.handshakes[0][2] == ""
