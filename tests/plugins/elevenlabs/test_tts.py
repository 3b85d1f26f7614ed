"""elevenlabs.TTS on the twin: contexts on one connection, text as it comes, words with times, cuts, failures."""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace

import anyio.lowlevel
import pytest

from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderStatusError,
    ProviderTimeoutError,
)
from vivavoce.pipelines.testing import run_virtual
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.plugins import elevenlabs
from vivavoce.plugins.elevenlabs import connection
from vivavoce.plugins.elevenlabs.twin import ElevenLabsTwin, TwinFault, TwinPace

Make = Callable[..., elevenlabs.TTS]

LIMIT = 60.0
LONG = " ".join(f"word{number}" for number in range(40)) + "."
PACE = TwinPace(first_byte=0.0, interval=0.0)


async def pieces(*texts: str) -> AsyncGenerator[str, None]:
    for text in texts:
        yield text


async def hear(chunks: AsyncIterator[AudioChunk], spoken: list[AudioChunk], limit: float = LIMIT) -> None:
    with anyio.fail_after(limit):
        async for chunk in chunks:
            spoken.append(chunk)


async def heard(chunks: AsyncIterator[AudioChunk], limit: float = LIMIT) -> list[AudioChunk]:
    spoken: list[AudioChunk] = []
    await hear(chunks, spoken, limit)
    return spoken


async def cut_off(tts: elevenlabs.TTS, text: str = LONG) -> None:
    """Begin to speak, and close the speech behind its first audio."""
    async with aclosing(tts.stream(pieces(text))) as chunks:
        async for chunk in chunks:
            if chunk.frame.data:
                break


def words(chunks: list[AudioChunk]) -> list[tuple[str, float, float]]:
    return [(word.text, round(word.start, 3), round(word.end, 3)) for chunk in chunks for word in chunk.words]


def levels(chunks: list[AudioChunk]) -> set[int]:
    """Return the sizes of all samples: each context of the twin has its own."""
    return {abs(sample) for chunk in chunks for (sample,) in struct.iter_unpack("<h", chunk.frame.data)}


def at_quarters(text: str) -> list[tuple[str, float, float]]:
    return [(word, number * 0.25, (number + 1) * 0.25) for number, word in enumerate(text.split())]


async def error_of(chunks: AsyncIterator[AudioChunk]) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await heard(chunks)
    assert ElevenLabsTwin.key not in f"{caught.value!s} {caught.value!r}"
    return caught.value


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
        assert (await error_of(elsewhere.synthesize("Hello."))).provider == "elevenlabs"
    assert twin.handshakes[0][2] == ""


# --- one connection


async def test_the_first_speech_needs_no_handshake_on_a_warm_voice(twin: ElevenLabsTwin, make: Make) -> None:
    tts = make()
    tts.warm()
    tts.warm()
    await twin.until(lambda: twin.connections)
    await heard(tts.synthesize("One."))
    await heard(tts.stream(pieces("Two.")))
    assert len(twin.handshakes) == 1
    assert len(twin.contexts) == 2


async def test_five_speeches_at_once_share_a_connection_and_do_not_mix(twin: ElevenLabsTwin, make: Make) -> None:
    tts, spoken = make(), list[list[AudioChunk]]()

    async def speak(text: str) -> None:
        spoken.append(await heard(tts.stream(pieces(text))))

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(speak, f"Number {number}. " + LONG)
    assert len(twin.connections) == 2
    assert [len(levels(chunks)) for chunks in spoken] == [1] * 8
    assert len({tuple(levels(chunks)) for chunks in spoken}) == 8


async def test_a_cut_closes_the_context_keeps_the_connection_and_leaves_nothing_in_the_next_speech(
    twin: ElevenLabsTwin, make: Make
) -> None:
    twin.pace = replace(PACE, interval=0.001)
    tts = make()
    await cut_off(tts)
    after = await heard(tts.stream(pieces("After the cut. ", LONG)))
    cut, next_one = twin.contexts
    assert twin.received.count({"context_id": cut.id, "close_context": True}) == 1
    assert levels(after) == {next_one.level}
    assert [word for word, _, _ in words(after)] == f"After the cut. {LONG}".split()
    await twin.until(lambda: not twin.live)
    assert len(cut.spoken) > 1, "its late audio came, and was dropped"
    assert len(twin.connections) == 1


