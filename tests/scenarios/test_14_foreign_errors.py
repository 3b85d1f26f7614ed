"""Scenario 14, components with faulty code: an exception has the effect of a provider's failure."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from vivavoce.agents import Agent
from vivavoce.agents.events import ErrorOccurred, TranscriptMissing
from vivavoce.agents.testing import (
    ScriptedLLM,
    ScriptedSTT,
    ScriptedTTS,
    SessionHarness,
)
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent, TextDelta
from vivavoce.pipelines.stt.base import STTEvent, STTFinal
from vivavoce.pipelines.testing.scripted_stt import ScriptedSTTStream
from vivavoce.pipelines.tts.base import AudioChunk


def errors(harness: SessionHarness) -> list[tuple[str, bool]]:
    return [(event.source, event.is_recovered) for event in harness.recording.of(ErrorOccurred)]


class Wrong(ScriptedLLM):
    """A model whose first answer raises, is None, or yields something else."""

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


def fails_in(stream: object, method: str, *, times: int = 1) -> None:
    """Make a stream's method raise an exception that no provider should raise, for this number of times."""
    works, left = getattr(stream, method), [KeyError("secret") for _ in range(times)]

    def call(*args: Any) -> Any:
        if left:
            raise left.pop()
        return works(*args)

    setattr(stream, method, call)


@pytest.mark.parametrize("event", [KeyError("secret"), "words", None, STTFinal(text=None), SystemExit()])  # type: ignore[arg-type]
def test_a_recogniser_whose_stream_raises_or_reports_something_else_is_opened_again(event: Any) -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("All is well.", delay=0.1))

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        harness.stt.stream.emit(event)

    harness.caller.says("hello there", 2.0, 3.0)
    harness.run(scenario, until=6.0)
    assert harness.stt.open_attempts == 2
    assert errors(harness) == [("stt", True)]
    harness.expect_history(("user", "hello there"), ("assistant", "All is well.")).expect_outcomes("completed")


@pytest.mark.parametrize("method", ["push", "speech_started"])
def test_a_recogniser_that_raises_as_it_is_told_of_the_caller_is_opened_again(method: str) -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("All is well.", "All is well.", delay=0.1))

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(0.2)
        fails_in(harness.stt.stream, method)

    harness.caller.says("hello there", 0.5, 1.5)
    harness.caller.says("and now", 5.0, 6.0)
    harness.run(scenario, until=9.0)
    assert harness.stt.open_attempts == 2
    assert errors(harness) == [("stt", True)]
    harness.expect_outcomes("completed", "completed")
    assert harness.messages[0] == ("user", "hello there")


def test_a_recogniser_that_raises_at_the_end_of_speech_costs_the_words_that_it_had_not_told() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("All is well.", delay=0.1))

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(0.2)
        fails_in(harness.stt.stream, "flush")

    harness.caller.says("hello there", 0.5, 1.5)
    harness.caller.says("and now", 5.0, 6.0)
    harness.run(scenario, until=9.0)
    assert errors(harness) == [("stt", True)]
    assert [event.at for event in harness.recording.of(TranscriptMissing)]
    harness.expect_history(("user", "and now"), ("assistant", "All is well."))


def test_a_recogniser_that_raises_as_it_is_told_to_forget_is_opened_again() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM("All is well.", delay=0.1))

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(0.2)
        fails_in(harness.stt.stream, "discard")
        harness.session.input.clear_turn()

    harness.caller.says("hello there", 2.0, 3.0)
    harness.run(scenario, until=6.0)
    assert errors(harness) == [("stt", True)]
    harness.expect_outcomes("completed")


class Stubborn(ScriptedSTT):
    """A recogniser that fails with each frame, or after each first event, or cannot be opened again."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    async def open(self) -> ScriptedSTTStream:
        if self.how == "open" and self.streams:
            self.open_attempts += 1
            raise OSError("secret")
        stream = await super().open()
        if self.how == "push":
            fails_in(stream, "push", times=1000)
        elif self.how == "events":
            stream.events = reports_once  # type: ignore[method-assign]
        return stream


async def reports_once() -> AsyncGenerator[STTEvent, None]:
    yield STTFinal(text="")
    raise KeyError("secret")


@pytest.mark.parametrize(("how", "opened"), [("open", 3), ("push", 3), ("events", 3)])
def test_a_recogniser_that_goes_on_raising_is_given_up_within_its_tries(how: str, opened: int) -> None:
    harness = SessionHarness(Agent("Help."), stt=Stubborn(how))
    harness.expects_error("session")

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        if how == "open":
            harness.stt.fail()
        await harness.until(5.0)

    harness.run(scenario)
    assert harness.stt.open_attempts == opened
    assert errors(harness)[-1] == ("stt", False)
    assert len(errors(harness)) <= 4
    assert harness.close_report is not None
    assert harness.close_report.reason == "error"
