"""Observers of stages: what they see, and when they are closed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from vivavoce.agents import Agent
from vivavoce.agents.agent import Generate
from vivavoce.agents.core.hooks import Hooks
from vivavoce.agents.core.stage_observers import StageObserver, StageObservers
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.core.errors import ConfigurationError, SessionClosedError
from vivavoce.pipelines.events import UserFinal, UserInterim
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent, TextDelta
from vivavoce.pipelines.tts.base import AudioChunk

BOTH = pytest.mark.usefixtures("each_pipeline")
"""Holds on both pipelines."""


class Hiding(Agent):
    """Hides digits in the caller's words, and in the model's."""

    async def stt_stage(
        self, transcripts: AsyncIterator[UserFinal | UserInterim]
    ) -> AsyncGenerator[UserFinal | UserInterim, None]:
        async for transcript in transcripts:
            yield replace(transcript, text=transcript.text.replace("7", "#"))

    async def llm_stage(
        self, request: GenerateRequest, generate: Generate
    ) -> AsyncGenerator[LLMEvent | AudioChunk | str, None]:
        async for event in generate(request):
            yield event.text.replace("7", "#") if isinstance(event, TextDelta) else event


def call(agent: Agent, *answers: Any) -> SessionHarness:
    return SessionHarness(agent, ScriptedLLM(*answers, delay=0.1))


@BOTH
def test_observers_see_each_stage_and_a_slow_one_drops_items_and_slows_nothing() -> None:
    seen: dict[str, list[object]] = {"stt": [], "llm": [], "tts": []}
    slow: list[StageObserver] = []

    async def sleeps(item: object) -> None:
        await anyio.sleep(9.0)

    harness = call(Hiding("Help."), ["Your ", "code ", "is 7."])
    harness.caller.says("code 7", 0.5, 1.0)

    async def scenario(harness: SessionHarness) -> None:
        for stage, items in seen.items():
            harness.session.observe(stage, items.append)  # type: ignore[arg-type]
        slow.append(harness.session.observe("llm", sleeps, max_pending=1))

    harness.run(scenario, until=4.0)
    assert [item.text for item in seen["stt"] if isinstance(item, UserFinal)] == ["code #"]
    assert [item.text for item in seen["llm"] if isinstance(item, TextDelta)] == ["Your ", "code ", "is #."]
    assert sum(chunk.frame.samples for chunk in seen["tts"] if isinstance(chunk, AudioChunk)) > 0
    assert slow[0].dropped == 2  # all four came at one moment: one is shown, and one may wait
    harness.expect_played((1.7, 0.8))


@BOTH
def test_an_observer_that_raises_is_closed_with_an_error() -> None:
    shown: list[StageObserver] = []

    def raises(item: object) -> None:
        raise ZeroDivisionError

    harness = call(Agent("Help."), "Sure.")
    harness.expects_error("observer")
    harness.caller.says("hello", 0.5, 1.0)

    async def scenario(harness: SessionHarness) -> None:
        shown.append(harness.session.observe("tts", raises))

    harness.run(scenario, until=4.0)
    assert shown[0].is_closed
    assert len(harness.recording.of(ErrorOccurred)) == 1


@BOTH
def test_a_closed_observer_sees_nothing_and_wrong_arguments_are_refused() -> None:
    items: list[object] = []
    harness = call(Agent("Help."), "Sure.")
    harness.caller.says("hello", 0.5, 1.0)

    async def scenario(harness: SessionHarness) -> None:
        harness.session.observe("stt", items.append).close()
        with pytest.raises(ConfigurationError, match="stage"):
            harness.session.observe("vad", items.append)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="must be a function"):
            harness.session.observe("stt", "print")  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="max_pending"):
            harness.session.observe("stt", items.append, max_pending=0)

    harness.run(scenario, until=4.0)
    assert items == []


def test_the_observers_of_a_session_that_is_over_are_closed_and_it_takes_no_more() -> None:
    shown: list[StageObserver] = []
    harness = call(Agent("Help."), "Sure.")

    async def scenario(harness: SessionHarness) -> None:
        shown.append(harness.session.observe("llm", print))
        assert not shown[0].is_closed

    harness.run(scenario, until=2.0)
    assert shown[0].is_closed
    with pytest.raises(SessionClosedError):
        _ = harness.session.observe("llm", print)


def test_a_stage_without_open_observers_is_not_watched() -> None:
    observers = StageObservers(Hooks(lambda error, source: None), _no_group, limit=1.0)
    first, second = observers.add("stt", print, 1), observers.add("stt", print, 1)
    first.close()
    assert observers.has("stt")
    second.close()
    second.close()
    assert not observers.has("stt")


def _no_group() -> TaskGroup:
    raise AssertionError("no item was shown")
