"""cartesia.TTS on the twin: contexts on one connection, text as it comes, cuts, failures."""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

import anyio
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
from vivavoce.plugins import cartesia
from vivavoce.plugins.cartesia.twin import CartesiaTwin, Refusal, TwinFault, TwinPace

Make = Callable[..., cartesia.TTS]

LIMIT = 60.0
LONG = " ".join(f"word{number}" for number in range(40)) + "."


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


def words(chunks: list[AudioChunk]) -> list[tuple[str, float, float]]:
    return [(word.text, word.start, word.end) for chunk in chunks for word in chunk.words]


def levels(chunks: list[AudioChunk]) -> set[int]:
    """Return the sizes of all samples: each context of the twin has its own."""
    return {abs(sample) for chunk in chunks for (sample,) in struct.iter_unpack("<h", chunk.frame.data)}


async def error_of(chunks: AsyncIterator[AudioChunk]) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await heard(chunks)
    assert CartesiaTwin.key not in f"{caught.value!s} {caught.value!r}"
    return caught.value


# --- text and words


async def test_streamed_text_goes_sentence_by_sentence_into_one_context(twin: CartesiaTwin, make: Make) -> None:
    chunks = await heard(make().stream(pieces("Hel", "lo there. How a", "re you", "? And so", " on")))
    sent = [(message["transcript"], message["continue"]) for message in twin.received]
    assert sent == [("Hello there. ", True), ("How are you? ", True), ("And so on ", True), ("", False)]
    assert len({message["context_id"] for message in twin.received}) == 1
    assert words(chunks) == [
        (word, number * 0.25, (number + 1) * 0.25)
        for number, word in enumerate("Hello there. How are you? And so on".split())
    ]
    assert sum(chunk.frame.duration for chunk in chunks) == 2.0


async def test_a_sentence_is_sent_when_white_space_follows_it(twin: CartesiaTwin, make: Make) -> None:
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


async def test_text_without_words_is_sent_with_the_first_words_or_not_at_all(twin: CartesiaTwin, make: Make) -> None:
    tts = make()
    assert await heard(tts.stream(pieces("… ", "\n\n", "!"))) == []
    assert await heard(tts.synthesize("…")) == []
    assert twin.received == []
    await heard(tts.stream(pieces("...\n\n", "Well. ", "…")))
    assert [message["transcript"] for message in twin.received] == ["... Well. ", ""]


async def test_text_in_which_the_server_finds_no_words_is_no_error(twin: CartesiaTwin, make: Make) -> None:
    text = "transcript empty or contains only punctuation"
    twin.faults.append(TwinFault(kind="error", error=Refusal(400, "Invalid transcript", text)))
    assert await heard(make().synthesize("½")) == []


async def test_words_keep_their_times_also_if_they_come_behind_their_audio(twin: CartesiaTwin, make: Make) -> None:
    twin.pace = TwinPace(first_byte=0.0, interval=0.0, times_after_audio=True)
    chunks = await heard(make().synthesize("One two."))
    assert words(chunks) == [("One", 0.0, 0.25), ("two.", 0.25, 0.5)]
    assert chunks[-1].is_end


async def test_samples_that_come_in_two_pieces_are_joined(twin: CartesiaTwin, make: Make) -> None:
    twin.pace = TwinPace(first_byte=0.0, interval=0.0, cuts_samples=True)
    chunks = await heard(make().synthesize("One two."))
    assert levels(chunks) == {twin.contexts[0].level}
    assert sum(chunk.frame.samples for chunk in chunks) == 12_000


def test_a_pause_that_outlives_the_context_begins_another_one_whose_times_go_on() -> None:
    async def main() -> None:
        async def text() -> AsyncGenerator[str, None]:
            yield "Hello there. "
            await anyio.sleep(0.4)
            yield "At once. "
            for pause in (0.9, 5.0):
                await anyio.sleep(pause)
                yield "And later. "

        async with CartesiaTwin() as twin, cartesia.TTS(base_url=twin.url, api_key=twin.key) as tts:
            chunks = await heard(tts.stream(text()))
            assert [context.text for context in twin.contexts] == [
                "Hello there. At once. ",
                "And later. ",
                "And later. ",
            ]
            assert len(twin.connections) == 1
            spoken = "Hello there. At once. And later. And later.".split()
            assert words(chunks) == [(word, n * 0.25, (n + 1) * 0.25) for n, word in enumerate(spoken)]
            assert not twin.live

    run_virtual(main())


