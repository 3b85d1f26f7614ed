"""azure.TTS on the twin: turns on one connection, text as it comes, documents, cuts, failures."""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

import anyio
import pytest

from vivavoce.pipelines.core.errors import (
    CapabilityError,
    ConfigurationError,
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderStatusError,
    ProviderTimeoutError,
)
from vivavoce.pipelines.testing import check_tts, run_virtual
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.plugins import azure
from vivavoce.plugins.azure.twin import AzureTwin, TwinFault, TwinPace

Make = Callable[..., azure.TTS]

LIMIT = 60.0
LONG = " ".join(f"word{number}" for number in range(40)) + "."
DOCUMENTS = azure.TTSOptions(streams_text=False)


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


async def cut(chunks: AsyncGenerator[AudioChunk, None]) -> None:
    """Cut a speech at its first audio."""
    async with aclosing(chunks):
        async for chunk in chunks:
            if chunk.frame.data:
                break


def words(chunks: list[AudioChunk]) -> list[tuple[str, float, float]]:
    return [(word.text, word.start, word.end) for chunk in chunks for word in chunk.words]


def levels(chunks: list[AudioChunk]) -> set[int]:
    """Return the sizes of all samples: each turn of the twin has its own."""
    return {abs(sample) for chunk in chunks for (sample,) in struct.iter_unpack("<h", chunk.frame.data)}


async def error_of(chunks: AsyncIterator[AudioChunk]) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await heard(chunks)
    assert AzureTwin.key not in f"{caught.value!s} {caught.value!r}"
    return caught.value


# --- text and words


@pytest.mark.parametrize("options", [None, DOCUMENTS], ids=["text", "documents"])
async def test_it_keeps_the_promises_of_a_tts(twin: AzureTwin, options: azure.TTSOptions | None) -> None:
    await check_tts(lambda: azure.TTS(base_url=twin.tts_url, api_key=twin.key, options=options), limit=LIMIT)


async def test_text_goes_to_the_service_as_it_comes_and_words_have_its_spelling(twin: AzureTwin, make: Make) -> None:
    text = ("“Hel", "lo there”, he said. ", "Well-known? ", "Don't — stop")
    chunks = await heard(make().stream(pieces(*text)))
    sent = [frame.body for frame in twin.connection.messages("text.piece")]
    assert sent == list(text)
    assert len(twin.connection.messages("text.end")) == 1
    assert [word for word, _, _ in words(chunks)] == [
        "“Hello",
        "there”,",
        "he",
        "said.",
        "Well-",
        "known?",
        "Don't",
        "— stop",
    ]
    assert [start for _, start, _ in words(chunks)] == [number * 0.25 for number in range(8)]
    assert sum(chunk.frame.duration for chunk in chunks) == 2.0


async def test_a_document_has_the_text_escaped_and_the_settings(twin: AzureTwin, make: Make) -> None:
    options = azure.TTSOptions(
        rate=1.2,
        pitch="+5%",
        style="cheerful",
        style_degree=1.5,
        role="Girl",
        lexicon="https://example.com/a.xml?b=1&c=2",
        sample_rate=8000,
    )
    tts = make(voice="de-DE-KatjaNeural", language="de-AT", options=options)
    chunks = await heard(tts.synthesize('Tom & <Jerry>\x00 said "no".'))
    assert [word for word, _, _ in words(chunks)] == ["Tom", "& <Jerry>", "said", '"no".']
    assert {chunk.frame.sample_rate for chunk in chunks} == {8000} == {tts.capabilities.sample_rate}
    assert twin.turns[0].ssml == (
        '<speak version="1.0" xmlns="http://www.w3.org/2001/10/synthesis" xmlns:mstts="http://www.w3.org/2001/mstts"'
        ' xml:lang="de-AT"><voice name="de-DE-KatjaNeural"><lexicon uri="https://example.com/a.xml?b=1&amp;c=2"/>'
        '<lang xml:lang="de-AT"><mstts:express-as style="cheerful" styledegree="1.5" role="Girl">'
        '<prosody rate="1.2" pitch="+5%">Tom &amp; &lt;Jerry&gt; said "no".</prosody></mstts:express-as></lang>'
        "</voice></speak>"
    )


