"""Vivavoce's realtime adapter for the runtime-overhead benchmark: the session around a model that hears and speaks.

The model is simulated: an answer's first audio comes `llm` + `tts` seconds after it is asked for, as the cascade's
does, then one word per chunk. The caller's words come from the simulated recogniser, as they do in the cascade, so that
the two adapters' numbers differ by the pipeline only. Run by hand as `adapter.py` is, with this file in its place.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from importlib.metadata import version

import anyio
import harness as h  # type: ignore[import-not-found]  # stands in the benchmark's folder, on its PYTHONPATH
from adapter import (  # type: ignore[import-not-found]  # beside this file
    CLOCK,
    BenchSession,
    DelaySTT,
    GateVAD,
    ProbeSink,
    WordTTS,
    options,
)

from vivavoce.agents import Agent, AgentSession
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines import RealtimePipeline
from vivavoce.pipelines.llm.base import Done, GenerateRequest, LLMEvent, TextDelta
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.realtime_model.base import (
    RealtimeCapabilities,
    RealtimeConnection,
    RealtimeEvent,
    RealtimeModel,
    RealtimeSetup,
)
from vivavoce.pipelines.tts.base import AudioChunk


class DelayConnection(RealtimeConnection):
    def __init__(self, delays: h.Delays) -> None:
        self._delays = delays
        self._closed = anyio.Event()
        self._answers = 0

    def push(self, frame: AudioFrame) -> None:
        pass

    async def events(self) -> AsyncIterator[RealtimeEvent]:
        await self._closed.wait()
        return
        yield  # which makes it a generator

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        self._answers += 1
        item_id, voice = f"item_{self._answers}", h.Voice(self._delays)
        async for token in h.llm_tokens(self._delays):
            yield TextDelta(token, item_id)
            async for pcm in voice.speak(token):
                yield AudioChunk(AudioFrame(pcm, h.OUT_RATE), item_id=item_id)
        yield Done()

    async def aclose(self) -> None:
        self._closed.set()


class DelayModel(RealtimeModel):
    provider = "bench"

    def __init__(self, delays: h.Delays) -> None:
        self._delays = delays

    @property
    def capabilities(self) -> RealtimeCapabilities:
        return RealtimeCapabilities(input_rate=h.IN_RATE, output_rate=h.OUT_RATE)

    async def open(self, setup: RealtimeSetup) -> RealtimeConnection:
        return DelayConnection(self._delays)


async def open_session(delays: h.Delays, probe: h.Probe) -> BenchSession:
    model, stt, tts = DelayModel(delays), DelaySTT(delays.stt), WordTTS(delays)
    pipeline = RealtimePipeline(model, stt=stt, tts=tts, vad=GateVAD())
    session = AgentSession[None](Agent("Help."), pipeline, options=options())
    transport = LocalTransport(CLOCK, sink=ProbeSink(probe), input_rate=h.IN_RATE, is_recording=False)
    await session.start(transport)
    return BenchSession(session, transport)


if __name__ == "__main__":
    h.main(open_session, {"peer": "vivavoce-realtime", "version": version("vivavoce")})
