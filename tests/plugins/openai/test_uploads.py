"""openai.STT by uploads against the twin: the port's promises, the form, times, order, silence, doubts and failures."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from kit.limits import LIMIT
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError, ProviderStatusError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.stt.base import STTFinal, STTStream
from vivavoce.pipelines.testing import check_stt
from vivavoce.pipelines.testing.realtime_server.script import tone
from vivavoce.plugins import openai
from vivavoce.plugins.openai.client import net_client
from vivavoce.plugins.openai.endpoint import find_endpoint
from vivavoce.plugins.openai.transcripts import Transcription, heard_of, language_of
from vivavoce.plugins.openai.twin import BREAK, Answer, Heard, OpenAITwin, refusal
from vivavoce.plugins.openai.uploads import UploadStream

RATE = 16000


def sound(seconds: float) -> bytes:
    return tone(seconds)[: 2 * round(seconds * RATE)]


SPEECH = AudioFrame(sound(0.6), RATE)


def recogniser(twin: OpenAITwin, **fields: Any) -> openai.STT:
    return openai.STT(**{"server": "groq", "base_url": twin.url, "api_key": "secret", **fields})


@asynccontextmanager
async def listening(twin: OpenAITwin, **fields: Any) -> AsyncIterator[STTStream]:
    async with recogniser(twin, **fields) as stt:
        stream = await stt.open()
        try:
            yield stream
        finally:
            await stream.aclose()


def push(stream: STTStream, pcm: bytes) -> None:
    for at in range(0, len(pcm), 640):
        stream.push(AudioFrame(pcm[at : at + 640], RATE))


def silence(seconds: float) -> bytes:
    return bytes(round(seconds * RATE) * 2)


def say(stream: STTStream, seconds: float = 0.6) -> None:
    stream.speech_started(0.0)
    push(stream, sound(seconds))
    stream.flush()


async def finals(stream: STTStream, count: int) -> list[STTFinal]:
    found: list[STTFinal] = []
    with anyio.fail_after(LIMIT):
        async for event in stream.events():
            assert isinstance(event, STTFinal), "an upload has no interims"
            found.append(event)
            if len(found) == count:
                break
    return found


@pytest.mark.parametrize("fields", [{}, {"server": None, "model": "m", "api": "upload"}])
async def test_it_keeps_the_promises_of_an_stt(fields: dict[str, Any]) -> None:
    async with OpenAITwin("groq") as twin:
        twin.default = Heard(text="Hello there.")
        await check_stt(lambda: recogniser(twin, **fields), SPEECH, expected="hello there", limit=LIMIT)


async def test_an_utterance_is_one_request_with_what_is_asked_for() -> None:
    options = openai.STTOptions(prompt="A restaurant.", keywords=("Ada",))
    async with OpenAITwin("groq") as twin:
        twin.hears("Hello")
        async with recogniser(twin, language="en", options=options) as stt:
            stream = await stt.open_with_key_terms(["tatin", "Loire"])
            say(stream)
            (final,) = await finals(stream, 1)
            await stream.aclose()
    (request,) = twin.requests
    assert request.path == "/v1/audio/transcriptions"
    assert request.headers["Authorization"] == "Bearer secret"
    assert request.body == {
        "model": "whisper-large-v3-turbo",
        "language": "en",
        "prompt": "A restaurant. Ada, tatin, Loire.",
        "response_format": "verbose_json",
        "timestamp_granularities[]": ["word", "segment"],
    }
    assert round(request.seconds, 3) == round(final.audio_seconds, 3) == 0.6
    assert (final.text, final.language) == ("Hello", "en")


async def test_a_model_other_than_whisper_is_asked_for_text_alone() -> None:
    async with OpenAITwin() as twin:
        twin.hears("Hello")
        async with listening(twin, server=None, model="gpt-4o-transcribe", api="upload") as stream:
            say(stream)
            (final,) = await finals(stream, 1)
    assert twin.bodies[0] == {"model": "gpt-4o-transcribe", "response_format": "json"}
    assert (final.text, final.words, final.language) == ("Hello", (), "")


@pytest.mark.parametrize("spaces", [False, True])
async def test_words_have_the_times_of_the_streams_audio_and_the_spelling_of_the_text(spaces: bool) -> None:
    async with OpenAITwin("groq") as twin, listening(twin) as stream:
        twin.add(Heard(text="A table, please.", spaces=spaces))
        push(stream, silence(3.0))
        push(stream, sound(0.3))
        stream.speech_started(0.3)
        push(stream, sound(0.4))
        stream.flush()
        (final,) = await finals(stream, 1)
    assert [word.text for word in final.words] == ["A", "table,", "please."]
    assert final.words[0].start == pytest.approx(2.8)  # 0.2 of pre-roll
    assert final.words[-1].end == pytest.approx(3.7)
    assert final.language == "en"


async def test_a_server_without_the_verbose_format_is_asked_for_text_alone() -> None:
    options = openai.STTOptions(verbose_json=False)
    async with OpenAITwin("groq") as twin, listening(twin, options=options) as stream:
        twin.add(Heard(text="Hello"), refusal(400, "unknown response_format"))
        say(stream)
        (final,) = await finals(stream, 1)
    assert (final.text, final.words, twin.bodies[0]["response_format"]) == ("Hello", (), "json")


async def test_a_refused_form_says_what_was_asked_for_and_what_to_do() -> None:
    async with OpenAITwin("groq") as twin, listening(twin, language="tlh") as stream:
        twin.add(refusal(400, "unknown language"))
        say(stream)
        with pytest.raises(
            ProviderStatusError, match=r"unknown language.*'whisper-large-v3-turbo', language tlh.*verbose"
        ):
            await finals(stream, 1)


async def test_silence_asks_for_nothing() -> None:
    async with OpenAITwin("groq") as twin, listening(twin) as stream:
        stream.flush()
        stream.speech_started(0.0)
        push(stream, silence(1.0))
        stream.flush()
        assert [final.text for final in await finals(stream, 2)] == ["", ""]
    assert twin.requests == []


@pytest.mark.parametrize(
    ("heard", "said"),
    [
        (Heard(text="Thank you.", no_speech_prob=0.9, avg_logprob=-1.2), ""),
        (Heard(text="Thank you.", no_speech_prob=0.9, avg_logprob=-0.2), "Thank you."),
        (Heard(text="Yes, yes, yes, yes.", compression_ratio=3.1), ""),
        (Heard(text=""), ""),
    ],
)
async def test_words_that_nobody_said_are_left_out(heard: Heard, said: str) -> None:
    async with OpenAITwin("groq") as twin, listening(twin) as stream:
        twin.add(heard)
        say(stream)
        (final,) = await finals(stream, 1)
    assert (final.text, bool(final.words)) == (said, bool(said))


def test_only_the_doubtful_segment_is_left_out() -> None:
    def segment(text: str, start: float, silent: float) -> dict[str, Any]:
        return {
            "text": f" {text}",
            "start": start,
            "end": start + 1,
            "no_speech_prob": silent,
            "avg_logprob": -2 * silent,
        }

    words = [{"word": text, "start": at, "end": at + 0.4} for at, text in enumerate(("Hello", "Bye"))]
    body = {"text": "Hello. Bye.", "segments": [segment("Hello.", 0, 0.1), segment("Bye.", 1, 0.9)], "words": words}
    heard = heard_of(body, Transcription(model="whisper-1"), 2.0)
    assert (heard.text, [(word.text, word.start) for word in heard.words]) == ("Hello.", [("Hello.", 2.0)])


@pytest.mark.parametrize("text", ["Ada, Grace.", "ada grace", "Grace"])
def test_a_model_that_reads_its_prompt_has_heard_nothing(text: str) -> None:
    asked = Transcription(model="m", prompt="Ada, Grace.")
    assert heard_of({"text": text}, asked, 0.0).text == ("" if text != "Grace" else "Grace")


def test_a_language_has_its_code() -> None:
    assert [language_of(name) for name in ("english", "German", "en", "klingon", "")] == [
        "en",
        "de",
        "en",
        "klingon",
        "",
    ]


@pytest.mark.parametrize("words", [[{"word": "Other", "start": 0, "end": 1}], [{"word": "Hello"}], "none", [3]])
def test_times_that_do_not_fit_the_text_are_not_told(words: object) -> None:
    assert heard_of({"text": "Hello", "words": words}, Transcription(model="whisper-1"), 0.0).words == ()


async def test_transcripts_come_in_the_order_of_the_speech_and_one_that_hangs_is_given_up() -> None:
    async with OpenAITwin("groq") as twin, listening(twin, options=openai.STTOptions(order_limit=0.2)) as stream:
        twin.add(Heard(hangs=True))
        say(stream)
        await twin.hangs()
        twin.hears("second")
        say(stream)
        assert [final.text for final in await finals(stream, 2)] == ["", "second"]


async def test_a_discarded_utterance_has_no_transcript_and_holds_up_none() -> None:
    async with OpenAITwin("groq") as twin, listening(twin, options=openai.STTOptions(order_limit=600)) as stream:
        twin.add(Heard(hangs=True))
        say(stream)
        await twin.hangs()
        stream.discard()
        await twin.client_is_gone()
        stream.speech_started(0.0)
        push(stream, sound(0.3))
        stream.discard()
        twin.hears("second")
        say(stream)
        assert [final.text for final in await finals(stream, 1)] == ["second"]
    assert len(twin.requests) == 2


async def test_long_speech_is_sent_in_parts_and_told_as_one() -> None:
    async with OpenAITwin("groq") as twin:
        endpoint = find_endpoint("groq", model="m", api_key="secret", base_url=twin.url)
        client = net_client("openai.STT", endpoint, openai.ConnectionOptions())
        asked = Transcription(model="m", has_segments=True, has_words=True)
        fail = Failures(provider="openai")
        stream = UploadStream(client, endpoint, asked, lambda _: fail, max_bytes=34_000, order_limit=3.0)
        twin.hears("one", "two", "three")
        say(stream, 2.5)
        (final,) = await finals(stream, 1)
        await stream.aclose()
        await client.aclose()
    assert final.text == "one two three"
    assert [round(word.start, 2) for word in final.words] == [0.0, 1.0, 2.0]
    assert [round(request.seconds, 2) for request in twin.requests] == [1.0, 1.0, 0.5]


async def test_an_utterance_that_is_too_large_is_lost_alone(caplog: pytest.LogCaptureFixture) -> None:
    async with OpenAITwin("groq") as twin, listening(twin) as stream:
        twin.add(refusal(413, "too large"), Heard(text="second"))
        say(stream)
        say(stream)
        with caplog.at_level(logging.WARNING):
            assert [final.text for final in await finals(stream, 2)] == ["", "second"]
    assert "too large for the server" in caplog.text


@pytest.mark.parametrize(
    ("answer", "retryable", "needed"),
    [
        (refusal(401, "no"), False, "GROQ_API_KEY"),
        (refusal(404, "no such model"), False, "'whisper-large-v3-turbo'"),
        (refusal(429, "slow down", retry_after="7"), True, "asks to wait 7 s"),
        (refusal(503), True, "503"),
        (Answer(body="<html>"), False, "JSON|object"),
        (Answer(body={"text": 3}), False, "text as text"),
        (Answer(steps=[b'{"te', BREAK]), True, "connection"),
    ],
)
async def test_a_request_that_fails_ends_the_stream(answer: Answer, retryable: bool, needed: str) -> None:
    async with OpenAITwin("groq") as twin, listening(twin) as stream:
        twin.add(answer)
        say(stream)
        with pytest.raises(ProviderError, match=needed) as caught:
            await finals(stream, 1)
    assert caught.value.retryable is retryable
    assert "secret" not in f"{caught.value!r} {caught.value.__context__}"


async def test_a_form_that_the_server_refuses_quotes_no_prompt() -> None:
    options = openai.STTOptions(prompt="the private dinner")
    async with OpenAITwin("groq") as twin, listening(twin, options=options) as stream:
        twin.add(refusal(400, "bad prompt: the private dinner"))
        say(stream)
        with pytest.raises(ProviderStatusError) as caught:
            await finals(stream, 1)
    assert "dinner" not in str(caught.value)


def test_what_a_server_hears_by_default() -> None:
    groq = openai.STT(server="groq", api_key="k")
    assert (groq.model, groq.capabilities.emits_words, groq.capabilities.takes_key_terms) == (
        "whisper-large-v3-turbo",
        True,
        True,
    )
    assert openai.STT(server="openai", api_key="k").capabilities.emits_interims
    assert not openai.STT(server="openai", model="gpt-4o-transcribe", api_key="k").capabilities.emits_interims
    assert not openai.STT(server="vllm", model="openai/whisper-large-v3").capabilities.emits_words
    times = openai.STTOptions(word_times=False)
    assert not openai.STT(server="groq", api_key="k", options=times).capabilities.emits_words


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="perplexity does not transcribe; those that do: openai, azure"):
        openai.STT(server="perplexity", api_key="k")
    with pytest.raises(ConfigurationError, match="word_times need verbose_json"):
        openai.STTOptions(word_times=True, verbose_json=False)
    with pytest.raises(ConfigurationError, match="speaches needs model"):
        openai.STT(server="speaches")
    with pytest.raises(ConfigurationError, match="need api None, 'realtime' or 'upload'"):
        openai.STT(api="file", api_key="k")  # type: ignore[arg-type]


async def test_a_failed_upload_is_no_end_of_its_component() -> None:
    async with OpenAITwin("groq") as twin, recogniser(twin) as stt:
        twin.add(refusal(503), Heard(text="again"))
        first = await stt.open()
        say(first)
        with pytest.raises(ProviderStatusError):
            await finals(first, 1)
        say(first)
        await first.aclose()
        second = await stt.open()
        say(second)
        assert [final.text for final in await finals(second, 1)] == ["again"]
        await second.aclose()
