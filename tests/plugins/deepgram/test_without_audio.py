"""Minutes without audio, in virtual time: the connections live on, and the times of later words are right."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from kit.listening_streams import finals, push
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.base import STT, STTFinal
from vivavoce.pipelines.testing import run_virtual
from vivavoce.plugins import deepgram
from vivavoce.plugins.deepgram.twin import DeepgramTwin

Make = Callable[[DeepgramTwin], STT]

MAKERS: dict[str, Make] = {
    "Nova": lambda twin: deepgram.STT(base_url=twin.url, api_key=twin.key),
    "Flux": lambda twin: deepgram.FluxSTT(base_url=twin.url, api_key=twin.key),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_connection_without_audio_is_kept_and_later_words_have_the_streams_times(make: Make) -> None:
    silence = AudioFrame.silence(1.0, 16_000)

    async def main() -> tuple[list[STTFinal], int]:
        async with DeepgramTwin() as twin, make(twin) as stt:
            stream = await stt.open()
            push(stream, twin.speech("Hello."), silence)
            heard = await finals(stream, 1)
            await anyio.sleep(120.0)
            push(stream, twin.speech("again"), silence)
            heard += await finals(stream, 1)
            await stream.aclose()
            return heard, len(twin.connections)

    (first, second), connections = run_virtual(main())
    assert (first.text, second.text, connections) == ("Hello.", "again", 1)
    assert first.words[0].start == 0
    assert second.words[0].start == pytest.approx(1.26, abs=0.1)
