"""deepgram.FluxSTT against the twin: the events of turns, turns that something else ends, lost connections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kit.limits import LIMIT
from kit.listening_streams import finals, push, until, until_lost
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderStatusError
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
from vivavoce.plugins import deepgram
from vivavoce.plugins.deepgram.twin import DeepgramTwin, Said

RATE = 16_000
AT_ONCE = ReopeningOptions(waits=(0.0, 0.0, 0.0))
EAGER = deepgram.FluxOptions(eager_threshold=0.4, end_threshold=0.8, reopening=AT_ONCE)


def flux_on(
    twin: DeepgramTwin, *, model: str = "flux-general-en", options: deepgram.FluxOptions = EAGER
) -> deepgram.FluxSTT:
    return deepgram.FluxSTT(model, base_url=twin.url, api_key=twin.key, options=options)


@asynccontextmanager
async def listening(
    twin: DeepgramTwin, *, model: str = "flux-general-en", options: deepgram.FluxOptions = EAGER
) -> AsyncIterator[STTStream]:
    async with flux_on(twin, model=model, options=options) as stt:
        stream = await stt.open()
        try:
            yield stream
        finally:
            await stream.aclose()


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


@pytest.mark.parametrize("options", [deepgram.FluxOptions(), EAGER], ids=["plain", "eager"])
async def test_it_keeps_the_promises_of_an_stt(twin: DeepgramTwin, options: deepgram.FluxOptions) -> None:
    speech = twin.speech("Hello there.")
    await check_stt(lambda: flux_on(twin, options=options), speech, expected="hello there", limit=LIMIT)


async def test_a_pause_is_an_eager_end_which_more_words_take_back(twin: DeepgramTwin) -> None:
    async with listening(twin) as stream:
        push(stream, twin.speech("A table"), silence(0.5), twin.speech("for two."), silence(1.0))
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


async def test_a_turns_final_has_words_with_the_streams_times_and_languages(twin: DeepgramTwin) -> None:
    options = deepgram.FluxOptions(language_hints=("en", "es"))
    async with listening(twin, model="flux-general-multi", options=options) as stream:
        push(stream, silence(1.0), twin.speech(Said("Hola amigo", language="es", confidence=0.8)), silence(1.0))
        push(stream, twin.speech("Hello"), silence(1.0))
        first, second = await finals(stream, 2)
    assert [(word.text, word.start, word.end) for word in first.words] == [("Hola", 1.0, 1.24), ("amigo", 1.26, 1.5)]
    assert (first.languages, first.confidence, second.languages) == (("es",), 0.8, ("en",))
    assert second.words[0].start == pytest.approx(2.52, abs=0.02)
    assert twin.connection.query["language_hint"] == ["en", "es"]


async def test_silence_alone_ends_a_turn_by_its_limit(twin: DeepgramTwin) -> None:
    async with listening(twin, options=deepgram.FluxOptions(end_threshold=1, end_timeout=1.5)) as stream:
        push(stream, twin.speech("Well"), silence(1.4), twin.speech("then"), silence(1.6))
        assert plain(await until(stream, STTEndOfTurn))[-2:] == ["Well then", "end"]


async def test_a_turn_that_something_else_ends_is_a_final_without_an_end(twin: DeepgramTwin) -> None:
    async with listening(twin) as stream:
        push(stream, twin.speech("Hello there."))
        stream.flush()
        push(stream, twin.speech("And more."), silence(1.0))
        events = plain(await until(stream, STTEndOfTurn))
    assert [text for text in events if not text.startswith(("…", "eager"))] == ["Hello there.", "And more.", "end"]
    assert len(twin.messages("ForceEndTurn")) == 1


async def test_the_end_of_speech_by_the_vad_ends_no_turn(twin: DeepgramTwin) -> None:
    async with listening(twin) as stream:
        push(stream, twin.speech("A table"))
        stream.speech_ended()
        push(stream, silence(0.2), twin.speech("for two."), silence(1.0))
        [final] = await finals(stream, 1)
    assert final.text == "A table for two."
    assert not twin.messages("ForceEndTurn")


async def test_discarded_words_are_not_reported_and_later_ones_are(twin: DeepgramTwin) -> None:
    async with listening(twin) as stream:
        push(stream, twin.speech("forget this"), silence(0.06))
        await twin.until(lambda: "this" in str(twin.connection.sent[-1:]))
        assert plain([await anext(stream.events())]) == ["…forget"]
        stream.discard()
        push(stream, twin.speech("keep this"), silence(1.0))
        [final] = await finals(stream, 1)
    assert final.text == "keep this"


async def test_a_connection_lost_in_mid_turn_hears_the_turn_again_and_takes_an_eager_end_back(
    twin: DeepgramTwin,
) -> None:
    async with listening(twin) as stream:
        push(stream, twin.speech("Hello."), silence(1.0))
        assert (await finals(stream, 1))[0].text == "Hello."
        push(stream, twin.speech("one two three"), silence(0.5))
        await twin.until(lambda: "EagerEndOfTurn" in str(twin.connection.sent[-1:]))
        twin.connection.abort()
        await twin.connected(2)
        push(stream, twin.speech("four"), silence(1.0))
        events = await until(stream, STTFinal)
    told = plain(events)
    assert told[-1] == "one two three four"
    assert told.index("eager one two three") < told.index("resumed") < told.index("…one two three four")
    final = events[-1]
    assert isinstance(final, STTFinal)
    assert final.words[0].start == pytest.approx(1.26, abs=0.03)


async def test_silence_between_turns_is_not_kept_for_the_next_connection(twin: DeepgramTwin) -> None:
    async with listening(twin) as stream:
        push(stream, silence(8.0))
        await twin.until(lambda: twin.connection.audio_bytes == RATE * 8 * 2)
        await twin.until(lambda: twin.connection.sent[-1].get("audio_window_end", 0) > 7.7)
        push(stream, twin.speech("Hello."))
        await until_interim(stream)
        twin.connection.abort()
        await twin.connected(2)
        push(stream, silence(1.0))
        [final] = await finals(stream, 1)
        assert twin.connection.audio_bytes < RATE * 3 * 2
    assert final.words[0].start == pytest.approx(8.0, abs=0.03)


async def until_interim(stream: STTStream) -> None:
    async for event in stream.events():
        if isinstance(event, STTInterim):
            break


async def test_key_terms_and_settings_are_in_the_request(twin: DeepgramTwin) -> None:
    options = deepgram.FluxOptions(
        eager_threshold=0.5, end_timeout=3, key_terms=("Ada",), numerals=True, extra_query={"redact": "numbers"}
    )
    async with flux_on(twin, options=options) as stt:
        stream = await stt.open_with_key_terms(["Grace", "Ada"])
        await stream.aclose()
    path, query, _ = twin.handshakes[0]
    assert path == "/v2/listen"
    assert query == {
        "model": ["flux-general-en"],
        "encoding": ["linear16"],
        "sample_rate": ["16000"],
        "eot_threshold": ["0.7"],
        "eot_timeout_ms": ["3000"],
        "numerals": ["true"],
        "keyterm": ["Ada", "Grace"],
        "eager_eot_threshold": ["0.5"],
        "redact": ["numbers"],
    }


async def test_a_model_that_does_not_exist_is_named_with_those_that_do(twin: DeepgramTwin) -> None:
    async with flux_on(twin, model="flux-general-xx") as stt:
        with pytest.raises(ProviderStatusError) as caught:
            await stt.open()
    for text in ("'flux-general-xx'", "flux-general-multi", "check model"):
        assert text in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"end_threshold": 0.4},
        {"end_threshold": 1.1},
        {"eager_threshold": 0.2},
        {"eager_threshold": 0.8},
        {"end_timeout": 0.1},
        {"end_timeout": 61},
        {"key_terms": ("",)},
    ],
)
def test_wrong_options_are_an_error_at_once(options: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        deepgram.FluxOptions(**options)  # type: ignore[arg-type]


def test_a_wrong_model_or_hints_without_the_model_for_them_are_an_error_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"deepgram\.STT"):
        deepgram.FluxSTT("nova-3", api_key="k")
    with pytest.raises(ConfigurationError, match="flux-general-multi"):
        deepgram.FluxSTT(api_key="k", options=deepgram.FluxOptions(language_hints=("en",)))


async def test_a_stream_that_is_lost_for_good_gives_the_audio_of_an_unsent_message_to_the_next_one(
    twin: DeepgramTwin,
) -> None:
    async with flux_on(twin, options=deepgram.FluxOptions(reopening=ReopeningOptions(waits=()))) as stt:
        stream = await stt.open()
        push(stream, silence(0.06))  # less than a message
        twin.connection.abort()
        await until_lost(stream)
        kept: list[AudioFrame] = []
        stream.replay(kept.append, lambda ago: None, lambda: None)
        assert sum(frame.duration for frame in kept) == pytest.approx(0.06)
        await stream.aclose()
