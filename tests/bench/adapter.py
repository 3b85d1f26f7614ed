"""Vivavoce's adapter for the runtime-overhead benchmark (its harness is a project of its own).

The product's own session, cascading pipeline, playout and room-less transport around the harness's simulated providers.

Run by hand: `python run.py --peers null vivavoce` from the benchmark's folder. With BENCH_DEFAULTS=1 the session keeps
its default waits instead of the lowest that it accepts; with BENCH_STORE, the URL of a Redis or the path of a SQLite
file, it has a memory there (`memory_cost.py` measures both ways); with BENCH_GRAPH=1 `PatternIntents` judges each turn
in a conversation graph (`intents_cost.py`); with BENCH_KNOWLEDGE, the path of a knowledge base, each turn is searched
for there, and with BENCH_WORDS the caller says the lines of that file, one a turn (`knowledge_cost.py`). The
measurement M3 has a server process: it freezes its heap after a call, as the process of a worker does after its
prewarm.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from functools import cache
from importlib.metadata import version
from itertools import cycle
from pathlib import Path

import anyio
import harness as h  # type: ignore[import-not-found]  # stands in the benchmark's folder, on its PYTHONPATH

from vivavoce.agents import Agent, AgentSession, EndpointingOptions, InterruptionOptions, MemoryOptions, SessionOptions
from vivavoce.agents.graphs import GraphOptions, PatternIntents, StateGraph
from vivavoce.agents.knowledge import KnowledgeBase, KnowledgeOptions
from vivavoce.agents.memory import RedisStore, SqliteStore
from vivavoce.agents.memory.stores.store import SessionStore
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.agents.transports.pacing import PacedQueue
from vivavoce.agents.worker.heap import freeze_heap
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.io import AudioSink, SinkCapabilities
from vivavoce.pipelines.llm.base import LLM, Done, GenerateRequest, LLMEvent, TextDelta
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.base import STT, STTEvent, STTFinal, STTStream
from vivavoce.pipelines.tts.base import TTS, AudioChunk, TTSCapabilities
from vivavoce.pipelines.vad.base import VAD, VADCapabilities, VADEvent, VADSpeechEnded, VADSpeechStarted, VADStream

logging.getLogger("vivavoce").setLevel(logging.ERROR)
CLOCK = LoopClock()


class GateVADStream(VADStream):
    def __init__(self) -> None:
        self._gate = h.SpeechGate()

    def push(self, frame: AudioFrame) -> Sequence[VADEvent]:
        edge = self._gate.feed(frame.data)
        if not edge:
            return ()
        return (VADSpeechStarted(h.FRAME_S),) if edge > 0 else (VADSpeechEnded(h.FRAME_S),)


class GateVAD(VAD):
    provider = "bench"

    @property
    def capabilities(self) -> VADCapabilities:
        return VADCapabilities(sample_rate=h.IN_RATE, min_silence=0.0)

    def open(self) -> VADStream:
        return GateVADStream()


class DelaySTTStream(STTStream):
    """One final transcript `stt` seconds after it saw the first silent frame."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._gate = h.SpeechGate()
        self._due: asyncio.Queue[float] = asyncio.Queue()

    def push(self, frame: AudioFrame) -> None:
        if self._gate.feed(frame.data) < 0:
            self._due.put_nowait(h.now() + self._delay)

    async def events(self) -> AsyncIterator[STTEvent]:
        while True:
            due = await self._due.get()
            if (wait := due - h.now()) > 0:
                await anyio.sleep(wait)
            yield STTFinal(text=next(said()))

    async def aclose(self) -> None:
        pass


@cache
def said() -> Iterator[str]:
    """Return the caller's words, turn by turn."""
    where = os.environ.get("BENCH_WORDS", "")
    return cycle(Path(where).read_text(encoding="utf-8").splitlines() if where else [h.USER_TEXT])


class DelaySTT(STT):
    provider = "bench"

    def __init__(self, delay: float) -> None:
        self._delay = delay

    async def open(self) -> STTStream:
        return DelaySTTStream(self._delay)


class TokenLLM(LLM):
    provider = "bench"

    def __init__(self, delays: h.Delays) -> None:
        self._delays = delays

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        async for token in h.llm_tokens(self._delays):
            yield TextDelta(token)
        yield Done()


