"""The end of a task gives the agent behind it its voice at once; ears on their way to it hold nothing up."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from vivavoce.agents import Agent, AgentOverrides
from vivavoce.agents.tasks import AgentTask, TaskError
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.testing import ScriptedSTT
from vivavoce.pipelines.testing.scripted_stt import ScriptedSTTStream

pytestmark = pytest.mark.usefixtures("each_pipeline")


class Ask(AgentTask[str]):
    """Asks, and ends by itself."""

    def __init__(self, name: str, *, ends: bool = True, **overrides: Any) -> None:
        super().__init__("Ask.", id=name, overrides=AgentOverrides(**overrides))
        self.ends = ends

    async def on_enter(self) -> None:
        await self.session.say(f"Here {self.id}.")
        if self.ends:
            self.complete(self.id)


class Desk(Agent):
    async def on_enter(self) -> None:
        await self.session.say(f"Here {self.id}.")


def call(own: ScriptedSTT, voice: ScriptedTTS) -> SessionHarness:
    pipeline = SessionHarness.pipeline_of(ScriptedLLM(), own, voice)
    return SessionHarness(Agent("Help.", id="front"), stt=own, pipeline=pipeline)


def hear(*stts: ScriptedSTT) -> list[bool]:
    """Return of each whether it hears the caller."""
    return [any(not stream.is_closed for stream in stt.streams) for stt in stts]


@pytest.mark.parametrize("to", ["a task", "an agent"])
@pytest.mark.parametrize("delay", [0.0, 1.0])
def test_ears_on_their_way_back_from_a_task_do_not_hold_up_who_comes_with_others(to: str, delay: float) -> None:
    own, theirs, others = ScriptedSTT(open_delay=6.0), ScriptedSTT(), ScriptedSTT(open_delay=delay)
    harness = call(own, ScriptedTTS())

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        await session.run_task(Ask("first", stt=theirs))
        began = harness.now
        if to == "a task":
            assert await session.run_task(Ask("second", stt=others)) == "second"
        else:
            await session.update_agent(Desk("Help.", id="second", overrides=AgentOverrides(stt=others)))
        assert harness.now - began < delay + 2.0  # its words, and the half second that its ears hear first
        assert len(own.streams) == 1
        await harness.until(harness.now + 12.0)
        assert hear(own, theirs, others) == [to == "a task", False, to == "an agent"]

    harness.run(scenario)


@pytest.mark.parametrize("shares", [False, True], ids=["ears of its own", "those of the task before"])
def test_ears_that_were_on_their_way_go_on_where_the_next_task_comes_to_nothing(shares: bool) -> None:
    own, theirs = ScriptedSTT(open_delay=2.0), ScriptedSTT()
    harness = call(own, ScriptedTTS())

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        await session.run_task(Ask("first", stt=theirs))
        _ = session.say("One two three four five six.")

        async def run() -> None:
            with pytest.raises(TaskError):
                await session.run_task(second)

        second = Ask("second", stt=theirs if shares else ScriptedSTT(open_delay=30.0))
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await harness.until(harness.now + 0.5)
            second.cancel()
        await harness.until(harness.now + 10.0)
        assert hear(own, theirs) == [True, False]

    harness.run(scenario)


class Keyless(ScriptedSTT):
    """Cannot be opened."""

    async def open(self) -> ScriptedSTTStream:
        raise ProviderError("no key", provider="keyless", retryable=False)


@pytest.mark.parametrize("to", ["a task", "an agent"])
def test_ears_that_were_on_their_way_go_on_where_those_of_who_comes_cannot_be_had(to: str) -> None:
    own, theirs = ScriptedSTT(open_delay=3.0), ScriptedSTT()
    harness = call(own, ScriptedTTS())

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        await session.run_task(Ask("first", stt=theirs))
        if to == "a task":
            async with anyio.create_task_group() as group:
                group.start_soon(session.run_task, second := Ask("second", stt=Keyless(), ends=False))
                await harness.until(harness.now + 12.0)
                assert hear(own, theirs) == [True, False]
                second.complete("second")
        else:
            await session.update_agent(Desk("Help.", id="second", overrides=AgentOverrides(stt=Keyless())))
        await harness.until(harness.now + 12.0)
        assert hear(own, theirs) == [True, False]

    harness.run(scenario)


@pytest.mark.parametrize("change", ["a component", "the pipeline"])
def test_the_agent_behind_a_task_has_its_voice_back_at_once_while_a_change_is_under_way(change: str) -> None:
    own, new = ScriptedSTT(), ScriptedSTT(open_delay=4.0)
    own_voice, voice = ScriptedTTS(), ScriptedTTS()
    harness = call(own, own_voice)

    async def scenario(harness: SessionHarness) -> None:
        session, task = harness.session, Ask("ask", ends=False, tts=voice)
        async with anyio.create_task_group() as group:
            group.start_soon(session.run_task, task)
            await harness.until(3.0)
            if change == "a component":
                changing = session.update_components(stt=new)
            else:
                changing = session.update_pipeline(SessionHarness.pipeline_of(ScriptedLLM(), new, own_voice))
            await harness.until(3.5)
            task.complete("five")
        await session.say("Thank you.")
        assert not changing.is_done
        await changing
        assert changing.outcome == "completed"
        await harness.until(harness.now + 6.0)  # the one before may have late words
        assert hear(own, new) == [False, True]

    harness.run(scenario)
    assert (voice.texts, own_voice.texts) == (["Here ask."], ["Thank you."])