async def test_streamed_text_has_the_settings_too(twin: AzureTwin, make: Make) -> None:
    options = azure.TTSOptions(rate=0.9, volume="soft", style="calm")
    await heard(make(language="de-DE", options=options).stream(pieces("Hello. ")))
    assert twin.turns[0].input == {
        "bidirectionalStreamingMode": True,
        "voiceName": azure.DEFAULT_VOICE,
        "language": "de-DE",
        "rate": "0.9",
        "volume": "soft",
        "style": "calm",
    }


async def test_a_setting_that_only_documents_have_makes_a_voice_of_whole_sentences(make: Make) -> None:
    for options in (DOCUMENTS, azure.TTSOptions(lexicon="https://example.com/a.xml")):
        tts = make(options=options)
        assert not tts.capabilities.streams_text
        with pytest.raises(CapabilityError, match="streams_text"):
            tts.stream(pieces("Hello."))


async def test_a_container_takes_documents(twin: AzureTwin, make: Make) -> None:
    tts = make(base_url=twin.url)
    assert not tts.capabilities.streams_text
    assert words(await heard(tts.synthesize("Hello there."))) == [("Hello", 0.0, 0.25), ("there.", 0.25, 0.5)]
    assert twin.handshakes[0]["path"] == "/cognitiveservices/websocket/v1"


async def test_text_without_words_is_sent_with_the_first_words_or_not_at_all(twin: AzureTwin, make: Make) -> None:
    tts = make()
    assert await heard(tts.stream(pieces("… ", "\n\n", "!"))) == []
    assert await heard(tts.synthesize("…")) == []
    assert twin.turns == []
    await heard(tts.stream(pieces("...\n\n", "Well. ", "…")))
    assert [frame.body for frame in twin.connection.messages("text.piece")] == ["...\n\nWell. ", "…"]


async def test_a_turn_that_the_service_ends_while_the_text_pauses_is_followed_by_another(
    twin: AzureTwin, make: Make
) -> None:
    async def text() -> AsyncGenerator[str, None]:
        yield "Hello there. "
        await twin.until(lambda: twin.turns and len(twin.turns[0].spoken) == 2)
        twin.turns[0].stop()  # as if its time were over
        await twin.until(lambda: twin.turns[0].is_over)
        await anyio.sleep(0.05)  # its end arrives
        yield "And on."

    chunks = await heard(make().stream(text()))
    assert [turn.text for turn in twin.turns] == ["Hello there. ", "And on."]
    assert words(chunks)[2:] == [("And", 0.5, 0.75), ("on.", 0.75, 1.0)]
    assert len(twin.connections) == 1


