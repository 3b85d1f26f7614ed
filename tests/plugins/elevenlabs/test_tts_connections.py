"""elevenlabs.TTS on the twin: contexts on one connection, cuts, failures."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace

import anyio.lowlevel
import pytest

from kit.voiced import LONG, at_quarters, cut_off, error_of, hear, heard, levels, pieces, words
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
from vivavoce.plugins import elevenlabs
from vivavoce.plugins.elevenlabs import connection
from vivavoce.plugins.elevenlabs.twin import ElevenLabsTwin, TwinFault, TwinPace

Make = Callable[..., elevenlabs.TTS]

KEY = ElevenLabsTwin.key
PACE = TwinPace(first_byte=0.0, interval=0.0)


# --- one connection


async def test_the_first_speech_needs_no_handshake_on_a_warm_voice(twin: ElevenLabsTwin, make: Make) -> None:
    tts = make()
    tts.warm()
    tts.warm()
    await twin.until(lambda: twin.connections)
    await heard(tts.synthesize("One."))
    await heard(tts.stream(pieces("Two.")))
    assert len(twin.handshakes) == 1
    assert len(twin.contexts) == 2


async def test_five_speeches_at_once_share_a_connection_and_do_not_mix(twin: ElevenLabsTwin, make: Make) -> None:
    tts, spoken = make(), list[list[AudioChunk]]()

    async def speak(text: str) -> None:
        spoken.append(await heard(tts.stream(pieces(text))))

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(speak, f"Number {number}. " + LONG)
    assert len(twin.connections) == 2
    assert [len(levels(chunks)) for chunks in spoken] == [1] * 8
    assert len({tuple(levels(chunks)) for chunks in spoken}) == 8


async def test_a_cut_closes_the_context_keeps_the_connection_and_leaves_nothing_in_the_next_speech(
    twin: ElevenLabsTwin, make: Make
) -> None:
    twin.pace = replace(PACE, interval=0.001)
    tts = make()
    await cut_off(tts)
    after = await heard(tts.stream(pieces("After the cut. ", LONG)))
    cut, next_one = twin.contexts
    assert twin.received.count({"context_id": cut.id, "close_context": True}) == 1
    assert levels(after) == {next_one.level}
    assert [word for word, _, _ in words(after)] == f"After the cut. {LONG}".split()
    await twin.until(lambda: not twin.live)
    assert len(cut.spoken) > 1, "its late audio came, and was dropped"
    assert len(twin.connections) == 1


async def test_a_context_that_was_cut_keeps_its_place_until_the_server_has_ended_it(
    twin: ElevenLabsTwin, make: Make
) -> None:
    twin.pace = replace(PACE, interval=0.01)
    tts = make()
    for _ in range(7):  # five places: a sixth context would end the connection
        await cut_off(tts)
    assert words(await heard(tts.synthesize("All is well."))) == at_quarters("All is well.")
    assert all(sent.get("error") is None for one in twin.connections for sent in one.sent)
    assert len(twin.connections) == 2
    await twin.until(lambda: not twin.live)
    await cut_off(tts)
    assert len(twin.connections) == 2, "the places are free again"


def test_a_server_that_does_not_end_a_cut_context_gets_no_further_speech_on_that_connection() -> None:
    async def main() -> None:
        async with ElevenLabsTwin() as twin, elevenlabs.TTS(base_url=twin.url, api_key=twin.key) as tts:
            twin.faults.append(TwinFault(kind="silent", after=0))
            await cut_off(tts)
            await anyio.sleep(connection.END_LIMIT + 1)
            await heard(tts.synthesize("Again."))
            assert len(twin.connections) == 2
            await twin.until(lambda: twin.connections[0].is_over)

    run_virtual(main())


async def test_a_cut_while_the_text_still_comes_leaves_the_text_to_its_owner(twin: ElevenLabsTwin, make: Make) -> None:
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


async def test_a_connection_that_the_server_closed_meanwhile_is_replaced(twin: ElevenLabsTwin, make: Make) -> None:
    tts = make()
    await heard(tts.synthesize("One."))
    await twin.connections[0].close(1000, "inactivity")
    for _ in range(50):
        await anyio.lowlevel.checkpoint()  # the steps in which the voice learns it
    assert levels(await heard(tts.synthesize("Two."))) == {twin.contexts[1].level}
    assert len(twin.connections) == 2


def test_an_idle_connection_is_closed_before_the_server_does_it() -> None:
    async def main() -> None:
        async with ElevenLabsTwin() as twin, elevenlabs.TTS(base_url=twin.url, api_key=twin.key) as tts:
            await heard(tts.synthesize("One."))
            await anyio.sleep(160)
            await heard(tts.synthesize("Two."))
            assert len(twin.connections) == 1
            await anyio.sleep(169)
            assert not twin.connections[0].is_over
            await anyio.sleep(2)
            assert twin.connections[0].is_over

    run_virtual(main())


async def test_a_closed_voice_ends_its_speech_and_refuses_more(twin: ElevenLabsTwin, make: Make) -> None:
    twin.faults.append(TwinFault(kind="stall", after=1))
    tts = make()
    async with aclosing(tts.synthesize(LONG)) as chunks:
        while not (await anext(chunks)).frame.data:
            pass
        await tts.aclose()
        error = await error_of(KEY, chunks)
    assert "the voice was closed" in str(error)
    assert not error.retryable
    with pytest.raises(ConfigurationError, match="closed; make another one"):
        await heard(tts.synthesize("More."))
    with pytest.raises(ConfigurationError, match="closed; make another one"):
        tts.warm()


# --- refusals and failures


async def test_a_voice_that_does_not_exist_is_named_with_where_to_find_others(make: Make) -> None:
    error = await error_of(KEY, make(voice="nobody").synthesize("Hello there."))
    assert isinstance(error, ProviderStatusError)
    assert (error.status, error.retryable) == (404, False)
    for told in (
        "voice_id_does_not_exist",
        "the voice 'nobody'",
        "voice-library",
        "languages of eleven_flash_v2_5: en",
    ):
        assert told in str(error)
    assert "Hello" not in str(error)


async def test_a_model_that_does_not_exist_is_named_with_what_there_is(make: Make) -> None:
    error = await error_of(KEY, make(model="eleven_v99").stream(pieces("Hello there.")))
    for told in ("status 400", "unsupported_model", "the model 'eleven_v99'", "models: eleven_flash_v2_5, "):
        assert told in str(error)
    assert not error.retryable


async def test_a_text_that_the_vendor_refuses_is_not_quoted(twin: ElevenLabsTwin, make: Make) -> None:
    told = f"cannot speak {LONG!r} with {twin.key}"
    twin.faults.append(TwinFault(kind="error", error="invalid_text", message=told))
    error = await error_of(KEY, make().synthesize(LONG))
    assert "invalid_text" in str(error)
    assert "withheld, since it quotes the conversation" in str(error)
    assert "word3" not in str(error)
    assert not error.retryable


async def test_a_key_of_another_product_is_told(make: Make) -> None:
    key = "gsk_of_another_vendor"
    error = await error_of(KEY, make(api_key=key).synthesize("Hello."))
    assert isinstance(error, ProviderStatusError)
    assert (error.status, error.retryable) == (401, False)
    assert "must be one of ElevenLabs (ELEVENLABS_API_KEY" in str(error)
    assert key not in str(error)


async def test_an_error_of_one_context_leaves_the_others_alone(twin: ElevenLabsTwin, make: Make) -> None:
    twin.faults += [None, TwinFault(kind="error", after=2, code=0)]
    tts = make()
    async with aclosing(tts.synthesize(LONG)) as chunks:
        first = [await anext(chunks)]
        error = await error_of(KEY, tts.synthesize(LONG))
        first += await heard(chunks)
    assert error.retryable
    assert [word for word, _, _ in words(first)] == LONG.split()
    assert len(twin.connections) == 1


@pytest.mark.parametrize(
    ("fault", "kind", "retryable"),
    [
        (TwinFault(kind="cut", after=2), ProviderConnectionError, True),
        (TwinFault(kind="close", after=2, code=1011), ProviderConnectionError, True),
        (TwinFault(kind="close", after=2, reason="policy"), ProviderStatusError, False),
        (TwinFault(kind="error", after=2, error="max_active_conversations"), ProviderStatusError, True),
        (TwinFault(kind="error", after=2, error="quota_exceeded"), ProviderStatusError, False),
        (TwinFault(kind="garbage", after=2), ProviderProtocolError, False),
    ],
    ids=lambda value: f"{value.kind} {value.error}" if isinstance(value, TwinFault) else "",
)
async def test_a_broken_connection_fails_its_speech_and_not_the_next_one(
    twin: ElevenLabsTwin, make: Make, fault: TwinFault, kind: type[ProviderError], retryable: bool
) -> None:
    twin.faults.append(fault)
    tts, spoken = make(), list[AudioChunk]()
    with pytest.raises(kind) as caught:
        await hear(tts.synthesize(LONG), spoken)
    assert caught.value.retryable is retryable
    assert [word for word, _, _ in words(spoken)] == ["word0", "word1"]
    assert "word3" not in str(caught.value)
    assert words(await heard(tts.synthesize("Again."))) == [("Again.", 0.0, 0.25)]
    assert len(twin.connections) == 2


async def test_a_message_of_an_unknown_kind_is_passed_over(twin: ElevenLabsTwin, make: Make) -> None:
    twin.faults.append(TwinFault(kind="unknown", after=1))
    assert len(words(await heard(make().synthesize("One two three.")))) == 3


def test_a_server_that_falls_silent_is_given_up_and_a_text_that_pauses_is_not() -> None:
    async def main() -> None:
        async def text() -> AsyncGenerator[str, None]:
            yield "Hello there. "
            await anyio.sleep(120)
            yield "And on."

        async with ElevenLabsTwin() as twin, elevenlabs.TTS(base_url=twin.url, api_key=twin.key) as tts:
            assert len(words(await heard(tts.stream(text()), limit=400))) == 4
            twin.faults.append(TwinFault(kind="stall", after=1))
            before = anyio.current_time()
            with pytest.raises(ProviderTimeoutError, match="nothing for 60.0 s"):
                await heard(tts.synthesize("One two three."), limit=400)
            assert anyio.current_time() - before < 61
            await twin.until(lambda: {"context_id": twin.contexts[-1].id, "close_context": True} in twin.received)

    run_virtual(main())
