"""Scenario 14, of components whose code is wrong: what they raise costs what a provider's failure costs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from vivavoce.agents import Agent
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent, TextDelta
from vivavoce.pipelines.tts.base import AudioChunk


def errors(harness: SessionHarness) -> list[tuple[str, bool]]:
    return [(event.source, event.is_recovered) for event in harness.recording.of(ErrorOccurred)]


class Wrong(ScriptedLLM):
    """A model whose first answer raises, is none, or yields something else."""

    def __init__(self, how: Any) -> None:
        super().__init__("All is well.", delay=0.1)
        self.how = how

    def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        how, self.how = self.how, None
        return super().generate(request) if how is None else how()


async def raises() -> AsyncGenerator[Any, None]:
    yield TextDelta("One two. ")
    raise KeyError("secret")


async def says_strings() -> AsyncGenerator[Any, None]:
    yield "All is well."


async def says_none() -> AsyncGenerator[Any, None]:
    yield TextDelta(None)  # type: ignore[arg-type]


def raises_at_once() -> AsyncGenerator[Any, None]:
    raise AttributeError("secret")


@pytest.mark.parametrize("how", [raises, says_strings, says_none, raises_at_once])
def test_a_model_whose_code_is_wrong_fails_one_turn_and_is_not_asked_again_for_it(how: Any) -> None:
    harness = SessionHarness(Agent("Help."), Wrong(how))
    harness.caller.says("first question", 0.5, 1.5)
    harness.caller.says("second question", 5.5, 6.5)
    harness.run(until=10.0)
    harness.expect_outcomes("failed", "completed")
    ((source, _),) = errors(harness)
    assert source == "llm"
    (event,) = harness.recording.of(ErrorOccurred)
    assert isinstance(event.error, ProviderError)
    assert "secret" not in str(event.error)
    assert harness.messages[-1] == ("assistant", "All is well.")


class Hoarse(ScriptedTTS):
    """A voice whose first synthesis raises, or yields something else than audio."""

    def __init__(self, how: Any) -> None:
        super().__init__()
        self.how = how

    def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        how, self.how = self.how, None
        return super().synthesize(text) if how is None else how()


async def says_bytes() -> AsyncGenerator[Any, None]:
    yield b"\0\0"


async def says_frames_of_bytes() -> AsyncGenerator[Any, None]:
    yield AudioChunk(b"\0\0")  # type: ignore[arg-type]


async def breaks() -> AsyncGenerator[Any, None]:
    if False:
        yield
    raise OSError("secret")


@pytest.mark.parametrize("how", [says_bytes, says_frames_of_bytes, breaks, raises_at_once])
def test_a_voice_whose_code_is_wrong_fails_one_turn_and_the_next_one_works(how: Any) -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("All is well.", "All is well.", delay=0.1), tts=Hoarse(how))
    harness.caller.says("first question", 0.5, 1.5)
    harness.caller.says("second question", 5.5, 6.5)
    harness.run(until=10.0)
    harness.expect_outcomes("failed", "completed")
    (event,) = harness.recording.of(ErrorOccurred)
    assert event.source == "tts"
    assert isinstance(event.error, ProviderError)
    assert harness.messages[-1] == ("assistant", "All is well.")
