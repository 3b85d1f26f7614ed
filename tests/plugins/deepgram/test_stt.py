"""deepgram.STT against the twin: the port's promises, words with times, pauses, flushes, lost connections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kit.limits import LIMIT
from kit.listening_streams import finals, push, until, until_lost
from vivavoce.pipelines.core.errors import (
    CapabilityError,
    ConfigurationError,
    ProviderError,
    ProviderStatusError,
)
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions
from vivavoce.pipelines.stt.base import STTFinal, STTInterim, STTStream
from vivavoce.pipelines.testing import check_stt
from vivavoce.plugins import deepgram
from vivavoce.plugins.deepgram.twin import DeepgramTwin, Said

RATE = 16_000
FRAME = 640
AT_ONCE = ReopeningOptions(waits=(0.0, 0.0, 0.0))


def stt_on(twin: DeepgramTwin, *, language: str = "en", options: deepgram.STTOptions | None = None) -> deepgram.STT:
    chosen = options or deepgram.STTOptions(reopening=AT_ONCE)
    return deepgram.STT(base_url=twin.url, api_key=twin.key, language=language, options=chosen)


@asynccontextmanager
async def listening(
    twin: DeepgramTwin, *, language: str = "en", options: deepgram.STTOptions | None = None
) -> AsyncIterator[STTStream]:
    async with stt_on(twin, language=language, options=options) as stt:
        stream = await stt.open()
        try:
            yield stream
        finally:
            await stream.aclose()


def silence(seconds: float) -> AudioFrame:
    return AudioFrame.silence(seconds, RATE)


async def test_it_keeps_the_promises_of_an_stt(twin: DeepgramTwin) -> None:
    speech = twin.speech("Hello there.")
    await check_stt(lambda: stt_on(twin), speech, expected="hello there", limit=LIMIT)


async def test_it_keeps_them_where_it_tells_speakers_apart(twin: DeepgramTwin) -> None:
    speech = twin.speech(Said("Hello there.", speaker=3))
    options = deepgram.STTOptions(diarize=True)
    await check_stt(lambda: stt_on(twin, options=options), speech, expected="hello there", limit=LIMIT)


async def test_interims_grow_and_the_final_has_words_with_times_and_confidence(twin: DeepgramTwin) -> None:
    async with listening(twin) as stream:
        push(stream, silence(1.0))
        push(stream, twin.speech(Said("Hello there.", confidence=0.8)))
        push(stream, silence(0.1))
        events = await until(stream, STTFinal)

    assert [event.text for event in events if isinstance(event, STTInterim)] == ["Hello", "Hello there."]
    final = events[-1]
    assert isinstance(final, STTFinal)
    assert (final.text, final.language, final.confidence) == ("Hello there.", "en", 0.8)
    assert [(word.text, word.start, word.end) for word in final.words] == [("Hello", 1.0, 1.24), ("there.", 1.26, 1.5)]
    assert final.audio_seconds == pytest.approx(1.54, abs=0.02)


async def test_speakers_and_languages_are_those_of_the_words(twin: DeepgramTwin) -> None:
    options = deepgram.STTOptions(diarize=True, endpointing=0.3)
    async with listening(twin, language="multi", options=options) as stream:
        push(stream, twin.speech(Said("Hola amigo", speaker=1, language="es")))
        push(stream, twin.speech(Said("hello", speaker=0)))
        push(stream, silence(0.5))
        [final] = await finals(stream, 1)

    assert [(word.text, word.speaker, word.language) for word in final.words] == [
        ("Hola", "1", "es"),
        ("amigo", "1", "es"),
        ("hello", "0", "en"),
    ]
    assert final.languages == ("es", "en")
    assert final.speaker == ""


async def test_pieces_of_one_utterance_are_joined_to_one_final(twin: DeepgramTwin) -> None:
    text = " ".join(f"word{number}" for number in range(20))  # 5.2 s: the service settles a piece of it on the way
    async with listening(twin) as stream:
        push(stream, twin.speech(text))
        push(stream, silence(0.1))
        events = await until(stream, STTFinal)
    settled = [sent for sent in twin.connection.sent if sent["type"] == "Results" and sent["is_final"]]
    assert len(settled) == 2

    interims = [event.text for event in events if isinstance(event, STTInterim)]
    assert all(later.startswith(earlier) for earlier, later in zip(interims, interims[1:], strict=False))
    assert isinstance(events[-1], STTFinal)
    assert events[-1].text == text
    assert len(events[-1].words) == 20


async def test_a_flush_settles_words_at_once(twin: DeepgramTwin) -> None:
    options = deepgram.STTOptions(endpointing=None)
    async with listening(twin, options=options) as stream:
        push(stream, twin.speech("Hello"))
        stream.flush()
        [final] = await finals(stream, 1)
    assert final.text == "Hello"
    assert twin.messages("Finalize")


async def test_a_flush_of_sound_without_words_is_an_empty_final_and_of_words_that_are_settled_none(
    twin: DeepgramTwin,
) -> None:
    noise = AudioFrame((1000).to_bytes(2, "little") * (RATE // 2), RATE)
    async with listening(twin) as stream:
        push(stream, noise)
        stream.flush()
        push(stream, twin.speech("Hello"))
        push(stream, silence(0.5))
        stream.flush()
        push(stream, twin.speech("again"))
        push(stream, silence(0.5))
        assert [final.text for final in await finals(stream, 3)] == ["", "Hello", "again"]


async def test_discarded_words_are_not_reported(twin: DeepgramTwin) -> None:
    options = deepgram.STTOptions(endpointing=0.5)
    async with listening(twin, options=options) as stream:
        push(stream, twin.speech("forget this"))
        stream.discard()
        push(stream, twin.speech("keep this"))
        push(stream, silence(0.6))
        [final] = await finals(stream, 1)
    assert final.text == "keep this"


async def test_noise_that_goes_on_does_not_keep_words_from_being_final(twin: DeepgramTwin) -> None:
    options = deepgram.STTOptions(endpointing=None)
    noise = AudioFrame((1000).to_bytes(2, "little") * (RATE * 4), RATE)
    async with listening(twin, options=options) as stream:
        push(stream, twin.speech("Hello there."))
        push(stream, noise)
        [final] = await finals(stream, 1)
    assert final.text == "Hello there."


async def test_a_connection_lost_in_mid_utterance_costs_no_word_and_doubles_none_and_times_go_on(
    twin: DeepgramTwin,
) -> None:
    speech = twin.speech("one two three four five six seven eight nine ten eleven twelve thirteen")
    half = len(speech.data) // FRAME // 2 * FRAME
    async with listening(twin, options=deepgram.STTOptions(endpointing=0.3, reopening=AT_ONCE)) as stream:
        push(stream, twin.speech("Hello there."))
        push(stream, silence(0.5))
        assert [final.text for final in await finals(stream, 1)] == ["Hello there."]
        push(stream, AudioFrame(speech.data[:half], RATE))
        await twin.until(lambda: "five" in str(twin.connection.sent[-1:]))
        twin.connection.abort()
        push(stream, AudioFrame(speech.data[half:], RATE))
        push(stream, silence(0.5))
        [final] = await finals(stream, 1)

    assert len(twin.connections) == 2
    assert final.text == "one two three four five six seven eight nine ten eleven twelve thirteen"
    assert final.words[0].start == pytest.approx(1.02, abs=0.03)
    assert final.words[-1].end == pytest.approx(1.02 + 13 * 0.26 - 0.02, abs=0.03)


async def test_words_that_a_new_connection_hears_again_come_once(twin: DeepgramTwin) -> None:
    text = " ".join(f"word{number}" for number in range(16))
    speech = twin.speech(text)
    async with listening(twin, options=deepgram.STTOptions(endpointing=0.3, reopening=AT_ONCE)) as stream:
        begun = round(3.2 / 0.02) * FRAME
        push(stream, AudioFrame(speech.data[:begun], RATE))
        await twin.until(lambda: any(sent.get("is_final") for sent in twin.connection.sent))
        twin.connection.abort()
        push(stream, AudioFrame(speech.data[begun:], RATE))
        push(stream, silence(0.5))
        [final] = await finals(stream, 1)
    assert final.text == text
    assert "word10" in str(twin.connection.sent), "the second connection has heard the end of the settled piece again"


async def test_a_flush_that_a_lost_connection_did_not_answer_is_sent_again(twin: DeepgramTwin) -> None:
    options = deepgram.STTOptions(endpointing=None, reopening=AT_ONCE)
    async with listening(twin, options=options) as stream:
        twin.connection.stall()
        push(stream, twin.speech("Hello there."))
        stream.flush()
        await twin.received("Finalize")
        await twin.connection.close(1011, "NET-0000")
        [final] = await finals(stream, 1)
    assert final.text == "Hello there."
    assert len(twin.messages("Finalize")) == 2


async def test_a_stream_that_is_lost_for_good_gives_its_unheard_audio_to_the_next_one(twin: DeepgramTwin) -> None:
    options = deepgram.STTOptions(endpointing=0.3, reopening=ReopeningOptions(waits=()))
    async with stt_on(twin, options=options) as stt:
        first, second = await stt.open(), await stt.open()
        lost, other = twin.connections[0], twin.connections[1]
        push(first, twin.speech("one two"))
        await twin.until(lambda: "two" in str(lost.sent[-1:]))
        lost.stall()
        push(first, twin.speech("three four"))
        await twin.until(lambda: lost.audio_bytes == 2 * len(twin.speech("one two").data))
        lost.abort()
        shown = await until_lost(first)
        assert isinstance(shown[-1], STTInterim)
        assert shown[-1].text == "one two"  # the pipeline settles these words

        first.replay(second.push, second.speech_started, second.flush)
        push(second, silence(0.5))
        [final] = await finals(second, 1)
        assert final.text == "three four"
        assert other is twin.connections[1]
        await first.aclose()
        await second.aclose()


async def test_key_terms_of_options_and_session_are_asked_for_once(twin: DeepgramTwin) -> None:
    options = deepgram.STTOptions(key_terms=("Ada", "a table by the window"))
    async with stt_on(twin, options=options) as stt:
        stream = await stt.open_with_key_terms(["Ada", "Grace"])
        await stream.aclose()
    assert twin.connection.query["keyterm"] == ["Ada", "a table by the window", "Grace"]


async def test_the_request_has_the_settings(twin: DeepgramTwin) -> None:
    options = deepgram.STTOptions(
        diarize=True,
        smart_format=True,
        redact=("pci", "numbers"),
        tags=("test",),
        opt_out=True,
        extra_query={"dictation": "true", "endpointing": "400"},
    )
    async with listening(twin, language="de", options=options):
        pass
    path, query, authorization = twin.handshakes[0]
    assert (path, authorization) == ("/v1/listen", f"Token {twin.key}")
    assert query == {
        "model": ["nova-3"],
        "language": ["de"],
        "encoding": ["linear16"],
        "sample_rate": ["16000"],
        "channels": ["1"],
        "interim_results": ["true"],
        "punctuate": ["true"],
        "smart_format": ["true"],
        "filler_words": ["true"],
        "diarize": ["true"],
        "mip_opt_out": ["true"],
        "redact": ["pci", "numbers"],
        "tag": ["test"],
        "utterance_end_ms": ["1000"],
        "dictation": ["true"],
        "endpointing": ["400"],
    }


async def test_the_end_of_a_stream_is_said(twin: DeepgramTwin) -> None:
    async with listening(twin):
        pass
    assert await twin.received("CloseStream")


# --- refusals


async def refused(stt: deepgram.STT) -> ProviderStatusError:
    with pytest.raises(ProviderStatusError) as caught:
        await stt.open()
    await stt.aclose()
    return caught.value


async def test_a_model_that_does_not_exist_is_named_with_those_that_do(twin: DeepgramTwin) -> None:
    error = await refused(deepgram.STT("nova-9", base_url=twin.url, api_key=twin.key))
    assert error.status == 400
    for text in ("'nova-9'", "No such model", "nova-3-medical", "check model"):
        assert text in str(error)


async def test_a_language_that_the_model_has_not_is_named_with_those_that_it_has(twin: DeepgramTwin) -> None:
    error = await refused(deepgram.STT("nova-3-medical", language="fi", base_url=twin.url, api_key=twin.key))
    for text in ("'fi'", "nova-3-medical has multi, en", "check language"):
        assert text in str(error)


@pytest.mark.parametrize(("status", "retryable"), [(401, False), (402, False), (403, False), (429, True), (503, True)])
async def test_a_refusal_says_what_to_do(twin: DeepgramTwin, status: int, retryable: bool) -> None:
    twin.refuse(status)
    error = await refused(stt_on(twin))
    assert (error.status, error.retryable) == (status, retryable)
    remedies = {401: "console.deepgram.com", 402: "balance", 403: "project has this product"}
    assert remedies.get(status, "") in str(error)
    assert "request " in str(error), "the vendor's support asks for it"


async def test_a_key_of_another_product_is_not_shown(twin: DeepgramTwin) -> None:
    error = await refused(deepgram.STT(base_url=twin.url, api_key="sk-other-product-4711"))
    assert error.status == 401
    assert "product" not in f"{error!s} {error!r} {error.__cause__!r} {error.__context__!r}"


async def test_an_error_message_of_the_service_ends_the_stream(twin: DeepgramTwin) -> None:
    options = deepgram.STTOptions(reopening=ReopeningOptions(waits=()))
    async with listening(twin, options=options) as stream:
        await twin.connection.send({"type": "Error", "variant": "DATA-0000", "description": "No audio in this."})
        with pytest.raises(ProviderError, match="No audio in this") as caught:
            await anext(stream.events())
    assert not caught.value.retryable


# --- arguments


def test_without_a_key_the_variable_is_named() -> None:
    with pytest.raises(ConfigurationError, match="DEEPGRAM_API_KEY"):
        deepgram.STT()


async def test_the_environments_key_goes_to_the_vendor_only(
    twin: DeepgramTwin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPGRAM_API_KEY", twin.key)
    assert twin.key not in repr(deepgram.STT())
    error = await refused(deepgram.STT(base_url=twin.url))
    assert error.status == 401
    assert twin.handshakes[0][2] == ""


async def test_a_temporary_token_is_sent_as_one(twin: DeepgramTwin) -> None:
    async with DeepgramTwin(key="eyJhbGciOi.eyJleHAi.c2ln") as other, stt_on(other) as stt:
        await (await stt.open()).aclose()
    assert other.handshakes[0][2] == f"Bearer {other.key}"


def test_the_region_is_an_address() -> None:
    assert "https://api.eu.deepgram.com" in repr(deepgram.STT(region="eu", api_key="k"))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"model": "flux-general-en"}, "FluxSTT"),
        ({"region": "mars"}, "region"),
        ({"region": "eu", "base_url": "https://deepgram.example.com"}, "region or base_url"),
        ({"base_url": "deepgram.example.com"}, "base_url must be a URL"),
        ({"model": "nova-2", "options": deepgram.STTOptions(key_terms=("Ada",))}, "Nova-3"),
    ],
)
def test_a_wrong_argument_is_an_error_at_once(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        deepgram.STT(api_key="k", **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options", [{"utterance_end": 0.5}, {"endpointing": -1}, {"key_terms": ("",)}, {"key_terms": "Ada"}]
)
def test_wrong_options_are_an_error_at_once(options: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        deepgram.STTOptions(**options)  # type: ignore[arg-type]


async def test_key_terms_are_refused_by_an_older_model(twin: DeepgramTwin) -> None:
    async with deepgram.STT("nova-2", base_url=twin.url, api_key=twin.key) as stt:
        assert not stt.capabilities.takes_key_terms
        with pytest.raises(CapabilityError):
            await stt.open_with_key_terms(["Ada"])
