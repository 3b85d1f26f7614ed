"""elevenlabs.STT on the twin: the port's promises, words with times, commits, short utterances, lost connections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from kit.limits import LIMIT
from kit.listening_streams import finals, push, until, until_lost
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError, ProviderStatusError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions
from vivavoce.pipelines.stt.base import STTFinal, STTInterim, STTStream
from vivavoce.pipelines.testing import check_stt, run_virtual
from vivavoce.plugins import elevenlabs
from vivavoce.plugins.elevenlabs.twin import ElevenLabsTwin, Said

RATE = 16_000
FRAME = 640
AT_ONCE = ReopeningOptions(waits=(0.0, 0.0, 0.0))
BY_VAD = elevenlabs.STTOptions(commit="vad", silence=0.3, reopening=AT_ONCE)


def stt_on(
    twin: ElevenLabsTwin, *, language: str = "en", options: elevenlabs.STTOptions | None = None
) -> elevenlabs.STT:
    chosen = options or elevenlabs.STTOptions(reopening=AT_ONCE)
    return elevenlabs.STT(base_url=twin.url, api_key=twin.key, language=language, options=chosen)


@asynccontextmanager
async def listening(
    twin: ElevenLabsTwin, *, language: str = "en", options: elevenlabs.STTOptions | None = None
) -> AsyncIterator[STTStream]:
    async with stt_on(twin, language=language, options=options) as stt:
        stream = await stt.open()
        try:
            yield stream
        finally:
            await stream.aclose()


def silence(seconds: float) -> AudioFrame:
    return AudioFrame.silence(seconds, RATE)


def sent(twin: ElevenLabsTwin, kind: str) -> list[dict[str, Any]]:
    return [told for one in twin.connections for told in one.sent if told["message_type"] == kind]


async def test_it_keeps_the_promises_of_an_stt_also_if_the_service_settles_words(twin: ElevenLabsTwin) -> None:
    speech = twin.speech("Hello there.")
    await check_stt(lambda: stt_on(twin, options=BY_VAD), speech, expected="hello there", limit=LIMIT)


async def test_interims_grow_and_the_final_has_words_with_times_and_confidence(twin: ElevenLabsTwin) -> None:
    async with listening(twin) as stream:
        push(stream, silence(1.0), twin.speech(Said("Hello there.", confidence=0.8)), silence(0.1))
        stream.flush()
        events = await until(stream, STTFinal)

    assert [event.text for event in events if isinstance(event, STTInterim)] == ["Hello", "Hello there."]
    final = events[-1]
    assert isinstance(final, STTFinal)
    assert (final.text, final.language) == ("Hello there.", "en")
    assert final.confidence == pytest.approx(0.8)
    assert [(word.text, word.start, word.end) for word in final.words] == [("Hello", 1.0, 1.24), ("there.", 1.26, 1.5)]
    assert final.audio_seconds == pytest.approx(1.62, abs=0.02)
    assert len(sent(twin, "committed_transcript")) == 1, "its other copy is not read"


async def test_the_language_is_that_of_the_words_if_none_is_asked_for(twin: ElevenLabsTwin) -> None:
    options = elevenlabs.STTOptions(other_languages=("es-MX", "fr"))
    async with listening(twin, language="", options=options) as stream:
        push(stream, twin.speech(Said("Hola amigo", language="es")))
        stream.flush()
        [final] = await finals(stream, 1)
    assert (final.language, final.languages) == ("es", ("es",))
    assert twin.connection.query["secondary_languages"] == ["es", "fr"]
    assert "language_code" not in twin.connection.query


async def test_a_flush_of_little_audio_does_not_end_the_session_and_times_stay_those_of_the_stream(
    twin: ElevenLabsTwin,
) -> None:
    async with listening(twin) as stream:
        for text in ("Yes", "No", "Well"):
            push(stream, twin.speech(text))  # 0.26 s: the service would end the session
            stream.flush()
        found = await finals(stream, 3)
    assert [final.text for final in found] == ["Yes", "No", "Well"]
    starts = [final.words[0].start for final in found]
    assert starts == pytest.approx([0.0, 0.26, 0.52], abs=0.02)
    assert len(twin.connections) == 1


async def test_each_flush_has_a_final_an_empty_one_if_there_were_no_words(twin: ElevenLabsTwin) -> None:
    noise = AudioFrame((1000).to_bytes(2, "little") * (RATE // 2), RATE)
    async with listening(twin) as stream:
        push(stream, noise)
        stream.flush()
        push(stream, twin.speech("Hello"))
        stream.flush()
        stream.flush()
        push(stream, twin.speech("again"))
        stream.flush()
        assert [final.text for final in await finals(stream, 4)] == ["", "Hello", "", "again"]


async def test_the_services_own_commit_settles_words_and_a_flush_behind_it_adds_nothing(twin: ElevenLabsTwin) -> None:
    async with listening(twin, options=BY_VAD) as stream:
        push(stream, twin.speech("Hello there."), silence(0.5))
        stream.flush()
        push(stream, twin.speech("again"), silence(0.5))
        assert [final.text for final in await finals(stream, 2)] == ["Hello there.", "again"]


async def test_discarded_words_are_not_reported(twin: ElevenLabsTwin) -> None:
    async with listening(twin) as stream:
        push(stream, twin.speech("forget this"))
        stream.discard()
        push(stream, twin.speech("keep this"))
        stream.flush()
        events = await until(stream, STTFinal)
    shown = [event.text for event in events if isinstance(event, STTInterim | STTFinal)]
    assert shown[-3:] == ["keep", "keep this", "keep this"]


async def test_a_connection_lost_in_mid_utterance_costs_no_word_and_doubles_none_and_times_go_on(
    twin: ElevenLabsTwin,
) -> None:
    text = "one two three four five six seven eight nine ten eleven twelve thirteen"
    speech = twin.speech(text)
    half = len(speech.data) // FRAME // 2 * FRAME
    async with listening(twin) as stream:
        push(stream, twin.speech("Hello there."), silence(0.5))
        stream.flush()
        assert [final.text for final in await finals(stream, 1)] == ["Hello there."]
        push(stream, AudioFrame(speech.data[:half], RATE))
        await twin.until(lambda: "five" in str(twin.connection.sent[-1:]))
        twin.connection.abort()
        push(stream, AudioFrame(speech.data[half:], RATE))
        stream.flush()
        [final] = await finals(stream, 1)

    assert len(twin.connections) == 2
    assert final.text == text
    assert final.words[0].start == pytest.approx(1.02, abs=0.03)
    assert final.words[-1].end == pytest.approx(1.02 + 13 * 0.26 - 0.02, abs=0.03)


async def test_words_that_a_new_connection_hears_again_come_once(twin: ElevenLabsTwin) -> None:
    async with listening(twin) as stream:
        push(stream, twin.speech("one two three four"))
        stream.flush()
        [first] = await finals(stream, 1)
        twin.connection.abort()
        push(stream, twin.speech("five six"))
        stream.flush()
        [second] = await finals(stream, 1)
    assert (first.text, second.text) == ("one two three four", "five six")
    assert second.words[0].start == pytest.approx(1.04, abs=0.03)
    assert "four five six" in str(twin.connection.sent), "the second connection has heard the settled end again"


async def test_a_flush_that_a_lost_connection_did_not_answer_is_sent_again(twin: ElevenLabsTwin) -> None:
    async with listening(twin) as stream:
        twin.connection.stall()
        push(stream, twin.speech("Hello there."))
        stream.flush()
        await twin.until(lambda: any(told["commit"] for told in twin.received))
        await twin.connection.close(1011, "")
        [final] = await finals(stream, 1)
    assert final.text == "Hello there."
    assert [told["commit"] for told in twin.received].count(True) == 2


async def test_a_stream_that_is_lost_for_good_gives_its_unheard_audio_to_the_next_one(twin: ElevenLabsTwin) -> None:
    options = elevenlabs.STTOptions(reopening=ReopeningOptions(waits=()))
    async with stt_on(twin, options=options) as stt:
        first, second = await stt.open(), await stt.open()
        lost = twin.connections[0]
        push(first, twin.speech("one two"), silence(0.4))
        async for event in first.events():
            if isinstance(event, STTInterim) and event.text == "one two":  # the pipeline settles these words
                break
        lost.stall()
        push(first, twin.speech("three four"))
        await twin.until(lambda: len(lost.received) == round(1.44 / 0.02))
        lost.abort()
        assert await until_lost(first) == []

        first.replay(second.push, second.speech_started, second.flush)
        second.flush()
        [final] = await finals(second, 1)
        assert final.text == "three four"
        await first.aclose()
        await second.aclose()


async def test_key_terms_of_options_and_session_are_asked_for_once(twin: ElevenLabsTwin) -> None:
    options = elevenlabs.STTOptions(key_terms=("Ada", "by the window"))
    async with stt_on(twin, options=options) as stt:
        stream = await stt.open_with_key_terms(["Ada", "Grace"])
        await stream.aclose()
        with pytest.raises(ConfigurationError, match="1 to 20 characters"):
            await stt.open_with_key_terms(["a phrase that is too long for it"])
    assert twin.connection.query["keyterms"] == ["Ada", "by the window", "Grace"]


async def test_the_request_has_the_settings(twin: ElevenLabsTwin) -> None:
    options = elevenlabs.STTOptions(
        commit="vad",
        silence=0.5,
        speech_threshold=0.6,
        verbatim=False,
        log=False,
        extra_query={"min_speech_duration_ms": "100", "vad_threshold": "0.7"},
    )
    async with listening(twin, language="de-DE", options=options):
        pass
    path, query, key = twin.handshakes[0]
    assert (path, key) == ("/v1/speech-to-text/realtime", twin.key)
    assert query == {
        "model_id": ["scribe_v2_realtime"],
        "audio_format": ["pcm_16000"],
        "commit_strategy": ["vad"],
        "include_timestamps": ["true"],
        "language_code": ["de"],
        "vad_silence_threshold_secs": ["0.5"],
        "no_verbatim": ["true"],
        "enable_logging": ["false"],
        "min_speech_duration_ms": ["100"],
        "vad_threshold": ["0.7"],
    }


def test_a_session_without_audio_is_kept() -> None:
    async def main() -> None:
        async with ElevenLabsTwin() as twin, listening(twin) as stream:
            await anyio.sleep(60)
            assert not twin.connection.is_over
            push(stream, twin.speech("Hello there."))
            stream.flush()
            assert [final.text for final in await finals(stream, 1)] == ["Hello there."]

    run_virtual(main())


# --- refusals


async def refused(stt: elevenlabs.STT) -> ProviderStatusError:
    with pytest.raises(ProviderStatusError) as caught:
        await stt.open()
    await stt.aclose()
    return caught.value


async def test_a_model_that_does_not_exist_is_named_with_the_one_that_does(twin: ElevenLabsTwin) -> None:
    error = await refused(elevenlabs.STT("scribe_v9", base_url=twin.url, api_key=twin.key))
    assert (error.status, error.retryable) == (400, False)
    for text in ("'scribe_v9'", "invalid_model_id", "'scribe_v2_realtime'"):
        assert text in str(error)


async def test_a_language_that_there_is_not_is_named(twin: ElevenLabsTwin) -> None:
    error = await refused(stt_on(twin, language="klingon"))
    for text in ("unsupported_language", "the language 'klingon'"):
        assert text in str(error)


@pytest.mark.parametrize(("status", "retryable"), [(401, False), (402, False), (403, False), (429, True), (503, True)])
async def test_a_refusal_says_what_to_do(twin: ElevenLabsTwin, status: int, retryable: bool) -> None:
    twin.refuse(status)
    error = await refused(stt_on(twin))
    assert (error.status, error.retryable) == (status, retryable)
    remedies = {401: "settings/api-keys", 402: "balance", 403: "terms are accepted"}
    assert remedies.get(status, "") in str(error)


async def test_a_key_of_another_product_is_told_at_the_opening_and_not_shown(twin: ElevenLabsTwin) -> None:
    error = await refused(elevenlabs.STT(base_url=twin.url, api_key="sk-other-product-4711"))
    assert error.status == 401
    assert "ELEVENLABS_API_KEY" in str(error)
    assert "product" not in f"{error!s} {error!r} {error.__cause__!r} {error.__context__!r}"


@pytest.mark.parametrize(
    ("kind", "retryable"),
    [("transcriber_error", True), ("error", True), ("rate_limited", True), ("quota_exceeded", False)],
)
async def test_an_error_message_of_the_service_ends_the_stream(
    twin: ElevenLabsTwin, kind: str, retryable: bool
) -> None:
    options = elevenlabs.STTOptions(reopening=ReopeningOptions(waits=()))
    async with listening(twin, options=options) as stream:
        await twin.connection.send({"message_type": kind, "error": "No more of this."})
        with pytest.raises(ProviderError, match="No more of this") as caught:
            await anext(stream.events())
    assert caught.value.retryable is retryable


@pytest.mark.parametrize("kind", ["session_time_limit_exceeded", "insufficient_audio_activity"])
async def test_a_session_that_the_service_ends_in_its_time_goes_on_in_the_next_one(
    twin: ElevenLabsTwin, kind: str
) -> None:
    async with listening(twin) as stream:
        push(stream, twin.speech("Hello"))
        await twin.until(lambda: "Hello" in str(twin.connection.sent))
        await twin.connection.send({"message_type": kind, "error": "The session is over."})
        push(stream, twin.speech("there."))
        stream.flush()
        assert [final.text for final in await finals(stream, 1)] == ["Hello there."]
    assert len(twin.connections) == 2


async def test_a_warning_ends_nothing(twin: ElevenLabsTwin, caplog: pytest.LogCaptureFixture) -> None:
    async with listening(twin) as stream:
        await twin.connection.send({"message_type": "warning", "warning": "Slow."})
        await twin.connection.send({"message_type": "commit_throttled", "error": "Ignored."})
        push(stream, twin.speech("Hello there."))
        stream.flush()
        assert [final.text for final in await finals(stream, 1)] == ["Hello there."]
    assert "warning: Slow." in caplog.text


# --- arguments


def test_without_a_key_the_variables_are_named() -> None:
    with pytest.raises(ConfigurationError, match="ELEVENLABS_API_KEY or ELEVEN_API_KEY"):
        elevenlabs.STT()


def test_the_region_is_an_address() -> None:
    assert "https://api.in.residency.elevenlabs.io" in repr(elevenlabs.STT(region="in", api_key="k"))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"model": ""}, "need model as a name"),
        ({"language": "in English"}, "code such as 'en'"),
        ({"region": "mars"}, "region"),
        ({"region": "eu", "base_url": "https://elevenlabs.example.com"}, "region or base_url"),
        ({"base_url": "elevenlabs.example.com"}, "base_url must be a URL"),
    ],
)
def test_a_wrong_argument_is_an_error_at_once(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        elevenlabs.STT(api_key="k", **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"commit": "vad", "silence": 0.1}, "silence >= 0.3"),
        ({"commit": "vad", "speech_threshold": 2}, "speech_threshold <= 0.9"),
        ({"silence": 0.5}, "silence needs commit='vad'"),
        ({"commit": "never"}, "commit"),
        ({"key_terms": ("",)}, "1 to 20 characters"),
        ({"key_terms": "Ada"}, "key_terms"),
        ({"key_terms": tuple(map(str, range(51)))}, "50 key_terms at most, got 51"),
    ],
)
def test_wrong_options_are_an_error_at_once(options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        elevenlabs.STTOptions(**options)  # type: ignore[arg-type]