async def test_an_error_of_the_source_of_the_text_is_raised_behind_the_speech_before_it(
    twin: AzureTwin, make: Make
) -> None:
    async def text() -> AsyncGenerator[str, None]:
        yield "Hello there. How"
        raise LookupError("no more")

    chunks: list[AudioChunk] = []
    with pytest.raises(LookupError, match="no more"):
        await hear(make().stream(text()), chunks)
    assert [word for word, _, _ in words(chunks)] == ["Hello", "there.", "How"]
    await twin.until(lambda: not twin.live)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"voice": " "}, "need voice as a name such as 'en-US-AvaMultilingualNeural'"),
        ({"language": "German"}, "locale such as 'de-DE', got 'German'"),
        ({"base_url": "azure"}, "base_url must be a URL"),
    ],
)
def test_a_wrong_argument_is_refused_at_once(arguments: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        azure.TTS(**{"base_url": "http://127.0.0.1:9", **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"rate": 0.2}, "rate >= 0.5"),
        ({"rate": 3}, "rate <= 2, got 3"),
        ({"style": ""}, "style must be None or a text"),
        ({"role": "Girl"}, "need a style, got none"),
        ({"lexicon": "words.xml"}, "must be a URL"),
        ({"sample_rate": 12_000}, "one of .*16000.* Hz, got 12000"),
    ],
)
def test_a_wrong_option_is_refused(arguments: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        azure.TTSOptions(**arguments)  # type: ignore[arg-type]


# --- one connection


async def test_the_first_speech_needs_no_handshake_on_a_warm_voice(twin: AzureTwin, make: Make) -> None:
    tts = make()
    tts.warm()
    tts.warm()
    await twin.until(lambda: twin.connections)
    await heard(tts.synthesize("One."))
    await heard(tts.stream(pieces("Two.")))
    assert len(twin.handshakes) == 1
    assert len(twin.turns) == 2


async def test_speeches_at_once_have_connections_of_their_own(twin: AzureTwin, make: Make) -> None:
    tts, spoken = make(), list[list[AudioChunk]]()

    async def speak(text: str) -> None:
        spoken.append(await heard(tts.stream(pieces(text))))

    async with anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(speak, f"Number {number}. " + LONG)
    assert [len(levels(chunks)) for chunks in spoken] == [1] * 4
    assert len({tuple(levels(chunks)) for chunks in spoken}) == 4
    await heard(tts.synthesize("One more."))
    assert len(twin.connections) == 4


async def test_a_cut_stops_at_the_vendor_and_the_connection_goes_on_without_audio_of_the_dead_turn(
    twin: AzureTwin, make: Make
) -> None:
    twin.pace = TwinPace(first_byte=0.0, interval=0.001)
    tts = make()
    await cut(tts.stream(pieces(LONG + " And more. ", LONG)))
    dead = twin.turns[0]
    await twin.until(lambda: dead.is_over)
    assert dead.is_stopped
    assert [frame.body for frame in twin.connection.messages("synthesis.control")] == ['{"action": "stop"}']
    await anyio.sleep(0.05)  # its end arrives
    after = await heard(tts.stream(pieces("After the cut. ", LONG)))
    assert levels(after) == {twin.turns[1].level}
    assert [word for word, _, _ in words(after)] == f"After the cut. {LONG}".split()
    assert "And" not in dead.spoken
    assert len(twin.connections) == 1


async def test_a_cancelled_speech_gives_its_connection_back(twin: AzureTwin, make: Make) -> None:
    twin.pace = TwinPace(first_byte=0.0, interval=0.001)
    tts = make()

    async def endless() -> AsyncGenerator[str, None]:
        yield LONG + " "
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.02)

    with anyio.CancelScope() as scope:
        async with aclosing(tts.stream(endless())) as chunks:
            async for chunk in chunks:
                if chunk.frame.data:
                    scope.cancel()
    await twin.until(lambda: not twin.live)
    await anyio.sleep(0.05)  # its end arrives
    await heard(tts.synthesize("Next."))
    assert len(twin.connections) == 1


async def test_the_next_speech_does_not_wait_for_the_end_of_a_dead_turn(twin: AzureTwin, make: Make) -> None:
    twin.faults.append(TwinFault(kind="stall", after=1))
    tts = make()
    await cut(tts.stream(pieces(LONG)))
    after = await heard(tts.stream(pieces("After the cut.")))
    assert levels(after) == {twin.turns[1].level}
    await twin.until(lambda: twin.connections[0].is_over)  # a turn that does not end is ended with its connection


def test_a_connection_that_does_not_stop_is_replaced_before_the_next_speech() -> None:
    async def main() -> None:
        pace = TwinPace(interval=0.0)
        async with AzureTwin(pace=pace) as twin, azure.TTS(base_url=twin.tts_url, api_key=twin.key) as tts:
            twin.faults.append(TwinFault(kind="stall", after=1))
            await cut(tts.stream(pieces(LONG)))
            await anyio.sleep(2)
            assert twin.connections[0].is_over
            assert len(twin.connections) == 2, "ready before it is needed"
            await heard(tts.synthesize("Next."))
            assert len(twin.connections) == 2

    run_virtual(main())


async def test_a_connection_that_the_service_closes_at_a_stop_is_replaced_before_the_next_speech(
    twin: AzureTwin, make: Make
) -> None:
    twin.faults.append(TwinFault(kind="stall", after=1))
    await cut(make().stream(pieces(LONG)))
    await twin.until(lambda: twin.connection.messages("synthesis.control"))
    await twin.connection.close(1007, "synthesis.control is not known here")
    await twin.until(lambda: len(twin.connections) == 2)


