"""A long call does not keep what it no longer uses: pipelines that were left, and tasks that are over."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from kit.mcp.memory import MemoryServer, library
from kit.tasks import GIVE, ORDER, Front, GetAddress
from vivavoce.agents import Agent, AgentOverrides
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.tasks import AgentTask
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.errors import SessionClosedError
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.stt.base import STT
from vivavoce.pipelines.testing import ScriptedSTT


def is_released(reference: weakref.ref[Any]) -> bool:
    gc.collect()
    return reference() is None


def cascade() -> CascadingPipeline:
    return CascadingPipeline(stt=ScriptedSTT(), llm=ScriptedLLM("Yes."), tts=ScriptedTTS())


def test_pipelines_that_were_left_are_released_and_may_be_used_again() -> None:
    harness = SessionHarness(Agent("Help."))
    again = cascade()
    left: list[weakref.ref[Pipeline]] = []

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        for _ in range(3):
            await session.update_pipeline(again)
            await session.update_components(tts=ScriptedTTS())
            left.append(weakref.ref(session.pipeline))
            pipeline = cascade()
            left.append(weakref.ref(pipeline))
            await session.update_pipeline(pipeline)
            del pipeline
        await session.update_pipeline(again)
        await harness.until(10.0)
        assert [is_released(reference) for reference in left] == [True] * 6
        assert session.pipeline is again

    harness.run(scenario)


def test_components_that_were_left_are_released() -> None:
    harness = SessionHarness(Agent("Help."))
    left: list[weakref.ref[STT]] = []

    async def scenario(harness: SessionHarness) -> None:
        for _ in range(6):
            stt = ScriptedSTT()
            left.append(weakref.ref(stt))
            await harness.session.update_components(stt=stt)
            del stt
            await anyio.sleep(2.0)  # a recogniser that was left may still settle its words
        *long_ago, _, _, _ = [is_released(reference) for reference in left]  # the last ones go with the next change
        assert long_ago == [True, True, True]

    harness.run(scenario)


class Noted(GetAddress):
    """Notes its cleanup."""

    async def cleanup(self) -> None:
        self.log.append("task cleans up")


def ordered(
    make: Callable[[list[str]], AgentTask[Any]], *, has_ears: bool = False
) -> tuple[SessionHarness, list[str], list[weakref.ref[Any]]]:
    """Return a call that orders twice, by a task each time; the log; the tasks."""
    log: list[str] = []
    tasks: list[weakref.ref[Any]] = []

    def made() -> AgentTask[Any]:
        task = make(log)
        tasks.append(weakref.ref(task))
        return task

    harness = SessionHarness(Front(log, made), ScriptedLLM([ORDER], [GIVE], "Ordered.", [ORDER], [GIVE], "Ordered."))
    for number in range(2):
        harness.caller.says("order please", 0.5 + 10 * number, 1.5 + 10 * number)
        start, end = 5.0 + 10 * number, 6.0 + 10 * number
        if has_ears:
            harness.caller.makes_noise(start, end)
        else:
            harness.caller.says("high street five", start, end)
    return harness, log, tasks


@pytest.mark.parametrize("has_ears", [False, True])
def test_a_task_that_is_over_is_cleaned_up_once_and_released_in_the_call(has_ears: bool) -> None:
    def make(log: list[str]) -> AgentTask[Any]:
        task = Noted(log)
        if has_ears:  # they and those of the pipeline are opened by the task's last tool
            task.overrides = AgentOverrides(stt=ScriptedSTT(["high street five"]))
        return task

    harness, log, tasks = ordered(make, has_ears=has_ears)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(9.0)
        assert log.count("task cleans up") == 1
        await harness.until(60.0)  # the event loop keeps timers that were cancelled, such as a tool's, until their time
        harness.recording.agents.clear()
        harness.llm.requests.clear()
        assert [is_released(task) for task in tasks] == [True, True]

    harness.run(scenario)
    assert log.count("task cleans up") == 2


def test_a_task_that_is_over_is_in_no_session_any_more() -> None:
    task = GetAddress([])
    harness = SessionHarness(Front([], lambda: task), ScriptedLLM([ORDER], [GIVE], "Ordered."))
    harness.caller.says("order please", 0.5, 1.5)
    harness.caller.says("high street five", 5.0, 6.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(9.0)
        with pytest.raises(SessionClosedError):
            _ = task.session

    harness.run(scenario)


def test_a_cleanup_of_a_task_that_fails_or_hangs_is_an_error_and_holds_nothing_up() -> None:
    class Broken(GetAddress):
        async def cleanup(self) -> None:
            raise ValueError("no disk")

    harness, _, tasks = ordered(Broken)
    harness.expects_error("hook", contains="no disk")
    harness.run(until=19.0)
    assert [str(event.error) for event in harness.recording.of(ErrorOccurred)] == ["no disk", "no disk"]
    assert len(tasks) == 2


def test_the_close_cleans_up_the_task_that_has_the_conversation() -> None:
    harness, log, _ = ordered(Noted)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(4.0)
        await harness.session.close()

    harness.run(scenario)
    assert log.count("task cleans up") == 1


def test_the_servers_of_a_task_end_with_it() -> None:
    pytest.importorskip("mcp")
    server = MemoryServer(app=library("look_up"))

    def make(log: list[str]) -> AgentTask[Any]:
        class Served(AgentTask[str]):
            async def on_enter(self) -> None:
                assert "look_up" in [tool.name for tool in self.tools]
                self.complete("found")

        return Served("Ask.", mcp_servers=[server])

    harness = SessionHarness(Front([], lambda: make([])), ScriptedLLM([ORDER], "Ordered."))
    harness.caller.says("order please", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(8.0)
        assert (server.line.opened, server.line.closed) == (1, 1)

    harness.run(scenario)
