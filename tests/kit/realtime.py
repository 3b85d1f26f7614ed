"""The scenarios' scripted parts as a realtime pipeline, so that one suite holds both pipelines to the same times."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Unpack

from vivavoce.agents.testing import Listening
from vivavoce.pipelines.llm.base import LLM, GenerateRequest, LLMEvent, TextDelta
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.realtime import RealtimeOptions, RealtimePipeline
from vivavoce.pipelines.realtime_model.base import (
    RealtimeCapabilities,
    RealtimeConnection,
    RealtimeEvent,
    RealtimeModel,
    RealtimeSetup,
)
from vivavoce.pipelines.testing import ScriptedRealtimeModel, ScriptedSTT, ScriptedTTS, ScriptedVAD
from vivavoce.pipelines.testing.scripted_realtime import ScriptedRealtimeConnection
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.pipelines.tts.sentences import sentences


class SpeakingLLM(RealtimeModel):
    """Answers with an LLM's script in a TTS's voice, as one model that speaks: the same words and times."""

    provider = "scripted"

    def __init__(self, llm: LLM, tts: ScriptedTTS) -> None:
        self.llm = llm
        self.tts = tts
        self.connections: list[SpeakingConnection] = []

    @property
    def capabilities(self) -> RealtimeCapabilities:
        """Audio of the voice's rate; all that a model may do."""
        return RealtimeCapabilities(
            output_rate=self.tts.capabilities.sample_rate,
            generates_text=True,
            supports_images=self.llm.capabilities.supports_images,
        )

    async def open(self, setup: RealtimeSetup) -> RealtimeConnection:
        """Return a connection."""
        connection = SpeakingConnection(self, setup)
        self.connections.append(connection)
        return connection


class SpeakingConnection(RealtimeConnection):
    """One conversation, recorded as a scripted one is."""

    def __init__(self, model: SpeakingLLM, setup: RealtimeSetup) -> None:
        self._model = model
        self._answers = 0
        self.scripted = ScriptedRealtimeConnection(ScriptedRealtimeModel(), setup)
        self.record = self.scripted.record
        self.commit = self.scripted.commit  # type: ignore[method-assign]
        self.clear = self.scripted.clear  # type: ignore[method-assign]
        self.append = self.scripted.append  # type: ignore[method-assign]
        self.truncate = self.scripted.truncate  # type: ignore[method-assign]
        self.update = self.scripted.update  # type: ignore[method-assign]

    def push(self, frame: AudioFrame) -> None:
        """Count it."""
        self.scripted.push(frame)

    def events(self) -> AsyncIterator[RealtimeEvent]:
        """Yield the committed items."""
        return self.scripted.events()

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Yield the model's words, each sentence with its audio."""
        self._answers += 1
        item_id, offset = f"answer_{self._answers}", 0.0
        async with aclosing(self._model.llm.generate(request)) as events:
            async for event in events:
                if not isinstance(event, TextDelta):
                    yield event
                    continue
                yield TextDelta(event.text, item_id)
                if self.scripted.setup.answers == "text":
                    continue
                async for sentence in sentences(_once(event.text)):
                    length = 0.0
                    async with aclosing(self._model.tts.synthesize(sentence)) as chunks:
                        async for chunk in chunks:
                            words = tuple(replace(w, start=w.start + offset, end=w.end + offset) for w in chunk.words)
                            yield replace(chunk, words=words, item_id=item_id, text="" if length else sentence)
                            length += chunk.frame.duration
                    offset += length

    async def aclose(self) -> None:
        """End it."""
        await self.scripted.aclose()


def realtime_of(llm: LLM, stt: ScriptedSTT, tts: ScriptedTTS, **listening: Unpack[Listening]) -> Pipeline:
    """Return the parts of a scenario as a model that speaks, with a separate STT, VAD and, for `say`, TTS."""
    parts: Listening = {"vad": ScriptedVAD(), **listening}
    return RealtimePipeline(SpeakingLLM(llm, tts), stt=stt, tts=tts, **parts)


def text_realtime_of(llm: LLM, stt: ScriptedSTT, tts: ScriptedTTS, **listening: Unpack[Listening]) -> Pipeline:
    """Return the parts of a scenario as a model that answers with text, which a separate voice speaks."""
    options = RealtimeOptions(answers="text")
    parts: Listening = {"vad": ScriptedVAD(), **listening}
    return RealtimePipeline(SpeakingLLM(llm, tts), stt=stt, tts=tts, options=options, **parts)


async def _once(text: str) -> AsyncGenerator[str, None]:
    yield text
