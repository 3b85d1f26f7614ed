"""azure.STT against the twin: the port's promises, words with times, flushes and turns, lost connections, settings."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from kit.limits import LIMIT
from kit.listening_streams import finals, push, until, until_lost
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderStatusError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions
from vivavoce.pipelines.stt.base import STTFinal, STTInterim, STTStream
from vivavoce.pipelines.testing import check_stt, run_virtual
from vivavoce.plugins import azure
from vivavoce.plugins.azure.twin import AzureTwin, Said

RATE = 16_000
AT_ONCE = ReopeningOptions(waits=(0.0, 0.0, 0.0))


def stt_on(
    twin: AzureTwin,
    *,
    language: str | Sequence[str] = "en-US",
    options: azure.STTOptions | None = None,
    base_url: str = "",
) -> azure.STT:
    chosen = options or azure.STTOptions(reopening=AT_ONCE)
    return azure.STT(base_url=base_url or twin.stt_url, api_key=twin.key, language=language, options=chosen)


@asynccontextmanager
async def listening(twin: AzureTwin, **arguments: Any) -> AsyncIterator[STTStream]:
    async with stt_on(twin, **arguments) as stt:
        stream = await stt.open()
        try:
            yield stream
        finally:
            await stream.aclose()


def silence(seconds: float) -> AudioFrame:
    return AudioFrame.silence(seconds, RATE)


def times(final: STTFinal) -> list[tuple[str, float, float]]:
    return [(word.text, round(word.start, 3), round(word.end, 3)) for word in final.words]


def context(twin: AzureTwin) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(twin.connection.messages("speech.context")[-1].body)
    return told


async def test_it_keeps_the_promises_of_an_stt(twin: AzureTwin) -> None:
    await check_stt(lambda: stt_on(twin), twin.speech("Hello there."), expected="hello there", limit=LIMIT)


async def test_it_keeps_them_on_a_container_and_where_it_tells_speakers_apart(twin: AzureTwin) -> None:
    options = azure.STTOptions(diarize=True)
    speech = twin.speech(Said("Hello there.", speaker=1))
    await check_stt(
        lambda: stt_on(twin, options=options, base_url=twin.url), speech, expected="hello there", limit=LIMIT
    )
    assert twin.handshakes[0]["language"] == "en-US"


async def test_interims_grow_and_the_final_has_words_with_times_and_confidence(twin: AzureTwin) -> None:
    async with listening(twin) as stream:
        push(stream, silence(1.0))
        push(stream, twin.speech(Said("Hello there.", confidence=0.8)))
        push(stream, silence(0.6))
        events = await until(stream, STTFinal)

    assert [event.text for event in events if isinstance(event, STTInterim)] == ["hello", "hello there"]
    final = events[-1]
    assert isinstance(final, STTFinal)
    assert (final.text, final.language, final.confidence) == ("Hello there.", "en-US", 0.8)
    assert times(final) == [("Hello", 1.0, 1.24), ("there.", 1.26, 1.5)]
    assert [word.confidence for word in final.words] == [0.8, 0.8]
    assert final.audio_seconds == pytest.approx(1.5)


async def test_a_flush_ends_the_turn_and_the_next_one_goes_on_with_the_streams_times(twin: AzureTwin) -> None:
    async with listening(twin) as stream:
        push(stream, twin.speech("Hello there."))
        stream.flush()
        push(stream, twin.speech("And now"))
        stream.flush()
        first, second = await finals(stream, 2)
    assert times(first) == [("Hello", 0.0, 0.24), ("there.", 0.26, 0.5)]
    assert times(second) == [("And", 0.52, 0.76), ("now", 0.78, 1.02)]
    assert len(twin.connections) == 1
    assert twin.connection.listening is not None
    turns = twin.connection.listening.turns
    assert len(turns) == len(set(turns)) >= 2


async def test_a_flush_without_words_is_an_empty_final_and_without_audio_none(twin: AzureTwin) -> None:
    async with listening(twin) as stream:
        stream.flush()
        push(stream, silence(1.0))
        stream.push(AudioFrame(b"", RATE))  # it would end the turn on the wire
        stream.flush()
        stream.flush()
        push(stream, twin.speech("Hello."))
        stream.flush()
        assert [final.text for final in await finals(stream, 2)] == ["", "Hello."]


async def test_a_flush_behind_a_settled_phrase_brings_no_second_final(twin: AzureTwin) -> None:
    async with listening(twin) as stream:
        push(stream, twin.speech("Hello."), silence(0.6))
        [first] = await finals(stream, 1)
        stream.flush()
        push(stream, twin.speech("again"))
        stream.flush()
        [second] = await finals(stream, 1)
    assert (first.text, second.text) == ("Hello.", "again")
    assert second.words[0].start == pytest.approx(0.86, abs=0.02)


async def test_discarded_words_are_not_reported_and_later_ones_keep_their_times(twin: AzureTwin) -> None:
    async with listening(twin) as stream:
        push(stream, twin.speech("Not this"))
        stream.discard()
        push(stream, twin.speech("but that"))
        stream.flush()
        [final] = await finals(stream, 1)
        push(stream, twin.speech("nor this"))
        stream.flush()
        push(stream, twin.speech("at all"))
        stream.discard()  # while the turn before ends
        push(stream, twin.speech("but here"))
        stream.flush()
        [last] = await finals(stream, 1)
    assert (final.text, last.text) == ("but that", "but here")
    assert final.words[0].start == pytest.approx(0.52)
    assert last.words[0].start == pytest.approx(4 * 0.52)


@pytest.mark.parametrize("how", ["abort", "close"])
async def test_a_lost_connection_loses_no_word_and_repeats_none(twin: AzureTwin, how: str) -> None:
    async with listening(twin) as stream:
        push(stream, twin.speech("One two three."), silence(0.6))
        [first] = await finals(stream, 1)
        push(stream, twin.speech("Four five"))
        await twin.until(lambda: len([told for told in twin.connection.sent if told.path == "speech.hypothesis"]) == 5)
        if how == "abort":
            twin.connection.abort()
        else:
            await twin.connection.close(1011, "restart")
        await twin.until(lambda: len(twin.connections) == 2)
        push(stream, twin.speech("six."))
        stream.flush()
        [second] = await finals(stream, 1)
    assert (first.text, second.text) == ("One two three.", "Four five six.")
    starts = [word.start for word in (*first.words, *second.words)]
    assert starts == pytest.approx([0.0, 0.26, 0.52, 1.38, 1.64, 1.9], abs=0.03)


async def test_a_connection_lost_between_a_flush_and_its_answer_is_answered_by_the_next_one(twin: AzureTwin) -> None:
    async with listening(twin) as stream:
        await twin.until(lambda: twin.connections)
        twin.connection.stall()
        push(stream, twin.speech("Hello there."))
        stream.flush()
        push(stream, twin.speech("And now"))
        await twin.until(lambda: twin.connection.audio_bytes > 16_000)
        twin.connection.abort()
        stream.flush()
        first, second = await finals(stream, 2)
    assert (first.text, second.text) == ("Hello there.", "And now")
    assert second.words[0].start == pytest.approx(0.52)


async def test_a_turn_that_the_service_ends_by_itself_costs_no_word(twin: AzureTwin) -> None:
    async with listening(twin) as stream:
        push(stream, twin.speech("Hello there."))
        await twin.until(lambda: len(twin.connection.sent) >= 4)
        await twin.connection.send(twin.turn_end())
        await twin.until(lambda: len(twin.connections) == 2)
        push(stream, twin.speech("And now"))
        stream.flush()
        [final] = await finals(stream, 1)
    assert final.text == "Hello there. And now"


def test_a_service_that_does_not_end_a_turn_is_left_for_another_connection() -> None:
    async def main() -> tuple[str, int]:
        async with AzureTwin() as twin, stt_on(twin) as stt:
            stream = await stt.open()
            await twin.until(lambda: twin.connections)
            twin.connection.stall()
            push(stream, twin.speech("Hello there."))
            stream.flush()
            push(stream, silence(0.1))
            await anyio.sleep(5)
            push(stream, silence(0.1))
            [final] = await finals(stream, 1)
            await stream.aclose()
            return final.text, len(twin.connections)

    assert run_virtual(main()) == ("Hello there.", 2)


def test_a_connection_without_audio_is_kept_and_later_words_have_the_streams_times() -> None:
    async def main() -> tuple[list[STTFinal], int]:
        async with AzureTwin() as twin, stt_on(twin) as stt:
            stream = await stt.open()
            push(stream, twin.speech("Hello."), silence(1.0))
            heard = await finals(stream, 1)
            await anyio.sleep(120.0)
            push(stream, twin.speech("again"), silence(1.0))
            heard += await finals(stream, 1)
            await stream.aclose()
            return heard, len(twin.connections)

    (first, second), connections = run_virtual(main())
    assert (first.text, second.text, connections) == ("Hello.", "again", 1)
    assert second.words[0].start == pytest.approx(1.26, abs=0.02)


async def test_a_lost_stream_gives_its_audio_to_the_next_one(twin: AzureTwin) -> None:
    async with stt_on(twin, options=azure.STTOptions(reopening=ReopeningOptions(waits=()))) as stt:
        lost = await stt.open()
        await twin.until(lambda: twin.connections)
        twin.connection.stall()
        push(lost, twin.speech("Hello there."))
        lost.flush()
        push(lost, twin.speech("And now"))
        twin.connection.abort()
        await until_lost(lost)
        stream = await stt.open()
        lost.replay(stream.push, stream.speech_started, stream.flush)
        stream.flush()
        assert [final.text for final in await finals(stream, 2)] == ["Hello there.", "And now"]
        await stream.aclose()
        await lost.aclose()


# --- settings


async def test_the_settings_are_in_the_context(twin: AzureTwin) -> None:
    options = azure.STTOptions(
        key_terms=("Vivavoce",), endpointing=0.3, profanity="masked", deployment="my-model", reopening=AT_ONCE
    )
    async with stt_on(twin, options=options, language="de-DE") as stt:
        stream = await stt.open_with_key_terms(("Ada", "Vivavoce"))
        await twin.until(lambda: twin.connections and twin.connection.messages("speech.context"))
        await stream.aclose()
    assert context(twin) == {
        "phraseDetection": {
            "mode": "CONVERSATION",
            "enrichment": {"profanity": "masked"},
            "CONVERSATION": {"segmentation": {"mode": "Custom", "segmentationSilenceTimeoutMs": 300}},
            "language": "de-DE",
        },
        "phraseOutput": {"format": "Detailed", "detailed": {"options": ["WordTimings", "WordConfidence"]}},
        "audio": {"streams": {"1": None}},
        "dgi": {"Groups": [{"Type": "Generic", "Items": [{"Text": "Vivavoce"}, {"Text": "Ada"}]}], "bias": 1.0},
    }
    assert twin.handshakes[0]["cid"] == "my-model"
    assert twin.handshakes[0]["ocp-apim-subscription-key"] == twin.key


async def test_the_language_is_detected_among_several(twin: AzureTwin) -> None:
    async with listening(twin, language=("en-US", "es-ES")) as stream:
        push(stream, twin.speech(Said("Hola amigo", language="es")))
        stream.flush()
        [final] = await finals(stream, 1)
    assert (final.text, final.language) == ("Hola amigo", "es-ES")
    assert context(twin)["languageId"]["mode"] == "DetectContinuous"


async def test_speakers_have_the_services_names(twin: AzureTwin) -> None:
    async with listening(twin, options=azure.STTOptions(diarize=True)) as stream:
        push(stream, twin.speech(Said("Hello.", speaker=1)))
        stream.flush()
        [final] = await finals(stream, 1)
    assert final.speaker == "Guest-2"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"language": "en"}, "locale such as 'en-AU', 'en-CA', 'en-GB', got 'en'"),
        ({"language": ()}, "need 1 to 10 languages, got 0"),
        ({"language": ("en-US", "de-DE")}, "a container has one language, got en-US, de-DE"),
        ({"base_url": None}, "set AZURE_SPEECH_REGION or SPEECH_REGION, or give region"),
        ({"base_url": None, "region": "West Europe"}, "region must be a name such as 'westeurope', got 'West Europe'"),
        ({"region": "westeurope"}, "give region or base_url, got both"),
        ({"base_url": "azure"}, "base_url must be a URL such as 'https://my-speech.cognitiveservices.azure.com'"),
        ({"base_url": None, "region": "westeurope"}, "set AZURE_SPEECH_KEY or SPEECH_KEY or AZURE_SPEECH_API_KEY"),
        ({"api_key": "k", "token_provider": lambda: "t"}, "give api_key or token_provider, got both"),
    ],
)
def test_a_wrong_argument_is_refused_at_once(arguments: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        azure.STT(**{"base_url": "http://127.0.0.1:9", **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"endpointing": 0.05}, "endpointing >= 0.1"),
        ({"endpointing": 6}, "endpointing <= 5"),
        ({"profanity": "loud"}, "profanity"),
        ({"key_terms": ("",)}, "got an empty one"),
    ],
)
def test_a_wrong_option_is_refused(arguments: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        azure.STTOptions(**arguments)  # type: ignore[arg-type]


async def test_a_language_that_does_not_exist_is_named_with_those_there_are(twin: AzureTwin) -> None:
    async with stt_on(twin, language="en-XX") as stt:
        stream = await stt.open()
        with pytest.raises(ProviderStatusError) as caught:
            await until(stream, STTFinal)
        await stream.aclose()
    for told in ("Unsupported recognition language en-XX", "asked for language 'en-XX'", "known are en-AU, en-CA"):
        assert told in str(caught.value)
    assert not caught.value.retryable


async def test_a_key_of_another_resource_is_told(twin: AzureTwin) -> None:
    async with azure.STT(base_url=twin.stt_url, api_key="another-key") as stt:
        with pytest.raises(ProviderStatusError) as caught:
            await stt.open()
    assert caught.value.status == 401
    assert "must be of a Speech or Foundry resource that 127.0.0.1 serves" in str(caught.value)
    assert "another-key" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "code", "retryable"), [("TooManyRequests", 429, True), ("Forbidden", 403, False), ("Error", 500, True)]
)
async def test_a_phrase_that_is_an_error_ends_the_stream(
    twin: AzureTwin, status: str, code: int, retryable: bool
) -> None:
    async with listening(twin, options=azure.STTOptions(reopening=ReopeningOptions(waits=()))) as stream:
        await twin.until(lambda: twin.connections)
        await twin.connection.send(twin.phrase({"RecognitionStatus": status}))
        with pytest.raises(ProviderStatusError, match=f"RecognitionStatus {status}") as caught:
            await until(stream, STTFinal)
    assert (caught.value.status, caught.value.retryable) == (code, retryable)