async def test_a_context_that_was_cut_keeps_its_place_until_the_server_has_ended_it(
    twin: ElevenLabsTwin, make: Make
) -> None:
    twin.pace = replace(PACE, interval=0.01)
    tts = make()
    for _ in range(7):  # five places: a sixth context would end the connection
        await cut_off(tts)
    assert words(await heard(tts.synthesize("All is well."))) == at_quarters("All is well.")
    assert all(sent.get("error") is None for one in twin.connections for sent in one.sent)
    assert len(twin.connections) == 2
    await twin.until(lambda: not twin.live)
    await cut_off(tts)
    assert len(twin.connections) == 2, "the places are free again"


def test_a_server_that_does_not_end_a_cut_context_gets_no_further_speech_on_that_connection() -> None:
    async def main() -> None:
        async with ElevenLabsTwin() as twin, elevenlabs.TTS(base_url=twin.url, api_key=twin.key) as tts:
            twin.faults.append(TwinFault(kind="silent", after=0))
            await cut_off(tts)
            await anyio.sleep(connection.END_LIMIT + 1)
            await heard(tts.synthesize("Again."))
            assert len(twin.connections) == 2
            await twin.until(lambda: twin.connections[0].is_over)

    run_virtual(main())


async def test_a_cut_while_the_text_still_comes_leaves_the_text_to_its_owner(twin: ElevenLabsTwin, make: Make) -> None:
    class Endless(AsyncIterator[str]):
        reads = 0

        async def __anext__(self) -> str:
            self.reads += 1
            if self.reads > 1:
                await anyio.sleep_forever()
            return "Hello there. "

    text = Endless()
    async with aclosing(make().stream(text)) as chunks:
        await anext(chunks)
    assert text.reads == 2
    await twin.until(lambda: not twin.live)


async def test_a_connection_that_the_server_closed_meanwhile_is_replaced(twin: ElevenLabsTwin, make: Make) -> None:
    tts = make()
    await heard(tts.synthesize("One."))
    await twin.connections[0].close(1000, "inactivity")
    for _ in range(50):
        await anyio.lowlevel.checkpoint()  # the steps in which the voice learns it
    assert levels(await heard(tts.synthesize("Two."))) == {twin.contexts[1].level}
    assert len(twin.connections) == 2


def test_an_idle_connection_is_closed_before_the_server_does_it() -> None:
    async def main() -> None:
        async with ElevenLabsTwin() as twin, elevenlabs.TTS(base_url=twin.url, api_key=twin.key) as tts:
            await heard(tts.synthesize("One."))
            await anyio.sleep(160)
            await heard(tts.synthesize("Two."))
            assert len(twin.connections) == 1
            await anyio.sleep(169)
            assert not twin.connections[0].is_over
            await anyio.sleep(2)
            assert twin.connections[0].is_over

    run_virtual(main())


async def test_a_closed_voice_ends_its_speech_and_refuses_more(twin: ElevenLabsTwin, make: Make) -> None:
    twin.faults.append(TwinFault(kind="stall", after=1))
    tts = make()
    async with aclosing(tts.synthesize(LONG)) as chunks:
        while not (await anext(chunks)).frame.data:
            pass
        await tts.aclose()
        error = await error_of(chunks)
    assert "the voice was closed" in str(error)
    assert not error.retryable
    with pytest.raises(ConfigurationError, match="closed; make another one"):
        await heard(tts.synthesize("More."))
    with pytest.raises(ConfigurationError, match="closed; make another one"):
        tts.warm()


# --- refusals and failures


async def test_a_voice_that_does_not_exist_is_named_with_where_to_find_others(make: Make) -> None:
    error = await error_of(make(voice="nobody").synthesize("Hello there."))
    assert isinstance(error, ProviderStatusError)
    assert (error.status, error.retryable) == (404, False)
    for told in (
        "voice_id_does_not_exist",
        "the voice 'nobody'",
        "voice-library",
        "languages of eleven_flash_v2_5: en",
    ):
        assert told in str(error)
    assert "Hello" not in str(error)


