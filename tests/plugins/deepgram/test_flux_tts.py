"""deepgram.FluxTTS against the twin: the port's promises, turns, cuts and what was heard by them, refusals."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

import anyio
import anyio.lowlevel
import pytest

from kit.limits import LIMIT
from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    ProviderConnectionError,
    ProviderError,
    ProviderStatusError,
)
from vivavoce.pipelines.testing import check_tts
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.plugins import deepgram
from vivavoce.plugins.deepgram.twin import DeepgramTwin

WORD = 0.26
COUNT = "One two three four five. Six seven eight nine ten."


def voice_of(twin: DeepgramTwin, voice: str = "flux-alexis-en", **options: object) -> deepgram.FluxTTS:
    chosen = deepgram.FluxTTSOptions(**options)  # type: ignore[arg-type]
    return deepgram.FluxTTS(voice, base_url=twin.url, api_key=twin.key, options=chosen)


async def spoken(tts: deepgram.FluxTTS, text: str) -> list[AudioChunk]:
    with anyio.fail_after(LIMIT):
        return [chunk async for chunk in tts.synthesize(text)]


def seconds(chunks: list[AudioChunk]) -> float:
    return sum(chunk.frame.duration for chunk in chunks)


async def test_it_keeps_the_promises_of_a_tts(twin: DeepgramTwin) -> None:
    await check_tts(lambda: voice_of(twin), limit=LIMIT)


async def test_answers_are_turns_of_one_connection(twin: DeepgramTwin) -> None:
    async with voice_of(twin) as tts:
        first, second = await spoken(tts, "Hello there."), await spoken(tts, "And again, please.")
    assert [seconds(first), seconds(second)] == [pytest.approx(2 * WORD), pytest.approx(3 * WORD)]
    [voice] = twin.voices
    assert [turn.text for turn in voice.turns] == ["Hello there.", "And again, please."]
    assert [told["type"] for told in voice.received] == ["Speak", "Flush"] * 2


async def test_text_is_spoken_as_it_comes(twin: DeepgramTwin) -> None:
    async def text() -> AsyncIterator[str]:
        yield "… "
        yield "Hello "
        await twin.until(lambda: any(turn.sent for voice in twin.voices for turn in voice.turns))
        yield "there."

    async with voice_of(twin) as tts:
        chunks = [chunk async for chunk in tts.stream(text())]
    assert seconds(chunks) >= 2 * WORD
    assert len(twin.voices[0].turns) == 1


async def test_a_long_text_is_sent_in_pieces(twin: DeepgramTwin) -> None:
    text = " ".join(["word"] * 900)
    async with voice_of(twin) as tts:
        await spoken(tts, text)
    [voice] = twin.voices
    assert [told["type"] for told in voice.received] == ["Speak"] * 3 + ["Flush"]
    assert voice.turns[0].text == text


async def test_the_request_has_the_settings(twin: DeepgramTwin) -> None:
    async with voice_of(twin, "flux-haley-en", speed=1.05, tags=("test",), opt_out=True) as tts:
        await spoken(tts, "Hello.")
    assert twin.handshakes == [
        (
            "/v2/speak",
            {
                "model": ["flux-haley-en"],
                "encoding": ["linear16"],
                "sample_rate": ["24000"],
                "speed": ["1.05"],
                "mip_opt_out": ["true"],
                "tag": ["test"],
            },
            f"Token {twin.key}",
        )
    ]


async def test_a_voice_that_is_warm_speaks_without_a_handshake(twin: DeepgramTwin) -> None:
    async with voice_of(twin) as tts:
        tts.warm()
        await twin.until(lambda: bool(twin.voices))
        await spoken(tts, "Hello.")
    assert len(twin.voices) == 1


# --- cuts


async def test_a_cut_turn_is_interrupted_where_it_was_played_and_the_service_tells_what_was_heard() -> None:
    async with DeepgramTwin(interval=0.02) as twin, voice_of(twin) as tts:
        await spoken(tts, "Before it.")
        async with aclosing(tts.stream(in_pieces(COUNT))) as chunks:
            first = await anext(chunks)
            while len(twin.voices[0].turns[1].sent) < 4:
                await anext(chunks)
            assert first.heard is not None
            heard = await first.heard(2.5 * WORD)
        assert heard == "One two"
        after = await spoken(tts, "All new.")
        [voice] = twin.voices
        interruption = next(told for told in voice.received if told["type"] == "Interrupt")
        assert interruption["playback_offset"] == {"type": "time_ms", "value": round(4.5 * WORD * 1000)}
        assert len(voice.turns[1].sent) < 10, "the vendor was spared the rest"
        assert seconds(after) == pytest.approx(2 * WORD), "nothing of the cut turn sounds in the next one"
        [last] = [chunk.heard for chunk in after if chunk.heard is not None]
        assert await last(1.5 * WORD) == "All", "times count from what was played of the cut turn"


async def rest_of(speech: AsyncIterator[AudioChunk]) -> list[AudioChunk]:
    return [chunk async for chunk in speech]


async def in_pieces(text: str) -> AsyncIterator[str]:
    for word in text.split():
        yield f"{word} "


async def test_what_was_heard_is_told_too_if_all_audio_had_come(twin: DeepgramTwin) -> None:
    async with voice_of(twin) as tts:
        [heard] = [chunk.heard for chunk in await spoken(tts, COUNT) if chunk.heard is not None]
        assert await heard(6.9 * WORD) == "One two three four five. Six"
        assert len(await spoken(tts, "And on.")) > 1
        assert await heard(1.0) is None, "another speech has begun on the connection"
    assert len(twin.voices) == 1


async def test_a_cut_that_nobody_asks_about_interrupts_the_turn(
    twin: DeepgramTwin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deepgram.flux_tts, "ASKED_WITHIN", 0.01)
    async with DeepgramTwin(interval=0.02) as slow, voice_of(slow) as tts:
        async with aclosing(tts.synthesize(COUNT)) as chunks:
            await anext(chunks)
        assert seconds(await spoken(tts, "All new.")) == pytest.approx(2 * WORD)
        await slow.until(lambda: any(told["type"] == "Interrupt" for told in slow.voices[0].received))


async def test_a_late_end_of_a_cut_turn_does_not_end_the_next_one() -> None:
    async with DeepgramTwin(interval=0.02) as twin, voice_of(twin) as tts:
        async with aclosing(tts.synthesize(COUNT)) as chunks:
            first = await anext(chunks)
            assert first.heard is not None
            await first.heard(0.5 * WORD)
        speech = tts.synthesize("All new.")
        chunks_after = [await anext(speech)]
        [voice] = twin.voices
        await voice.send({"type": "SpeechMetadata", "speech_id": voice.turns[0].speech_id})
        assert seconds(chunks_after + await rest_of(speech)) == pytest.approx(2 * WORD)
        speech = tts.synthesize("Two words.")
        await anext(speech)
        await voice.send({"type": "SpeechMetadata"})  # of a server without names
        assert await rest_of(speech)


async def test_a_cut_before_any_audio_leaves_nothing_in_the_next_speech() -> None:
    async with DeepgramTwin() as twin, voice_of(twin) as tts:
        tts.warm()
        await twin.until(lambda: bool(twin.voices))
        twin.voices[0].stall()
        with anyio.move_on_after(0.05):
            await anext(tts.synthesize(COUNT))
        assert seconds(await spoken(tts, "All new.")) == pytest.approx(2 * WORD)
        await twin.until(lambda: twin.voices[0].is_over)


async def test_a_connection_that_answers_no_interruption_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deepgram.speech, "HEARD_LIMIT", 0.05)
    async with DeepgramTwin() as twin, voice_of(twin) as tts:
        [heard] = [chunk.heard for chunk in await spoken(tts, COUNT) if chunk.heard is not None]
        twin.voices[0].stall()
        assert await heard(1.0) is None
        assert seconds(await spoken(tts, "All new.")) == pytest.approx(2 * WORD)
        assert len(twin.voices) == 2


# --- faults, bad input


async def test_a_connection_lost_in_mid_speech_fails_this_speech_and_not_the_next() -> None:
    async with DeepgramTwin(interval=0.02) as twin, voice_of(twin) as tts:
        speech = tts.synthesize(COUNT)
        await anext(speech)
        twin.voices[0].abort()
        with pytest.raises(ProviderConnectionError):
            await rest_of(speech)
        assert seconds(await spoken(tts, "Again.")) == pytest.approx(WORD)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ({"type": "Error", "code": "DATA-0002", "description": "bad control"}, "bad control"),
        ({"type": "Error", "code": "NET-0003", "description": "later"}, "NET-0003"),
    ],
)
async def test_an_error_of_the_service_fails_the_speech(message: dict[str, str], told: str) -> None:
    async with DeepgramTwin(interval=0.02) as twin, voice_of(twin) as tts:
        speech = tts.synthesize(COUNT)
        await anext(speech)
        await twin.voices[0].send(message)
        with pytest.raises(ProviderError, match=told) as caught:
            await rest_of(speech)
    assert caught.value.retryable is message["code"].startswith("NET")


async def test_a_voice_that_does_not_exist_is_named(twin: DeepgramTwin) -> None:
    async with voice_of(twin, "flux-nobody-en") as tts:
        with pytest.raises(ProviderStatusError) as caught:
            await spoken(tts, "Hello.")
    for text in ("'flux-nobody-en'", "flux-alexis-en", "check voice"):
        assert text in str(caught.value)
    assert (caught.value.status, caught.value.retryable) == (400, False)


@pytest.mark.parametrize(("status", "retryable"), [(401, False), (402, False), (429, True), (503, True)])
async def test_a_refusal_says_whether_to_try_again(twin: DeepgramTwin, status: int, retryable: bool) -> None:
    twin.refuse(status)
    async with voice_of(twin) as tts:
        with pytest.raises(ProviderStatusError) as caught:
            await spoken(tts, "Hello.")
    assert (caught.value.status, caught.value.retryable) == (status, retryable)


def test_a_voice_of_the_other_product_names_the_class_for_it() -> None:
    with pytest.raises(ConfigurationError, match=r"deepgram\.TTS"):
        deepgram.FluxTTS("aura-2-thalia-en", api_key="k")
    with pytest.raises(ConfigurationError, match=r"deepgram\.FluxTTS"):
        deepgram.TTS("flux-alexis-en", api_key="k")


@pytest.mark.parametrize("speed", [0.4, 1.6, 1.03])
def test_a_wrong_speed_is_an_error_at_once(speed: float) -> None:
    with pytest.raises(ConfigurationError):
        deepgram.FluxTTSOptions(speed=speed)


async def test_a_cut_in_the_middle_of_the_text_leaves_no_audio_for_the_next_answer(twin: DeepgramTwin) -> None:
    async def text() -> AsyncIterator[str]:
        yield COUNT
        await anyio.sleep_forever()

    async with voice_of(twin) as tts:
        with anyio.fail_after(LIMIT), anyio.CancelScope() as answer:  # the session cancels the scope of a reply
            async with aclosing(tts.stream(text())) as chunks:
                async for _ in chunks:
                    answer.cancel()
                    await anyio.lowlevel.checkpoint()
        assert answer.cancelled_caught
        assert seconds(await spoken(tts, "Next one.")) == pytest.approx(2 * WORD)
