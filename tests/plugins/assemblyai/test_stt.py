"""assemblyai.STT against the twin: the port's promises, turns, forced ends, words with times, settings, errors."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kit.limits import LIMIT
from kit.listening_streams import finals, push, until
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderConnectionError, ProviderStatusError
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
from vivavoce.plugins import assemblyai
from vivavoce.plugins.assemblyai.twin import AssemblyAITwin, Said

RATE = 16_000
AT_ONCE = ReopeningOptions(waits=(0.0, 0.0, 0.0))
PRO, ENGLISH, MULTI = "universal-3-6-pro", "universal-streaming-english", "universal-streaming-multilingual"
PLAIN = assemblyai.STTOptions(reopening=AT_ONCE)
EAGER = assemblyai.STTOptions(eager_threshold=0.4, reopening=AT_ONCE)
SETTLES = assemblyai.STTOptions(decides_turns=False, reopening=AT_ONCE)


def stt_on(
    twin: AssemblyAITwin,
    model: str = PRO,
    options: assemblyai.STTOptions = PLAIN,
    languages: tuple[str, ...] = (),
) -> assemblyai.STT:
    return assemblyai.STT(model, base_url=twin.url, api_key=twin.key, options=options, languages=languages)


@asynccontextmanager
async def listening(
    twin: AssemblyAITwin,
    model: str = PRO,
    options: assemblyai.STTOptions = PLAIN,
    languages: tuple[str, ...] = (),
) -> AsyncIterator[STTStream]:
    async with stt_on(twin, model, options, languages) as stt:
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


@pytest.mark.parametrize("options", [PLAIN, EAGER, SETTLES], ids=["decides", "eager", "settles"])
@pytest.mark.parametrize("model", [PRO, ENGLISH])
async def test_it_keeps_the_promises_of_an_stt(
    twin: AssemblyAITwin, model: str, options: assemblyai.STTOptions
) -> None:
    speech = twin.speech("Hello there.")
    await check_stt(lambda: stt_on(twin, model, options), speech, expected="hello there", limit=LIMIT)


async def test_it_keeps_them_where_it_tells_speakers_apart(twin: AssemblyAITwin) -> None:
    speech = twin.speech(Said("Hello there.", speaker=2))
    options = assemblyai.STTOptions(diarize=True)
    await check_stt(lambda: stt_on(twin, options=options), speech, expected="hello there", limit=LIMIT)


# --- turns


async def test_a_universal_3_model_holds_a_turn_open_and_an_answer_may_begin(twin: AssemblyAITwin) -> None:
    async with listening(twin, options=EAGER) as stream:
        push(stream, twin.speech("A table"), silence(0.7), twin.speech("for two."), silence(1.0))
        events = plain(await until(stream, STTEndOfTurn))
    assert events == ["…A table", "eager A table", "A table for two.", "end"]


async def test_a_universal_streaming_model_shows_each_word_and_its_end_is_eager_until_it_is_formatted(
    twin: AssemblyAITwin,
) -> None:
    async with listening(twin, ENGLISH) as stream:
        push(stream, twin.speech("A table, please."), silence(1.0))
        events = plain(await until(stream, STTEndOfTurn))
    assert events == ["…a", "…a table", "…a table please", "eager a table please", "A table, please.", "end"]


async def test_without_format_the_end_of_a_turn_is_the_first_one(twin: AssemblyAITwin) -> None:
    options = assemblyai.STTOptions(format=False)
    async with listening(twin, ENGLISH, options) as stream:
        push(stream, twin.speech("A table, please."), silence(1.0))
        assert plain(await until(stream, STTEndOfTurn))[-2:] == ["a table please", "end"]


async def test_a_pause_in_a_turn_does_not_end_it_and_a_long_one_does(twin: AssemblyAITwin) -> None:
    options = assemblyai.STTOptions(min_silence=0.2, max_silence=1.5)
    async with listening(twin, options=options) as stream:
        push(stream, twin.speech("Well"), silence(1.4), twin.speech("then"), silence(1.7))
        assert plain(await until(stream, STTEndOfTurn))[-2:] == ["Well then", "end"]
    assert twin.connection.query["min_turn_silence"] == ["200"]
    assert twin.connection.query["max_turn_silence"] == ["1500"]


@pytest.mark.parametrize("model", [PRO, ENGLISH])
async def test_a_turn_that_something_else_ends_is_a_final_without_an_end(twin: AssemblyAITwin, model: str) -> None:
    async with listening(twin, model) as stream:
        push(stream, twin.speech("Hello there."))
        stream.flush()
        push(stream, twin.speech("And more."), silence(1.5))
        events = [text for text in plain(await until(stream, STTEndOfTurn)) if not text.startswith("…")]
    assert events[:2] == ["Hello there.", "And more." if model == PRO else "eager and more"]
    assert events[-2:] == ["And more.", "end"]
    assert len(twin.messages("ForceEndpoint")) == 1


async def test_a_flush_of_silence_does_not_take_the_end_of_the_next_turn(twin: AssemblyAITwin) -> None:
    async with listening(twin) as stream:
        push(stream, silence(0.5))
        stream.flush()
        push(stream, silence(0.5), twin.speech("Hello there."), silence(1.0))
        assert plain(await until(stream, STTEndOfTurn))[-2:] == ["Hello there.", "end"]


async def test_the_end_of_speech_by_the_vad_ends_no_turn(twin: AssemblyAITwin) -> None:
    async with listening(twin) as stream:
        push(stream, twin.speech("A table"))
        stream.speech_ended()
        push(stream, silence(0.2), twin.speech("for two."), silence(1.0))
        [final] = await finals(stream, 1)
    assert final.text == "A table for two."
    assert not twin.messages("ForceEndpoint")


@pytest.mark.parametrize("model", [PRO, ENGLISH])
async def test_where_it_does_not_decide_turns_words_are_settled_at_each_pause_and_each_flush(
    twin: AssemblyAITwin, model: str
) -> None:
    async with listening(twin, model, SETTLES) as stream:
        push(stream, twin.speech("A table"), silence(0.3), twin.speech("for two."))
        stream.flush()
        events = await until(stream, STTFinal)
        events += await until(stream, STTFinal)
    assert [event.text.casefold() for event in events if isinstance(event, STTFinal)] == ["a table", "for two."]
    assert not any(isinstance(event, STTEndOfTurn | STTEagerEndOfTurn) for event in events)
    assert twin.connection.query["max_turn_silence"] == ["100"]


@pytest.mark.parametrize("model", [PRO, ENGLISH])
async def test_discarded_words_are_not_reported_and_later_ones_are(twin: AssemblyAITwin, model: str) -> None:
    async with listening(twin, model) as stream:
        push(stream, twin.speech("please do forget this"), silence(0.1))
        await twin.until(lambda: "this" in str(twin.connection.sent[-1:]))
        assert isinstance(await anext(stream.events()), STTInterim)
        stream.discard()
        push(stream, twin.speech("Keep this."), silence(1.5))
        [final] = await finals(stream, 1)
    assert final.text == "Keep this."


# --- words, speakers, languages


async def test_a_final_has_words_with_the_streams_times_confidence_and_languages(twin: AssemblyAITwin) -> None:
    async with listening(twin, MULTI) as stream:
        push(stream, silence(1.0), twin.speech(Said("Hola amigo.", language="es", confidence=0.8)), silence(1.0))
        push(stream, twin.speech("Hello."), silence(1.0))
        first, second = await finals(stream, 2)
    assert [(word.text, word.start, word.end) for word in first.words] == [("Hola", 1.0, 1.24), ("amigo.", 1.26, 1.5)]
    assert (first.languages, first.confidence, second.languages) == (("es",), 0.8, ("en",))
    assert second.words[0].start == pytest.approx(2.52, abs=0.02)
    assert first.audio_seconds == pytest.approx(1.5, abs=0.02)


async def test_speakers_are_those_of_the_words(twin: AssemblyAITwin) -> None:
    options = assemblyai.STTOptions(diarize=True, max_speakers=2)
    async with listening(twin, options=options) as stream:
        push(stream, twin.speech(Said("A table", speaker=1)), twin.speech(Said("for two.")), silence(1.0))
        [final] = await finals(stream, 1)
    assert [(word.text, word.speaker) for word in final.words] == [
        ("A", "B"),
        ("table", "B"),
        ("for", "A"),
        ("two.", "A"),
    ]
    assert final.speakers == ("B", "A")
    assert twin.connection.query["max_speakers"] == ["2"]


async def test_the_language_that_was_asked_for_is_that_of_the_words(twin: AssemblyAITwin) -> None:
    options = assemblyai.STTOptions(extra_query={"language_detection": "false"})
    async with listening(twin, options=options, languages=("de-AT",)) as stream:
        push(stream, twin.speech("Ein Tisch."), silence(1.0))
        [final] = await finals(stream, 1)
    assert final.language == "de"
    assert twin.connection.query["language_codes"] == ['["de"]']


# --- the request


async def test_key_terms_and_settings_are_in_the_request(twin: AssemblyAITwin) -> None:
    options = assemblyai.STTOptions(
        mode="min_latency", key_terms=("Ada",), extra_query={"prompt": "A restaurant.", "encoding": "pcm_s16le"}
    )
    async with stt_on(twin, options=options, languages=("en", "es")) as stt:
        stream = await stt.open_with_key_terms(["Grace", "Ada"])
        await stream.aclose()
    path, query, authorization = twin.handshakes[0]
    assert (path, authorization) == ("/v3/ws", twin.key)
    assert query == {
        "speech_model": ["universal-3-6-pro"],
        "sample_rate": ["16000"],
        "language_detection": ["true"],
        "mode": ["min_latency"],
        "language_codes": [json.dumps(["en", "es"])],
        "keyterms_prompt": [json.dumps(["Ada", "Grace"])],
        "prompt": ["A restaurant."],
        "encoding": ["pcm_s16le"],
    }
    assert twin.connection.session.key_terms == ["Ada", "Grace"]


@pytest.mark.parametrize("seconds", [0.01, 0.02, 0.03, 0.07, 2.5])
async def test_audio_of_any_length_travels_in_messages_that_the_service_takes(
    twin: AssemblyAITwin, seconds: float
) -> None:
    async with listening(twin) as stream:
        whole = silence(1.0).data + twin.speech("Hello there.").data + silence(2.0).data
        size = round(seconds * RATE) * 2
        for at in range(0, len(whole), size):
            stream.push(AudioFrame(whole[at : at + size], RATE))
        [final] = await finals(stream, 1)
    assert final.text == "Hello there."
    assert final.words[0].start == 1.0


async def test_the_close_says_terminate_so_that_no_session_is_billed_on(twin: AssemblyAITwin) -> None:
    async with listening(twin):
        pass
    await twin.received("Terminate")
    assert twin.connection.received == [{"type": "Terminate"}]


# --- refusals


@pytest.mark.parametrize(
    ("model", "languages", "texts"),
    [
        ("universal-9", (), ("'universal-9'", "universal-3-6-pro", "check model")),
        ("u3-rt-pro", ("ja",), ("'u3-rt-pro' with languages ja", "u3-rt-pro has en, es", "check languages")),
    ],
)
async def test_a_model_or_language_that_does_not_exist_is_named_with_those_that_do(
    twin: AssemblyAITwin, model: str, languages: tuple[str, ...], texts: tuple[str, ...]
) -> None:
    async with stt_on(twin, model, languages=languages) as stt:
        with pytest.raises(ProviderStatusError) as caught:
            await stt.open()
    assert (caught.value.status, caught.value.retryable) == (400, False)
    for text in texts:
        assert text in str(caught.value)


async def test_a_wrong_key_is_refused_behind_the_handshake_and_is_not_in_the_error(twin: AssemblyAITwin) -> None:
    async with assemblyai.STT(base_url=twin.url, api_key="key-of-another-product") as stt:
        with pytest.raises(ProviderStatusError) as caught:
            await stt.open()
    assert (caught.value.status, caught.value.retryable) == (401, False)
    assert "Invalid API key" in str(caught.value)
    assert "www.assemblyai.com" in str(caught.value)
    assert "another-product" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "text", "status", "retryable"),
    [
        (3005, "Session Cancelled: An error occurred", 500, True),
        (3006, "Invalid Message Type: Hello", 400, False),
        (3007, "Input Duration Violation: 25.0 ms. Expected between 50 and 1000 ms", 400, False),
        (3007, "Audio Transmission Rate Exceeded: Received 9 sec. audio in 1 sec", 429, True),
        (3008, "Session Expired: Maximum session duration exceeded", 408, True),
        (3009, "Unauthorized Connection: Too many concurrent sessions", 429, True),
        (1008, "Unauthorized Connection: Too many concurrent sessions", 429, True),
        (1008, "Unauthorized Connection: Missing Authorization header", 401, False),
        (1008, "Unauthorized Connection: insufficient account balance", 402, False),
        (4002, "Insufficient Funds", 402, False),
    ],
)
async def test_an_error_that_ends_the_session_says_why_and_whether_to_try_again(
    twin: AssemblyAITwin, code: int, text: str, status: int, retryable: bool
) -> None:
    twin.refuse((code, text))
    async with stt_on(twin) as stt:
        with pytest.raises(ProviderStatusError) as caught:
            await stt.open()
    assert (caught.value.status, caught.value.retryable) == (status, retryable)
    assert text in str(caught.value)
    options = assemblyai.STTOptions(reopening=ReopeningOptions(waits=()))
    async with listening(twin, options=options) as stream:
        await twin.fail(code, text)
        with pytest.raises(ProviderStatusError, match=text[:20]):
            await anext(stream.events())


async def test_a_server_that_must_not_be_asked_now_may_be_asked_again(twin: AssemblyAITwin) -> None:
    options = assemblyai.STTOptions(reopening=ReopeningOptions(waits=()))
    async with listening(twin, options=options) as stream:
        await twin.connection.close(1013, "Temporary server condition forced blocking client's request")
        with pytest.raises(ProviderConnectionError) as caught:
            await anext(stream.events())
    assert caught.value.retryable


async def test_an_expired_session_is_opened_again(twin: AssemblyAITwin) -> None:
    async with listening(twin) as stream:
        push(stream, twin.speech("one two three"), silence(0.3))
        await twin.until(lambda: "three" in str(twin.connection.sent[-1:]))
        await twin.fail(3008, "Session Expired: Maximum session duration exceeded")
        await twin.connected(2)
        push(stream, twin.speech("four."), silence(1.0))
        [final] = await finals(stream, 1)
    assert final.text == "one two three four."


# --- wrong arguments


@pytest.mark.parametrize(
    "options",
    [
        {"min_silence": -1},
        {"min_silence": 2.0, "max_silence": 1.0},
        {"end_threshold": 1.1},
        {"eager_threshold": -0.1},
        {"eager_threshold": 0.5, "decides_turns": False},
        {"mode": "fast"},
        {"max_speakers": 2},
        {"diarize": True, "max_speakers": 0},
        {"key_terms": ("",)},
        {"key_terms": ("x" * 51,)},
        {"key_terms": ("x",) * 101},
    ],
)
def test_wrong_options_are_an_error_at_once(options: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        assemblyai.STTOptions(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"languages": "en"}, "as a tuple"),
        ({"languages": ("",)}, "as a tuple"),
        ({"languages": tuple(f"x{number}" for number in range(11))}, "at most 10"),
        ({"model": ENGLISH, "languages": ("de",)}, "Universal-3 model"),
        ({"model": ENGLISH, "options": assemblyai.STTOptions(mode="balanced")}, "Universal-3 model"),
        ({"options": assemblyai.STTOptions(end_threshold=0.5)}, "use min_silence"),
        ({"region": "us-west"}, "region"),
        ({"region": "eu", "base_url": "https://x.example"}, "region or base_url"),
    ],
)
def test_arguments_that_do_not_go_together_are_an_error_at_once(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        assemblyai.STT(api_key="k", **arguments)  # type: ignore[arg-type]


def test_the_key_comes_from_the_environment_for_the_vendors_hosts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="ASSEMBLYAI_API_KEY"):
        assemblyai.STT()
    monkeypatch.setenv("ASSEMBLYAI_API_KEY", "k")
    assert "streaming.eu.assemblyai.com" in repr(assemblyai.STT(region="eu"))
    assemblyai.STT(base_url="http://127.0.0.1:9")