async def test_an_error_of_the_source_of_the_text_is_raised_behind_the_speech_before_it(
    twin: CartesiaTwin, make: Make
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


async def test_the_settings_are_in_each_request(twin: CartesiaTwin, make: Make) -> None:
    options = cartesia.TTSOptions(speed=1.2, volume=0.8, emotion="calm", pronunciation="dict_1", sample_rate=8000)
    tts = make(model="sonic-3", voice="another-voice", language="de", options=options)
    chunks = await heard(tts.stream(pieces("Guten Tag. ", "Wie geht's?")))
    assert {chunk.frame.sample_rate for chunk in chunks} == {8000} == {tts.capabilities.sample_rate}
    assert len(twin.received) == 3
    for message in twin.received:
        assert {**message, "transcript": "", "context_id": "", "continue": True} == {
            "model_id": "sonic-3",
            "transcript": "",
            "voice": {"mode": "id", "id": "another-voice"},
            "language": "de",
            "context_id": "",
            "continue": True,
            "output_format": {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 8000},
            "add_timestamps": True,
            "max_buffer_delay_ms": 0,
            "generation_config": {"speed": 1.2, "volume": 0.8, "emotion": "calm"},
            "pronunciation_dict_id": "dict_1",
        }
    assert twin.handshakes[0]["authorization"] == f"Bearer {twin.key}"
    assert twin.handshakes[0]["cartesia-version"] == "2026-08-14"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"language": "xx"}, "the languages of sonic-3.5 are en, fr, de.*got 'xx'"),
        ({"model": "sonic-2", "language": "he"}, "the languages of sonic-2 are en, fr, de.*got 'he'"),
        ({"model": "sonic-9", "language": "in English"}, "code such as 'en', got 'in English'"),
        ({"model": "sonic-2-2025-06-11", "options": cartesia.TTSOptions(speed=1.2)}, "speed need the model sonic-3"),
        ({"voice": ""}, "need voice as a name"),
        ({"model": None}, "need model as a str"),
        ({"base_url": "cartesia"}, "base_url must be a URL"),
        ({"base_url": "https://api.cartesia.ai"}, "set CARTESIA_API_KEY or give api_key"),
    ],
)
def test_a_wrong_argument_is_refused_at_once(arguments: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        cartesia.TTS(**{"base_url": "http://127.0.0.1:9", **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"speed": 0.5}, "speed >= 0.6"),
        ({"speed": 2.0}, "speed <= 1.5, got 2.0"),
        ({"volume": 3}, "volume <= 2, got 3"),
        ({"emotion": "hapy"}, "one of neutral, happy.*got 'hapy'"),
        ({"sample_rate": 12_000}, "one of .*16000.* Hz, got 12000"),
        ({"pronunciation": ""}, "the id of a dictionary"),
    ],
)
def test_a_wrong_option_is_refused(arguments: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        cartesia.TTSOptions(**arguments)  # type: ignore[arg-type]


async def test_the_key_of_the_environment_goes_to_the_vendor_only(
    twin: CartesiaTwin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARTESIA_API_KEY", CartesiaTwin.key)
    for url in (cartesia.client.DEFAULT_BASE_URL, "https://eu.cartesia.ai"):
        async with cartesia.TTS(base_url=url) as of_the_vendor:
            assert CartesiaTwin.key not in repr(of_the_vendor)
    async with cartesia.TTS(base_url=twin.url) as elsewhere:
        assert (await error_of(elsewhere.synthesize("Hello."))).provider == "cartesia"
    assert "authorization" not in twin.handshakes[0]


# --- one connection


async def test_the_first_speech_needs_no_handshake_on_a_warm_voice(twin: CartesiaTwin, make: Make) -> None:
    tts = make()
    tts.warm()
    tts.warm()
    await twin.until(lambda: twin.connections)
    await heard(tts.synthesize("One."))
    await heard(tts.stream(pieces("Two.")))
    assert len(twin.handshakes) == 1
    assert len(twin.contexts) == 2


async def test_speeches_at_once_share_a_connection_and_do_not_mix(twin: CartesiaTwin, make: Make) -> None:
    tts, spoken = make(), list[list[AudioChunk]]()

    async def speak(text: str) -> None:
        spoken.append(await heard(tts.stream(pieces(text))))

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(speak, f"Number {number}. " + LONG)
    assert len(twin.connections) == 1
    assert [len(levels(chunks)) for chunks in spoken] == [1] * 8
    assert len({tuple(levels(chunks)) for chunks in spoken}) == 8


async def test_a_cut_cancels_at_the_vendor_keeps_the_connection_and_leaves_nothing_in_the_next_speech(
    twin: CartesiaTwin, make: Make
) -> None:
    twin.pace = TwinPace(first_byte=0.0, interval=0.001)
    tts = make()
    async with aclosing(tts.stream(pieces(LONG + " And more. ", LONG))) as chunks:
        async for chunk in chunks:
            if chunk.frame.data:
                break
    after = await heard(tts.stream(pieces("After the cut. ", LONG)))
    cut, next_one = twin.contexts
    assert {"context_id": cut.id, "cancel": True} in twin.received
    assert cut.is_cancelled
    assert levels(after) == {next_one.level}
    assert [word for word, _, _ in words(after)] == f"After the cut. {LONG}".split()
    await twin.until(lambda: not twin.live)
    assert len(cut.spoken) > 1, "its late audio came, and was dropped"
    assert "And" not in cut.spoken
    assert len(twin.connections) == 1


async def test_a_cut_while_the_text_still_comes_leaves_the_text_to_its_owner(twin: CartesiaTwin, make: Make) -> None:
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


async def test_a_connection_that_the_server_closed_meanwhile_is_replaced(twin: CartesiaTwin, make: Make) -> None:
    tts = make()
    await heard(tts.synthesize("One."))
    await twin.connections[0].close(1000, "connection idle timeout")
    await twin.until(lambda: twin.connections[0].is_over)
    assert levels(await heard(tts.synthesize("Two."))) == {twin.contexts[1].level}
    assert len(twin.connections) == 2


def test_an_idle_connection_is_closed_before_the_server_does_it() -> None:
    async def main() -> None:
        async with CartesiaTwin() as twin, cartesia.TTS(base_url=twin.url, api_key=twin.key) as tts:
            await heard(tts.synthesize("One."))
            await anyio.sleep(200)
            await heard(tts.synthesize("Two."))
            assert len(twin.connections) == 1
            await anyio.sleep(239)
            assert not twin.connections[0].is_over
            await anyio.sleep(2)
            assert twin.connections[0].is_over

    run_virtual(main())


async def test_a_closed_voice_ends_its_speech_and_refuses_more(twin: CartesiaTwin, make: Make) -> None:
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


async def test_a_voice_that_does_not_exist_is_named_with_what_there_is(twin: CartesiaTwin, make: Make) -> None:
    error = await error_of(make(voice="nobody").synthesize("Hello there."))
    assert isinstance(error, ProviderStatusError)
    assert (error.status, error.retryable) == (404, False)
    for told in (
        "Voice not found",
        "the voice 'nobody'",
        "https://play.cartesia.ai/voices",
        "languages of sonic-3.5: en",
    ):
        assert told in str(error)
    assert "Hello" not in str(error)


async def test_a_model_that_does_not_exist_is_named_with_what_there_is(make: Make) -> None:
    error = await error_of(make(model="sonic-99").stream(pieces("Hello there.")))
    for told in ("status 400, model_not_found", "Invalid model", "the model 'sonic-99'", "models: sonic-3.5, "):
        assert told in str(error)
    assert not error.retryable


async def test_a_text_that_the_vendor_refuses_is_not_quoted(twin: CartesiaTwin, make: Make) -> None:
    quoted = Refusal(422, "Invalid transcript", f"cannot speak {LONG!r} with {twin.key}")
    twin.faults.append(TwinFault(kind="error", error=quoted))
    error = await error_of(make().synthesize(LONG))
    assert "status 422" in str(error)
    assert "withheld, since it quotes the conversation" in str(error)
    assert "word3" not in str(error)
    assert not error.retryable


async def test_a_key_of_another_product_is_told(make: Make) -> None:
    key = "gsk_of_another_vendor"
    error = await error_of(make(api_key=key).synthesize("Hello."))
    assert isinstance(error, ProviderStatusError)
    assert (error.status, error.retryable) == (401, False)
    assert "must be one of Cartesia (CARTESIA_API_KEY" in str(error)
    assert key not in str(error)


async def test_too_many_contexts_may_be_tried_again(twin: CartesiaTwin, make: Make) -> None:
    twin.max_contexts = 1
    twin.faults.append(TwinFault(kind="stall", after=1))
    tts = make()
    async with aclosing(tts.synthesize(LONG)) as chunks:
        while not (await anext(chunks)).frame.data:
            pass
        error = await error_of(tts.synthesize("Hello."))
    assert error.retryable
    assert "concurrency_limited" in str(error)


async def test_an_error_of_one_context_leaves_the_others_alone(twin: CartesiaTwin, make: Make) -> None:
    twin.faults += [None, TwinFault(kind="error", after=2)]
    tts = make()
    async with aclosing(tts.synthesize(LONG)) as chunks:
        first = [await anext(chunks)]
        error = await error_of(tts.synthesize(LONG))
        first += await heard(chunks)
    assert error.retryable
    assert [word for word, _, _ in words(first)] == LONG.split()
    assert len(twin.connections) == 1


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (TwinFault(kind="cut", after=2), ProviderConnectionError),
        (TwinFault(kind="close", after=2), ProviderConnectionError),
        (TwinFault(kind="close", after=2, code=1008, reason="policy"), ProviderStatusError),
        (TwinFault(kind="garbage", after=2), ProviderProtocolError),
    ],
    ids=lambda value: value.kind if isinstance(value, TwinFault) else "",
)
async def test_a_broken_connection_fails_its_speech_and_not_the_next_one(
    twin: CartesiaTwin, make: Make, fault: TwinFault, kind: type[ProviderError]
) -> None:
    twin.faults.append(fault)
    tts, spoken = make(), list[AudioChunk]()
    with pytest.raises(kind) as caught:
        await hear(tts.synthesize(LONG), spoken)
    assert [word for word, _, _ in words(spoken)] == ["word0", "word1"]
    assert "word3" not in str(caught.value)
    assert words(await heard(tts.synthesize("Again."))) == [("Again.", 0.0, 0.25)]
    assert len(twin.connections) == 2


async def test_a_message_of_an_unknown_kind_is_passed_over(twin: CartesiaTwin, make: Make) -> None:
    twin.faults.append(TwinFault(kind="unknown", after=1))
    assert len(words(await heard(make().synthesize("One two three.")))) == 3


def test_a_server_that_falls_silent_is_given_up_and_a_text_that_pauses_is_not() -> None:
    async def main() -> None:
        async def text() -> AsyncGenerator[str, None]:
            yield "Hello there. "
            await anyio.sleep(300)
            yield "And on."

        async with CartesiaTwin() as twin, cartesia.TTS(base_url=twin.url, api_key=twin.key) as tts:
            assert len(words(await heard(tts.stream(text()), limit=400))) == 4
            twin.faults.append(TwinFault(kind="stall", after=1))
            before = anyio.current_time()
            with pytest.raises(ProviderTimeoutError, match="nothing for 60.0 s"):
                await heard(tts.synthesize("One two three."), limit=400)
            assert anyio.current_time() - before < 61
            await twin.until(lambda: {"context_id": twin.contexts[-1].id, "cancel": True} in twin.received)

    run_virtual(main())
