"""Lost connections and minutes without audio: no word is lost or comes twice, and the times go on."""

from __future__ import annotations

import anyio
import pytest

from kit.listening_streams import finals, push
from kit.servers.faulty_server import faulty_server
from vivavoce.pipelines.core.errors import ProviderStatusError, ProviderTimeoutError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions
from vivavoce.pipelines.stt.base import STTFinal
from vivavoce.pipelines.testing import run_virtual
from vivavoce.plugins import assemblyai
from vivavoce.plugins.assemblyai.twin import AssemblyAITwin

RATE = 16_000
AT_ONCE = assemblyai.STTOptions(reopening=ReopeningOptions(waits=(0.0, 0.0, 0.0)))
MODELS = ["universal-3-6-pro", "universal-streaming-english"]


def silence(seconds: float) -> AudioFrame:
    return AudioFrame.silence(seconds, RATE)


@pytest.mark.parametrize("model", MODELS)
async def test_a_connection_lost_in_mid_turn_hears_the_turn_again_and_the_times_go_on(
    twin: AssemblyAITwin, model: str
) -> None:
    async with assemblyai.STT(model, base_url=twin.url, api_key=twin.key, options=AT_ONCE) as stt:
        stream = await stt.open()
        push(stream, twin.speech("Hello."), silence(1.5))
        assert (await finals(stream, 1))[0].text == "Hello."
        push(stream, twin.speech("one two three four"), silence(0.06))
        await twin.until(lambda: "four" in str(twin.connection.sent[-1:]))
        twin.connection.abort()
        await twin.connected(2)
        push(stream, twin.speech("five."), silence(1.5))
        [final] = await finals(stream, 1)
        await stream.aclose()
    assert final.text.casefold() == "one two three four five."
    assert final.words[0].start == pytest.approx(1.76, abs=0.03)
    assert final.words[-1].end == pytest.approx(3.12, abs=0.05)


async def test_silence_between_turns_is_not_kept_for_the_next_connection(twin: AssemblyAITwin) -> None:
    async with assemblyai.STT(base_url=twin.url, api_key=twin.key, options=AT_ONCE) as stt:
        stream = await stt.open()
        push(stream, silence(20.0), twin.speech("one two three four"), silence(0.2))
        await twin.until(lambda: "four" in str(twin.connection.sent[-1:]))
        twin.connection.abort()
        await twin.connected(2)
        push(stream, twin.speech("five."), silence(1.0))
        [final] = await finals(stream, 1)
        await stream.aclose()
    assert twin.connection.audio_bytes < RATE * 6 * 2
    assert final.text == "one two three four five."
    assert final.words[0].start == pytest.approx(20.0, abs=0.03)


async def test_a_session_that_is_refused_while_it_is_opened_again_is_tried_again_or_given_up(
    twin: AssemblyAITwin,
) -> None:
    async with assemblyai.STT(base_url=twin.url, api_key=twin.key, options=AT_ONCE) as stt:
        stream = await stt.open()
        push(stream, twin.speech("one two"))
        await twin.until(lambda: twin.connection.audio_bytes > 0)
        twin.refuse((3009, "Unauthorized Connection: Too many concurrent sessions"))
        twin.connection.abort()
        await twin.connected(3)
        push(stream, twin.speech("three."), silence(1.0))
        assert (await finals(stream, 1))[0].text == "one two three."
        twin.refuse((1008, "Unauthorized Connection: Invalid API key"))
        twin.connection.abort()
        with pytest.raises(ProviderStatusError, match="Invalid API key"):
            async for _ in stream.events():
                pass
        await stream.aclose()


async def test_a_session_that_does_not_begin_is_given_up_in_time_and_ended() -> None:
    options = assemblyai.STTOptions(connection=ConnectionOptions(connect_timeout=0.3))
    async with faulty_server() as server, assemblyai.STT(base_url=server.url, api_key="k", options=options) as stt:
        with pytest.raises(ProviderTimeoutError) as caught:
            await stt.open()
        await server.peer().ended()
    assert caught.value.retryable
    assert server.peer().received == ['{"type": "Terminate"}']


def test_a_session_without_audio_is_kept_and_later_words_have_the_streams_times() -> None:
    async def main() -> tuple[list[STTFinal], int, float]:
        async with AssemblyAITwin() as twin:
            async with assemblyai.STT(base_url=twin.url, api_key=twin.key) as stt:
                stream = await stt.open()
                push(stream, twin.speech("Hello."), silence(1.0))
                heard = await finals(stream, 1)
                await anyio.sleep(600.0)
                push(stream, twin.speech("Again."), silence(1.0))
                heard += await finals(stream, 1)
                await stream.aclose()
            return heard, len(twin.connections), heard[1].words[0].start

    (first, second), connections, start = run_virtual(main())
    assert (first.text, second.text, connections) == ("Hello.", "Again.", 1)
    assert start == pytest.approx(1.26, abs=0.03)
