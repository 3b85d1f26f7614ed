"""Providers that answer, fail and hang by a seed, made of the scripted ones; every fault is noted as provoked."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from random import Random
from typing import Literal

from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.llm.base import LLM, GenerateRequest, LLMCapabilities, LLMEvent
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.testing import HANG, ScriptedLLM, ScriptedTTS, ScriptedTTSOptions, StepItem, TTSFault
from vivavoce.pipelines.tts.base import TTS, AudioChunk, TTSCapabilities

PROVOKED = "provoked by the soak"
"""In the text of each error that is raised on purpose."""

VOICE = ScriptedTTSOptions(seconds_per_word=0.12)


class Mood:
    """The faults of one session.

    Args:
        always_fails: Each request to the model fails, so that the session gives up.
    """

    def __init__(self, rng: Random, *, always_fails: bool = False) -> None:
        self.rng = rng
        self.always_fails = always_fails
        self.is_calm = False
        """From now on all goes well."""
        self.provoked: Counter[str] = Counter()

    def error(self, what: str) -> ProviderError:
        """Return an error to be raised, one in three worth another try."""
        self.provoked[what] += 1
        return ProviderError(PROVOKED, provider="scripted", retryable=self.rng.random() < 0.33)

    def step(self, number: int, tools: tuple[str, ...]) -> list[StepItem]:
        """Return the model's answer to a request."""
        rng = self.rng
        words = " ".join(f"a{number}x{word}" for word in range(rng.randint(1, 9))) + "."
        if self.is_calm:
            return [0.05, words]
        if self.always_fails:
            return [0.05, self.error("llm")]
        step: list[StepItem] = [rng.choice([0.0, 0.05, 0.3]), words]
        match rng.random():
            case chance if chance < 0.05:
                step.insert(rng.randint(0, 2), self.error("llm"))
            case chance if chance < 0.10:
                self.provoked["llm hang"] += 1
                step.insert(rng.randint(0, 2), HANG)
            case chance if chance < 0.13:
                return [0.05]  # an empty answer
            case chance if chance < 0.45 and tools:
                for call in range(rng.choice([1, 1, 2])):
                    step.append(ToolCall(call_id=f"c{number}x{call}", name=rng.choice(tools), arguments="{}"))
        return step

    def voice_fault(self) -> TTSFault | None:
        """Return the fault of a synthesis, if any."""
        chance = 1.0 if self.is_calm else self.rng.random()
        if chance >= 0.08:
            return None
        when: Literal["before", "middle", "after"] = self.rng.choice(["before", "middle", "after"])
        if chance < 0.04:
            self.provoked["tts hang"] += 1
            return TTSFault(when)
        return TTSFault(when, self.error("tts"))


class MoodyLLM(LLM):
    """Each request is a script of its own."""

    provider = "scripted"

    def __init__(self, mood: Mood) -> None:
        self._mood = mood
        self._requests = 0

    @property
    def capabilities(self) -> LLMCapabilities:
        return LLMCapabilities()

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        self._requests += 1
        names = (*(tool.name for tool in request.tools), "no_such_tool") if request.tools else ()
        model = ScriptedLLM(self._mood.step(self._requests, names))
        async with aclosing(model.generate(request)) as events:
            async for event in events:
                yield event


class MoodyTTS(TTS):
    """Each synthesis is a script of its own."""

    provider = "scripted"

    def __init__(self, mood: Mood) -> None:
        self._mood = mood
        self._capabilities = TTSCapabilities(sample_rate=24000, emits_words=mood.rng.random() < 0.5)

    @property
    def capabilities(self) -> TTSCapabilities:
        return self._capabilities

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        fault = self._mood.voice_fault()
        voice = ScriptedTTS(
            first_byte=0.05,
            emits_words=self._capabilities.emits_words,
            faults={} if fault is None else {0: fault},
            options=VOICE,
        )
        async with aclosing(voice.synthesize(text)) as chunks:
            async for chunk in chunks:
                yield chunk
