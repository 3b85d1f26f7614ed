"""A task that ends before it has the conversation: nothing of it stays with the agent behind it."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from kit.mcp.memory import MemoryServer, library
from kit.realtime import realtime_of
from vivavoce.agents import Agent, AgentOverrides
from vivavoce.agents.tasks import AgentTask, TaskError
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.agents.testing.pipelines import cascade
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.testing import ScriptedSTT, ScriptedVAD

BOTH = pytest.mark.usefixtures("each_pipeline")
"""Holds on both pipelines."""


class Ask(AgentTask[str]):
    async def on_enter(self) -> None:
        await self.session.say("Which number?")


@pytest.mark.parametrize("make", [cascade, realtime_of])
@pytest.mark.parametrize("ends", ["is cancelled", "is completed"])
@pytest.mark.parametrize("behind", ["a change", "a handoff"])
def test_a_task_that_ends_while_its_components_are_taken_leaves_none_behind(
    make: Callable[..., Pipeline], ends: str, behind: str
) -> None:
    own, theirs = ScriptedSTT(), ScriptedSTT(open_delay=3.0)
    own_voice, voice = ScriptedTTS(), ScriptedTTS()
    harness = SessionHarness(Agent("Help.", id="front"), stt=own, pipeline=make(ScriptedLLM(), own, own_voice))

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        task = Ask("Ask.", id="ask", overrides=AgentOverrides(stt=theirs, tts=voice))
        await harness.until(1.0)
        _ = session.say("One two three four.")
        if behind == "a change":
            _ = session.update_components(vad=ScriptedVAD())  # the components are opened early, behind it
        else:
            _ = session.update_agent(Agent("Help.", id="next"))  # they are opened in the task's own handoff

        async def run() -> None:
            if ends == "is completed":
                assert await session.run_task(task) == "five"
            else:
                with pytest.raises(TaskError):
                    await session.run_task(task)

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await harness.until(4.0)
            assert (theirs.open_attempts, theirs.streams) == (1, [])
            if ends == "is completed":
                task.complete("five")
            else:
                task.cancel()
        await session.say("Never mind.")
        await harness.until(15.0)

    harness.run(scenario)
    assert (voice.texts, own_voice.texts[-1]) == ([], "Never mind.")
    assert [stream.is_closed for stream in theirs.streams] == [True] * (behind == "a handoff")  # else it was cut
    assert own.streams[-1].pushed_seconds > 9.0


@BOTH
def test_the_servers_of_a_task_that_never_had_the_conversation_end_with_it() -> None:
    server, theirs = MemoryServer(app=library("fetch")), ScriptedSTT(open_delay=3.0)
    harness = SessionHarness(Agent("Help.", id="front"), ScriptedLLM())

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        _ = session.say("One two three four.")
        _ = session.update_components(vad=ScriptedVAD())
        task = Ask("Ask.", id="ask", mcp_servers=[server], overrides=AgentOverrides(stt=theirs))
        async with anyio.create_task_group() as group:

            async def run() -> None:
                with pytest.raises(TaskError):
                    await session.run_task(task)

            group.start_soon(run)
            await harness.until(4.0)
            assert (theirs.open_attempts, theirs.streams) == (1, [])
            task.cancel()
        await harness.until(10.0)
        assert server.line.opened == server.line.closed

    harness.run(scenario)


@pytest.mark.parametrize("make", [cascade, realtime_of])
def test_a_task_that_waits_to_give_the_conversation_back_ends_with_the_session(make: Callable[..., Pipeline]) -> None:
    stt = ScriptedSTT()
    harness = SessionHarness(Agent("Help."), stt=stt, pipeline=make(ScriptedLLM(), stt, ScriptedTTS()))
    results: list[str] = []

    async def scenario(harness: SessionHarness) -> None:
        session, task = harness.session, Ask("Ask.", id="ask")

        async def run() -> None:
            results.append(await session.run_task(task))

        with anyio.fail_after(20.0):
            async with anyio.create_task_group() as group:
                group.start_soon(run)
                await harness.until(2.0)
                _ = session.say("A long speech, behind which the task gives the conversation back.")
                await harness.until(3.0)
                task.complete("five")
                await harness.until(3.5)
                await session.close()

    harness.run(scenario)
    assert results == ["five"]


@BOTH
def test_a_task_that_waits_for_one_whose_code_was_cancelled_gets_the_conversation() -> None:
    harness = SessionHarness(Agent("Help."), ScriptedLLM())

    async def scenario(harness: SessionHarness) -> None:
        session, second = harness.session, Ask("Ask.", id="second")

        async def first() -> None:
            with anyio.move_on_after(1.0):
                await session.run_task(Ask("Ask.", id="first"))

        with anyio.fail_after(20.0):
            async with anyio.create_task_group() as group:
                group.start_soon(first)
                await harness.until(0.5)
                group.start_soon(session.run_task, second)
                _ = session.say("A long speech, behind which the first one gives the conversation back.")
                await harness.until(8.0)
                assert session.agent is second
                second.complete("five")

    harness.run(scenario)


@BOTH
def test_every_task_that_waits_for_another_one_to_end_gets_the_conversation() -> None:
    class AskOnce(Ask):
        async def on_enter(self) -> None:
            await super().on_enter()
            self.complete(self.id)

    harness = SessionHarness(Agent("Help."), ScriptedLLM())
    results: list[str] = []

    async def scenario(harness: SessionHarness) -> None:
        async def run(number: int) -> None:
            results.append(await harness.session.run_task(AskOnce("Ask.", id=f"ask {number}")))

        with anyio.fail_after(30.0):
            async with anyio.create_task_group() as group:
                for number in range(4):
                    group.start_soon(run, number)

    harness.run(scenario)
    assert sorted(results) == ["ask 0", "ask 1", "ask 2", "ask 3"]