async def test_a_model_that_does_not_exist_is_named_with_what_there_is(make: Make) -> None:
    error = await error_of(make(model="eleven_v99").stream(pieces("Hello there.")))
    for told in ("status 400", "unsupported_model", "the model 'eleven_v99'", "models: eleven_flash_v2_5, "):
        assert told in str(error)
    assert not error.retryable


async def test_a_text_that_the_vendor_refuses_is_not_quoted(twin: ElevenLabsTwin, make: Make) -> None:
    told = f"cannot speak {LONG!r} with {twin.key}"
    twin.faults.append(TwinFault(kind="error", error="invalid_text", message=told))
    error = await error_of(make().synthesize(LONG))
    assert "invalid_text" in str(error)
    assert "withheld, since it quotes the conversation" in str(error)
    assert "word3" not in str(error)
    assert not error.retryable


async def test_a_key_of_another_product_is_told(make: Make) -> None:
    key = "gsk_of_another_vendor"
    error = await error_of(make(api_key=key).synthesize("Hello."))
    assert isinstance(error, ProviderStatusError)
    assert (error.status, error.retryable) == (401, False)
    assert "must be one of ElevenLabs (ELEVENLABS_API_KEY" in str(error)
    assert key not in str(error)


async def test_an_error_of_one_context_leaves_the_others_alone(twin: ElevenLabsTwin, make: Make) -> None:
    twin.faults += [None, TwinFault(kind="error", after=2, code=0)]
    tts = make()
    async with aclosing(tts.synthesize(LONG)) as chunks:
        first = [await anext(chunks)]
        error = await error_of(tts.synthesize(LONG))
        first += await heard(chunks)
    assert error.retryable
    assert [word for word, _, _ in words(first)] == LONG.split()
    assert len(twin.connections) == 1


@pytest.mark.parametrize(
    ("fault", "kind", "retryable"),
    [
        (TwinFault(kind="cut", after=2), ProviderConnectionError, True),
        (TwinFault(kind="close", after=2, code=1011), ProviderConnectionError, True),
        (TwinFault(kind="close", after=2, reason="policy"), ProviderStatusError, False),
        (TwinFault(kind="error", after=2, error="max_active_conversations"), ProviderStatusError, True),
        (TwinFault(kind="error", after=2, error="quota_exceeded"), ProviderStatusError, False),
        (TwinFault(kind="garbage", after=2), ProviderProtocolError, False),
    ],
    ids=lambda value: f"{value.kind} {value.error}" if isinstance(value, TwinFault) else "",
)
async def test_a_broken_connection_fails_its_speech_and_not_the_next_one(
    twin: ElevenLabsTwin, make: Make, fault: TwinFault, kind: type[ProviderError], retryable: bool
) -> None:
    twin.faults.append(fault)
    tts, spoken = make(), list[AudioChunk]()
    with pytest.raises(kind) as caught:
        await hear(tts.synthesize(LONG), spoken)
    assert caught.value.retryable is retryable
    assert [word for word, _, _ in words(spoken)] == ["word0", "word1"]
    assert "word3" not in str(caught.value)
    assert words(await heard(tts.synthesize("Again."))) == [("Again.", 0.0, 0.25)]
    assert len(twin.connections) == 2


async def test_a_message_of_an_unknown_kind_is_passed_over(twin: ElevenLabsTwin, make: Make) -> None:
    twin.faults.append(TwinFault(kind="unknown", after=1))
    assert len(words(await heard(make().synthesize("One two three.")))) == 3


def test_a_server_that_falls_silent_is_given_up_and_a_text_that_pauses_is_not() -> None:
    async def main() -> None:
        async def text() -> AsyncGenerator[str, None]:
            yield "Hello there. "
            await anyio.sleep(120)
            yield "And on."

        async with ElevenLabsTwin() as twin, elevenlabs.TTS(base_url=twin.url, api_key=twin.key) as tts:
            assert len(words(await heard(tts.stream(text()), limit=400))) == 4
            twin.faults.append(TwinFault(kind="stall", after=1))
            before = anyio.current_time()
            with pytest.raises(ProviderTimeoutError, match="nothing for 60.0 s"):
                await heard(tts.synthesize("One two three."), limit=400)
            assert anyio.current_time() - before < 61
            await twin.until(lambda: {"context_id": twin.contexts[-1].id, "close_context": True} in twin.received)

    run_virtual(main())