async def test_a_cut_while_the_text_still_comes_leaves_the_text_to_its_owner(twin: AzureTwin, make: Make) -> None:
    class Endless(AsyncIterator[str]):
        reads = 0

        async def __anext__(self) -> str:
            self.reads += 1
            if self.reads > 1:
                await anyio.sleep_forever()
            return "Hello there. "

    text = Endless()
    await cut(make().stream(text))
    assert text.reads == 2
    await twin.until(lambda: not twin.live)


async def test_a_connection_that_the_server_closed_meanwhile_is_replaced(twin: AzureTwin, make: Make) -> None:
    tts = make()
    await heard(tts.synthesize("One."))
    await twin.connections[0].close(1000, "idle")
    await twin.until(lambda: twin.connections[0].is_over)
    assert levels(await heard(tts.synthesize("Two."))) == {twin.turns[1].level}
    assert len(twin.connections) == 2


async def test_a_closed_voice_ends_its_speech_and_refuses_more(twin: AzureTwin, make: Make) -> None:
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


# --- refusals and failures


@pytest.mark.parametrize("options", [None, DOCUMENTS], ids=["text", "documents"])
async def test_a_voice_that_does_not_exist_is_named_with_what_there_is(
    make: Make, options: azure.TTSOptions | None
) -> None:
    error = await error_of(make(voice="en-US-NobodyNeural", options=options).synthesize("Hello there."))
    assert isinstance(error, ProviderStatusError)
    assert (error.status, error.retryable) == (400, False)
    for told in ("Unsupported voice en-US-NobodyNeural", "asked for voice 'en-US-NobodyNeural'", "language-support"):
        assert told in str(error)
    assert "Hello" not in str(error)


async def test_a_text_that_the_vendor_refuses_is_not_quoted(twin: AzureTwin, make: Make) -> None:
    reason = f"Ssml is refused: {' '.join(LONG.split()[:6])}"
    twin.faults.append(TwinFault(kind="close", code=1007, reason=reason))
    error = await error_of(make().synthesize(LONG))
    assert "withheld, since it quotes the conversation" in str(error)
    assert "word3" not in str(error)
    assert not error.retryable


async def test_a_used_up_quota_may_be_tried_again(twin: AzureTwin, make: Make) -> None:
    twin.faults.append(TwinFault(kind="close", code=1007, reason="Quota exceeded. Cid:"))
    error = await error_of(make().synthesize(LONG))
    assert isinstance(error, ProviderStatusError)
    assert (error.status, error.retryable) == (429, True)


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
    twin: AzureTwin, make: Make, fault: TwinFault, kind: type[ProviderError]
) -> None:
    twin.faults.append(fault)
    tts, spoken = make(), list[AudioChunk]()
    with pytest.raises(kind) as caught:
        await hear(tts.synthesize(LONG), spoken)
    assert [word for word, _, _ in words(spoken)] == ["word0", "word1"]
    assert "word3" not in str(caught.value)
    assert words(await heard(tts.synthesize("Again."))) == [("Again.", 0.0, 0.25)]
    assert len(twin.connections) == 2


async def test_a_message_of_an_unknown_kind_is_passed_over(twin: AzureTwin, make: Make) -> None:
    twin.faults.append(TwinFault(kind="unknown", after=1))
    assert len(words(await heard(make().synthesize("One two three.")))) == 3


def test_a_server_that_falls_silent_is_given_up_and_a_text_that_pauses_is_not() -> None:
    async def main() -> None:
        async def text() -> AsyncGenerator[str, None]:
            yield "Hello there. "
            await anyio.sleep(300)
            yield "And on."

        async with AzureTwin() as twin, azure.TTS(base_url=twin.tts_url, api_key=twin.key) as tts:
            assert len(words(await heard(tts.stream(text()), limit=400))) == 4
            twin.faults.append(TwinFault(kind="stall", after=1))
            before = anyio.current_time()
            with pytest.raises(ProviderTimeoutError, match="nothing for 60.0 s"):
                await heard(tts.synthesize("One two three."), limit=400)
            assert anyio.current_time() - before < 61

    run_virtual(main())
