"""cartesia.STT against the twin: the port's promises, turns, words with times, flushes, lost connections, bad input."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import SocketStream

from kit.limits import LIMIT
from kit.listening_streams import finals, push, until
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError, ProviderStatusError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions
from vivavoce.pipelines.stt.base import (
    STTEagerEndOfTurn,
    STTEndOfTurn,
    STTEvent,
    STTFinal,
    STTInterim,
    STTStream,
    STTTurnResumed,
)
from vivavoce.pipelines.testing import check_stt
from vivavoce.plugins import cartesia
from vivavoce.plugins.cartesia.twin import CartesiaTwin, Said

RATE = 16_000
AT_ONCE = ReopeningOptions(waits=(0.0, 0.0, 0.0))
TURNS = cartesia.STTOptions(reopening=AT_ONCE)
MANUAL = cartesia.STTOptions(decides_turns=False, reopening=AT_ONCE)

KINDS = {"turns": ("ink-2", TURNS), "ink-2": ("ink-2", MANUAL), "ink-whisper": ("ink-whisper", TURNS)}

on_all = pytest.mark.parametrize("kind", KINDS)
on_flushed = pytest.mark.parametrize("kind", ["ink-2", "ink-whisper"])


def stt_on(
    twin: CartesiaTwin, kind: str = "turns", options: cartesia.STTOptions | None = None, language: str = "en"
) -> cartesia.STT:
    model, usual = KINDS[kind]
    return cartesia.STT(model, language=language, base_url=twin.url, api_key=twin.key, options=options or usual)


@asynccontextmanager
async def listening(
    twin: CartesiaTwin, kind: str = "turns", options: cartesia.STTOptions | None = None, language: str = "en"
) -> AsyncIterator[STTStream]:
    async with stt_on(twin, kind, options, language) as stt:
        stream = await stt.open()
        try:
            yield stream
        finally:
            await stream.aclose()


@asynccontextmanager
async def slow_handshakes(url: str) -> AsyncIterator[tuple[str, list[anyio.Event]]]:
    """Serve the address of a server whose connections go on with an event each; the first one goes on at once."""
    port = int(url.rpartition(":")[2])
    gates: list[anyio.Event] = []

    async def copy(source: SocketStream, target: SocketStream, both: anyio.CancelScope) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for data in source:
                await target.send(data)
        both.cancel()

    async def serve(client: SocketStream) -> None:
        gates.append(anyio.Event())
        if len(gates) > 1:
            await gates[-1].wait()
        async with client, await anyio.connect_tcp("127.0.0.1", port) as server, anyio.create_task_group() as both:
            both.start_soon(copy, client, server, both.cancel_scope)
            both.start_soon(copy, server, client, both.cancel_scope)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}", gates
        tasks.cancel_scope.cancel()


def silence(seconds: float) -> AudioFrame:
    return AudioFrame.silence(seconds, RATE)


def plain(events: list[STTEvent]) -> list[str]:
    """Return the events in short."""
    short = {STTInterim: "…{}", STTFinal: "{}", STTEagerEndOfTurn: "eager {}"}
    return [
        short[type(event)].format(event.text)
        if isinstance(event, STTInterim | STTFinal | STTEagerEndOfTurn)
        else {STTTurnResumed: "resumed", STTEndOfTurn: "end"}[type(event)]
        for event in events
    ]


@on_all
async def test_it_keeps_the_promises_of_an_stt(twin: CartesiaTwin, kind: str) -> None:
    await check_stt(lambda: stt_on(twin, kind), twin.speech("Hello there."), expected="hello there", limit=LIMIT)


# --- a model that decides turns


async def test_a_pause_is_an_eager_end_which_more_words_take_back(twin: CartesiaTwin) -> None:
    async with listening(twin) as stream:
        push(stream, twin.speech("A table"), silence(0.7), twin.speech("for two."), silence(1.0))
        events = await until(stream, STTEndOfTurn)
    assert plain(events) == [
        "…A",
        "…A table",
        "eager A table",
        "resumed",
        "…A table for",
        "…A table for two.",
        "eager A table for two.",
        "A table for two.",
        "end",
    ]
    assert isinstance(events[-2], STTFinal)
    assert (events[-2].language, events[-2].words) == ("en", ())
    assert events[-2].audio_seconds == pytest.approx(2.72, abs=0.1)


async def test_a_turn_that_something_else_ends_is_a_final_and_its_later_words_are_the_next_utterance(
    twin: CartesiaTwin,
) -> None:
    async with listening(twin) as stream:
        push(stream, twin.speech("Hello there."), silence(0.02))
        await twin.until(lambda: "there" in str(twin.ear.sent[-1:]))
        events = [await anext(stream.events()) for _ in range(2)]
        stream.flush()
        push(stream, twin.speech("And more."), silence(1.0))
        events += await until(stream, STTEndOfTurn)
    assert [text for text in plain(events) if not text.startswith(("…", "eager"))] == [
        "Hello there.",
        "And more.",
        "end",
    ]
    assert twin.ear.texts == [], "the service has no message that ends a turn"


async def test_a_turn_whose_words_were_all_taken_ends_without_another_final(twin: CartesiaTwin) -> None:
    async with listening(twin) as stream:
        push(stream, twin.speech("Hello there."), silence(0.02))
        await twin.until(lambda: "there" in str(twin.ear.sent[-1:]))
        events = [await anext(stream.events()) for _ in range(2)]
        stream.flush()
        push(stream, silence(1.0), twin.speech("Next."), silence(1.0))
        events += await until(stream, STTEndOfTurn)
    assert [text for text in plain(events) if not text.startswith(("…", "eager"))] == ["Hello there.", "Next.", "end"]


async def test_the_end_of_speech_by_the_vad_ends_no_turn(twin: CartesiaTwin) -> None:
    async with listening(twin) as stream:
        push(stream, twin.speech("A table"))
        stream.speech_ended()
        push(stream, silence(0.2), twin.speech("for two."), silence(1.0))
        [final] = await finals(stream, 1)
    assert final.text == "A table for two."


async def test_a_connection_lost_in_mid_turn_hears_the_turn_again_and_takes_an_eager_end_back(
    twin: CartesiaTwin,
) -> None:
    async with listening(twin) as stream:
        push(stream, twin.speech("Hello."), silence(1.0))
        assert (await finals(stream, 1))[0].text == "Hello."
        push(stream, twin.speech("one two three"), silence(0.7))
        await twin.until(lambda: "eager_end" in str(twin.ear.sent[-1:]))
        twin.ear.abort()
        await twin.until(lambda: len(twin.ears) == 2)
        push(stream, twin.speech("four"), silence(1.0))
        told = plain(await until(stream, STTFinal))
    assert told[-1] == "one two three four"
    assert told.index("eager one two three") < told.index("resumed") < told.index("…one two three four")


async def test_silence_between_turns_is_not_kept_for_the_next_connection(twin: CartesiaTwin) -> None:
    async with listening(twin) as stream:
        push(stream, twin.speech("Hi."), silence(1.0))
        await finals(stream, 1)
        push(stream, silence(8.0))
        twin.ear.abort()
        await twin.until(lambda: len(twin.ears) == 2)
        push(stream, twin.speech("Hello."), silence(1.0))
        [final] = await finals(stream, 1)
        assert twin.ear.audio_bytes < RATE * 4 * 2
    assert final.text == "Hello."


async def test_the_twin_hears_its_script_in_any_sound(twin: CartesiaTwin) -> None:
    twin.hears("A table for two.", Said("And a chair."))
    sound = AudioFrame(b"\x00\x10" * RATE, RATE)
    async with listening(twin) as stream:
        push(stream, sound, silence(1.0), sound, silence(1.0))
        assert [final.text for final in await finals(stream, 2)] == ["A table for two.", "And a chair."]


# --- a model that is told


@on_flushed
async def test_each_flush_has_a_final_with_the_words_up_to_it(twin: CartesiaTwin, kind: str) -> None:
    async with listening(twin, kind) as stream:
        push(stream, silence(1.0), twin.speech("Hello there."))
        stream.flush()
        push(stream, silence(0.5))
        stream.flush()
        push(stream, twin.speech("And more."))
        stream.flush()
        events = await until(stream, STTFinal)
        second, third = await finals(stream, 2)
    first = events[-1]
    assert isinstance(first, STTFinal)
    assert [first.text, second.text, third.text] == ["Hello there.", "", "And more."]
    assert plain(events)[-3:-1] == ["…Hello", "…Hello there."]
    times = [(word.text, word.start, word.end) for word in (*first.words, *third.words)]
    if kind == "ink-whisper":
        assert times == [("Hello", 1.0, 1.24), ("there.", 1.26, 1.5), ("And", 2.02, 2.26), ("more.", 2.28, 2.52)]
    else:
        assert times == []
    assert first.audio_seconds == pytest.approx(1.52)


async def test_texts_that_the_service_settles_by_itself_are_one_utterance(twin: CartesiaTwin) -> None:
    async with listening(twin, "ink-whisper") as stream:
        push(stream, twin.speech("A table"), silence(0.8), twin.speech("for two."))
        stream.flush()
        [final] = await finals(stream, 1)
    settled = [sent for sent in twin.ear.sent if sent.get("is_final")]
    assert [sent["text"] for sent in settled] == ["A table", " for two."]
    assert final.text == "A table for two."
    assert len(final.words) == 4


@on_flushed
async def test_discarded_words_are_not_reported_and_later_ones_are(twin: CartesiaTwin, kind: str) -> None:
    async with listening(twin, kind) as stream:
        push(stream, twin.speech("forget this"))
        stream.flush()
        stream.discard()
        push(stream, twin.speech("keep this"))
        stream.flush()
        [final] = await finals(stream, 1)
    assert final.text == "keep this"


@on_flushed
async def test_a_connection_lost_before_the_flush_is_answered_hears_the_utterance_again(
    twin: CartesiaTwin, kind: str
) -> None:
    async with listening(twin, kind) as stream:
        push(stream, twin.speech("Hello."))
        stream.flush()
        assert (await finals(stream, 1))[0].text == "Hello."
        push(stream, silence(1.0), twin.speech("one two three"))
        await twin.until(lambda: "three" in str(twin.ear.sent[-1:]))
        twin.ear.stall()
        stream.flush()
        await twin.until(lambda: len(twin.ear.texts) == 2)
        twin.ear.abort()
        await twin.until(lambda: len(twin.ears) == 2)
        push(stream, silence(0.2))
        events = await until(stream, STTFinal)
    final = events[-1]
    assert isinstance(final, STTFinal)
    assert final.text == "one two three"
    if kind == "ink-whisper":
        assert final.words[0].start == pytest.approx(1.26, abs=0.03)


async def test_words_that_a_second_connection_hears_again_are_dropped_by_their_times(twin: CartesiaTwin) -> None:
    async with listening(twin, "ink-whisper") as stream:
        push(stream, twin.speech("one two"), silence(0.6))
        await twin.until(lambda: twin.ear.sent and twin.ear.sent[-1].get("is_final"))
        await until_shown(stream, "one two")
        twin.ear.abort()
        await twin.until(lambda: len(twin.ears) == 2)
        push(stream, twin.speech("three"))
        stream.flush()
        [final] = await finals(stream, 1)
    assert final.text == "one two three"


async def until_shown(stream: STTStream, text: str) -> None:
    async for event in stream.events():
        if isinstance(event, STTInterim) and event.text == text:
            break


# --- settings, bad input


async def test_key_terms_and_settings_are_in_the_request(twin: CartesiaTwin) -> None:
    options = cartesia.STTOptions(
        start_threshold=0.7, eager_end_threshold=0.5, end_threshold=0.1, end_timeout=2, key_terms=("Ada",)
    )
    async with stt_on(twin, options=options) as stt:
        stream = await stt.open_with_key_terms(["Grace", "Ada"])
        await stream.aclose()
    assert twin.handshakes[0]["path"] == "/stt/turns/websocket"
    assert twin.handshakes[0]["authorization"] == f"Bearer {twin.key}"
    assert twin.ear.query == {
        "model": ["ink-2"],
        "encoding": ["pcm_s16le"],
        "sample_rate": ["16000"],
        "keyterm": ["Ada", "Grace"],
        "turn_start_threshold": ["0.7"],
        "turn_eager_end_threshold": ["0.5"],
        "turn_end_threshold": ["0.1"],
        "turn_end_timeout_ms": ["2000"],
    }


async def test_a_language_and_further_parameters_are_in_the_request(twin: CartesiaTwin) -> None:
    options = cartesia.STTOptions(extra_query={"min_volume": "0.1"})
    async with stt_on(twin, "ink-whisper", options, "de") as stt:
        await (await stt.open()).aclose()
        with pytest.raises(CapabilityError):
            await stt.open_with_key_terms(["Ada"])
    assert twin.ear.path == "/stt/websocket"
    assert (twin.ear.query["language"], twin.ear.query["min_volume"]) == (["de"], ["0.1"])


@pytest.mark.parametrize("decides", [True, False])
async def test_a_model_that_does_not_exist_is_named_with_those_that_do(twin: CartesiaTwin, decides: bool) -> None:
    options = cartesia.STTOptions(decides_turns=decides)
    async with cartesia.STT("ink-9", base_url=twin.url, api_key=twin.key, options=options) as stt:
        stream = await stt.open()
        with pytest.raises(ProviderStatusError) as caught:
            async for _ in stream.events():
                pass
        await stream.aclose()
    assert (caught.value.status, caught.value.retryable) == (400, False)
    for text in ("'ink-9'", "'en'", "ink-whisper", "model_not_found"):
        assert text in str(caught.value)


async def test_a_wrong_key_is_named(twin: CartesiaTwin) -> None:
    async with cartesia.STT(base_url=twin.url, api_key="of-deepgram") as stt:
        with pytest.raises(ProviderStatusError, match="one of Cartesia") as caught:
            await stt.open()
    assert caught.value.status == 401
    assert "of-deepgram" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"language": "de"}, "ink-whisper"),
        ({"model": "ink-whisper", "language": "xx"}, "languages of ink-whisper"),
        ({"model": ""}, "model"),
        ({"model": "sonic-3"}, r"cartesia\.TTS"),
        (
            {"model": "ink-whisper", "options": cartesia.STTOptions(key_terms=("Ada",))},
            "key_terms need the model ink-2",
        ),
        ({"model": "ink-whisper", "options": cartesia.STTOptions(end_timeout=2)}, "end_timeout need the model ink-2"),
        ({"model": "ink-whisper", "options": cartesia.STTOptions(decides_turns=True)}, "decides_turns need"),
        ({"options": cartesia.STTOptions(decides_turns=False, end_timeout=2)}, "need decides_turns"),
        ({"base_url": "https://api.cartesia.ai", "api_key": None}, "CARTESIA_API_KEY"),
    ],
)
def test_wrong_arguments_are_an_error_at_once(arguments: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        cartesia.STT(**{"api_key": "k", **arguments})  # type: ignore[arg-type]


def test_a_recognisers_model_is_no_voices_model() -> None:
    with pytest.raises(ConfigurationError, match=r"cartesia\.STT"):
        cartesia.TTS(model="ink-2", api_key="k")


@pytest.mark.parametrize(
    "options",
    [
        {"start_threshold": 0.4},
        {"eager_end_threshold": 0.7},
        {"end_threshold": 0.01},
        {"end_timeout": 12},
        {"end_threshold": 0.45},
        {"eager_end_threshold": 0.6, "start_threshold": 0.6},
        {"key_terms": ("",)},
        {"key_terms": tuple(map(str, range(101)))},
        {"key_terms": ("x" * 1201,)},
    ],
)
def test_wrong_options_are_an_error_at_once(options: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        cartesia.STTOptions(**options)  # type: ignore[arg-type]


@on_flushed
async def test_words_behind_a_discard_during_a_handshake_are_heard(twin: CartesiaTwin, kind: str) -> None:
    model, options = KINDS[kind]
    async with slow_handshakes(twin.url) as (url, gates):
        async with cartesia.STT(model, base_url=url, api_key=twin.key, options=options) as stt:
            stream = await stt.open()
            push(stream, twin.speech("never mind"))
            await twin.until(lambda: twin.ear.audio_bytes > 0)
            twin.ear.abort()
            with anyio.fail_after(LIMIT):
                while len(gates) < 2:
                    await anyio.lowlevel.checkpoint()
            stream.discard()
            gates[1].set()
            push(stream, twin.speech("one two."), silence(0.5))
            stream.flush()
            assert (await finals(stream, 1))[0].text == "one two."
            push(stream, twin.speech("three."), silence(0.5))
            stream.flush()
            assert (await finals(stream, 1))[0].text == "three."
            await stream.aclose()