class WordTTS(TTS):
    provider = "bench"

    def __init__(self, delays: h.Delays) -> None:
        self._delays = delays

    @property
    def capabilities(self) -> TTSCapabilities:
        return TTSCapabilities(sample_rate=h.OUT_RATE, streams_text=True)

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        async for pcm in h.Voice(self._delays).speak(text):
            yield AudioChunk(AudioFrame(pcm, h.OUT_RATE))

    async def stream(self, text: AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        voice = h.Voice(self._delays)
        async for piece in text:
            async for pcm in voice.speak(piece):
                yield AudioChunk(AudioFrame(pcm, h.OUT_RATE))


class ProbeSink(AudioSink):
    """Reports each frame at the moment it reaches the output; plays in real time."""

    def __init__(self, probe: h.Probe) -> None:
        self._probe = probe
        self._queue = PacedQueue(CLOCK, h.OUT_RATE)

    @property
    def capabilities(self) -> SinkCapabilities:
        return SinkCapabilities(sample_rate=h.OUT_RATE)

    def write(self, frame: AudioFrame) -> None:
        self._queue.add(frame.samples)
        self._probe.audio(frame.duration)

    def queued(self) -> int:
        return self._queue.queued()

    def clear(self) -> int:
        self._probe.clear()
        return self._queue.clear()


class BenchSession:
    def __init__(self, session: AgentSession[None], transport: LocalTransport) -> None:
        self._session = session
        self._transport = transport

    async def push(self, pcm: bytes) -> None:
        self._transport.push_audio(AudioFrame(pcm, h.IN_RATE))

    async def say(self, text: str) -> None:
        await self._session.say(text)

    async def close(self) -> None:
        await self._session.close()


def memory() -> MemoryOptions | None:
    where = os.environ.get("BENCH_STORE", "")
    return MemoryOptions(store=opened_store(where)) if where else None


@cache
def opened_store(where: str) -> SessionStore:
    """Return the one store of all sessions."""
    return RedisStore(where) if "://" in where else SqliteStore(where)


@cache
def graph_options() -> GraphOptions | None:
    """Return a graph of two states, between which each turn moves; ten other intents are judged too."""
    if not os.environ.get("BENCH_GRAPH"):
        return None
    graph = StateGraph(PatternIntents())
    said = graph.new_intent("said", [h.USER_TEXT])
    one, two = graph.new_state("one", initial=True), graph.new_state("two")
    for state, other in ((one, two), (two, one)):
        for number in range(5):
            examples = [f"a table for {{people}} on day {number}", f"book table number {number} please"]
            state.when_intent_matched(graph.new_intent(f"{state.name} {number}", examples)).go_to(other)
        state.when_intent_matched(said).go_to(other)
    return GraphOptions(graph)


def knowledge() -> KnowledgeOptions | None:
    where = os.environ.get("BENCH_KNOWLEDGE", "")
    return KnowledgeOptions(base=KnowledgeBase(where)) if where else None


def options() -> SessionOptions:
    if os.environ.get("BENCH_DEFAULTS"):
        return SessionOptions(memory=memory(), graph=graph_options(), knowledge=knowledge())
    return SessionOptions(
        memory=memory(),
        graph=graph_options(),
        knowledge=knowledge(),
        endpointing=EndpointingOptions(min_delay=0.0),
        preemptive=False,
        interruption=InterruptionOptions(mode="immediate", min_duration=0.0, fade=0.0),
    )


async def open_session(delays: h.Delays, probe: h.Probe) -> BenchSession:
    pipeline = CascadingPipeline(stt=DelaySTT(delays.stt), llm=TokenLLM(delays), tts=WordTTS(delays), vad=GateVAD())
    session = AgentSession[None](Agent("Help."), pipeline, options=options())
    transport = LocalTransport(CLOCK, sink=ProbeSink(probe), input_rate=h.IN_RATE, is_recording=False)
    await session.start(transport)
    return BenchSession(session, transport)


async def warm_up() -> None:
    """Hold one call, so that everything is loaded that a call needs, and freeze the heap."""
    session = await open_session(h.Delays(), h.Probe())
    await session.say("Hello.")
    await session.close()
    opened_store.cache_clear()  # a store belongs to one event loop
    freeze_heap()


if __name__ == "__main__":
    if sys.argv[1:2] == ["m3"]:
        asyncio.run(warm_up())
    h.main(open_session, {"peer": "vivavoce", "version": version("vivavoce")})
