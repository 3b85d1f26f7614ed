"""The law of azure.STT: whenever connections are lost and utterances flushed, each word comes once, in its order."""

from __future__ import annotations

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.listening_streams import push
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions
from vivavoce.pipelines.stt.base import STTFinal
from vivavoce.pipelines.testing import run_virtual
from vivavoce.plugins import azure
from vivavoce.plugins.azure.twin import AzureTwin

RATE = 16_000
WORDS = 3
"""Of each utterance."""

ABORTS = ReopeningOptions(waits=(0.0,) * 50)

steps = st.lists(
    st.tuples(
        st.sampled_from(["word", "flush", "silence", "lost", "closed"]),
        st.sampled_from([0.0, 0.0, 0.01, 0.1, 0.7]),  # seconds of the clock behind it
    ),
    min_size=1,
    max_size=14,
)


async def spoken(script: list[tuple[str, float]]) -> tuple[list[str], list[STTFinal]]:
    """Return the words that were said, and the finals."""
    said: list[str] = []
    heard: list[STTFinal] = []
    async with (
        AzureTwin() as twin,
        azure.STT(base_url=twin.stt_url, api_key=twin.key, options=azure.STTOptions(reopening=ABORTS)) as stt,
    ):
        stream = await stt.open()

        async def listen() -> None:
            async for event in stream.events():
                if isinstance(event, STTFinal):
                    heard.append(event)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            for kind, pause in script:
                if kind == "word":
                    said.append(f"w{len(said)}")
                    push(stream, twin.speech(said[-1]))
                elif kind == "silence":
                    push(stream, AudioFrame.silence(0.6, RATE))
                elif kind == "flush":
                    stream.flush()
                elif twin.connections and kind == "lost":
                    twin.connection.abort()
                elif twin.connections and not twin.connection.is_over:
                    await twin.connection.close(1011, "restart")
                await anyio.sleep(pause)
            stream.flush()
            await anyio.sleep(20)
            await stream.aclose()
    return said, heard


@settings(max_examples=10)
@given(steps)
def test_each_word_comes_once_in_its_order_and_at_its_time(script: list[tuple[str, float]]) -> None:
    said, heard = run_virtual(spoken(script))
    words = [word for final in heard for word in final.words]
    assert [word.text for word in words] == said
    starts, position = [], 0.0
    for kind, _ in script:
        if kind == "word":
            starts.append(position)
        position += {"word": 0.26, "silence": 0.6}.get(kind, 0.0)
    assert all(abs(word.start - start) < 0.05 for word, start in zip(words, starts, strict=True))
