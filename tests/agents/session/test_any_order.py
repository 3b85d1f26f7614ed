"""Handoffs, tasks, changes of components and pipelines, speech and the close, in any order: laws of the quiet after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import anyio.abc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kit.hearing import HearingSTT, Speaker, words_of
from kit.realtime import realtime_of
from vivavoce.agents import Agent, AgentOverrides, EndpointingOptions
from vivavoce.agents.tasks import AgentTask, TaskError, TaskOptions
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.agents.testing.pipelines import cascade
from vivavoce.pipelines.core.errors import SessionError
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.testing import ScriptedVAD

PAUSES = st.sampled_from([0.0, 0.0, 0.1, 0.7, 1.9])
ACTS = st.sampled_from(["hand off", "run a task", "end a task", "change a component", "change the pipeline", "speak"])
STEPS = st.lists(st.tuples(PAUSES, ACTS, st.integers(0, 11)), max_size=8)
SOUNDS = st.lists(st.tuples(st.integers(1, 30), st.integers(2, 15)), max_size=4)
"""Tenths of a second of silence, and words behind it."""
SETTLED = 60.0
"""Seconds in which all that was asked for must be over."""


class Desk(Agent):
    """Greets and takes leave if its number is odd, and notes the turns that it is asked about."""

    def __init__(self, call: Call, number: int, **overrides: Any) -> None:
        super().__init__("Help.", id=f"desk {number}", overrides=AgentOverrides(**overrides))
        self.call, self.greets = call, number % 2 > 0

    async def on_enter(self) -> None:
        if self.greets:
            await self.session.say(f"This is {self.id}.")

    async def on_exit(self) -> None:
        if self.greets and self.session.agent_state != "closing":
            await self.session.say(f"{self.id} leaves.")

    async def on_user_turn_completed(self, *_: Any) -> None:
        self.call.asked.append(self.id)


class Ask(AgentTask[str]):
    """Asks, ends by itself if told so, and after a while in any case; may await another one."""

    def __init__(self, call: Call, number: int, inner: Ask | None, **overrides: Any) -> None:
        limit = TaskOptions(max_seconds=5.0)
        super().__init__("Ask.", id=f"ask {number}", overrides=AgentOverrides(**overrides), options=limit)
        self.call, self.inner, self.ends = call, inner, number % 4 == 0

    async def on_enter(self) -> None:
        await self.session.say("Which one?")
        if self.inner is not None:
            await self.inner.or_nothing()
        if self.ends:
            self.complete("this one")

    async def or_nothing(self) -> None:
        """Wait for its end."""
        try:
            await self
        except TaskError:
            pass


class Call:
    """One call, with all that is made for it."""

    def __init__(self, make: Callable[..., Pipeline], first: int, sounds: list[tuple[int, int]]) -> None:
        self.make = make
        self.asked: list[str] = []
        self.stts: list[HearingSTT] = []
        self.voices: list[ScriptedTTS] = []
        self.vads: list[ScriptedVAD] = []
        self.tasks: list[Ask] = []
        self.handles: list[Any] = []
        self.awaited = 0
        """Tasks that are awaited."""
        self.has_changes = False
        self.agents = [
            Desk(self, 0),
            Desk(self, 1, stt=self.stt(1), tts=self.voice()),
            Desk(self, 2, tts=self.voice(), endpointing=EndpointingOptions(min_delay=1.0)),
        ]
        self.llm = ScriptedLLM(default="A short answer.", delay=0.1)
        self.pipeline = self.make_pipeline(first)
        self.harness = SessionHarness(self.agents[0], pipeline=self.pipeline)
        self.caller = Speaker(self.harness.caller)
        self.last_sound = 0.6
        for silence, words in sounds:
            self.last_sound = self.caller.says(round(self.last_sound + silence / 10, 1), words)

    # --- parts

    def stt(self, number: int) -> HearingSTT:
        open_delay, final_delay = [0.0, 0.6, 2.3][number % 3], [0.1, 0.4, 1.2][number // 3 % 3]
        self.stts.append(HearingSTT(open_delay=open_delay, final_delay=final_delay, shows=number % 2 > 0))
        return self.stts[-1]

    def voice(self) -> ScriptedTTS:
        self.voices.append(ScriptedTTS())
        return self.voices[-1]

    def vad(self) -> ScriptedVAD:
        self.vads.append(ScriptedVAD())
        return self.vads[-1]

    def make_pipeline(self, number: int) -> Pipeline:
        return self.make(self.llm, self.stt(number), self.voice(), vad=self.vad())

    def some(self, number: int) -> dict[str, Any]:
        """Return components that a task has."""
        kinds: list[dict[str, Any]] = [{}, {}, {"tts": self.voice()}, {"stt": self.stt(number), "tts": self.voice()}]
        return kinds[number % 4]

    # --- acts

    async def act(self, group: anyio.abc.TaskGroup, what: str, number: int) -> None:
        session = self.harness.session
        if what == "hand off":
            self.handles.append(session.update_agent(self.agents[number % 3]))
        elif what == "run a task":
            inner = Ask(self, number + 1, None, **self.some(number + 1)) if number % 3 == 0 else None
            self.tasks.append(Ask(self, number, inner, **self.some(number)))
            group.start_soon(self.run_task, self.tasks[-1], number)
        elif what == "end a task" and self.tasks:
            task = self.tasks[number % len(self.tasks)]
            try:
                (task.cancel if number % 2 else task.decline)()
            except SessionError:
                pass  # it was not awaited yet
        elif what == "change a component":
            self.has_changes = True
            kinds: list[dict[str, Any]] = [{"stt": self.stt(number)}, {"tts": self.voice()}, {"vad": self.vad()}]
            self.handles.append(session.update_components(**kinds[number % 3]))
        elif what == "change the pipeline":
            self.has_changes = True
            self.handles.append(session.update_pipeline(self.make_pipeline(number)))
        elif what == "speak":
            _ = session.say("A few words of mine.")

    async def run_task(self, task: Ask, number: int) -> None:
        self.awaited += 1
        with anyio.move_on_after(1.5 if number % 5 == 4 else 1000.0):
            try:
                await self.harness.session.run_task(task)
            except (TaskError, SessionError):
                pass
        self.awaited -= 1

    # --- laws

    async def come_to_rest(self) -> None:
        """All that was asked for ends."""
        session = self.harness.session
        await self.harness.until(self.last_sound)
        with anyio.fail_after(SETTLED):
            for handle in self.handles:
                await handle
            for _ in range(round(SETTLED)):
                if not self.awaited and session.agent_state == "idle" and session.user_state != "speaking":
                    break
                await anyio.sleep(1.0)
            assert not self.awaited
            await anyio.sleep(10.0)  # a recogniser may be opened behind a task, and the one before have late words

    async def check_the_floor(self) -> None:
        """One agent has it, with the components in use, and the caller is heard and answered by it."""
        harness, session, live = self.harness, self.harness.session, self.harness.session.agent
        assert live in self.agents
        components = session.pipeline.components  # type: ignore[attr-defined]
        if not self.has_changes:
            own = self.pipeline.components  # type: ignore[attr-defined]
            assert components.stt is (live.overrides.stt or own.stt)
            assert components.tts is (live.overrides.tts or own.tts)
        is_open = [stt for stt in self.stts for stream in stt.streams if not stream.is_closed]
        assert is_open == [components.stt]
        self.asked.clear()
        await session.say("A last question.")
        assert [voice for voice in self.voices if "A last question." in voice.texts] == [components.tts]
        begin = round(harness.now + 0.1, 1)
        self.caller.says(begin, 5)
        await harness.until(begin + 5.0)
        assert self.asked == [live.id]
        assert harness.messages[-1] == ("assistant", "A short answer.")
        assert sorted(self.taken) == sorted(self.caller.said)

    @property
    def taken(self) -> list[str]:
        """The caller's words in the history."""
        return words_of([text for role, text in self.harness.messages if role == "user"])

    def check_the_end(self) -> None:
        """All is closed, and no word of the caller came twice."""
        assert all(handle.is_done for handle in self.handles)
        assert all(stream.is_closed for stt in self.stts for stream in stt.streams)
        assert len(self.taken) == len(set(self.taken))
        self.harness.check_laws()


@pytest.mark.parametrize("make", [cascade, realtime_of])
@given(
    steps=STEPS, first=st.sampled_from([0, 3, 6, 9]), sounds=SOUNDS, closes_early=st.sampled_from([False, False, True])
)
@example(steps=[(0.0, "hand off", 1), (0.0, "hand off", 0)], first=0, sounds=[(14, 5)], closes_early=False)
@example(
    steps=[(0.0, "change the pipeline", 8), (0.0, "run a task", 4), (0.0, "run a task", 8)],
    first=6,
    sounds=[(1, 6), (2, 4), (13, 10)],
    closes_early=False,
)
@settings(max_examples=10)
def test_when_all_is_quiet_one_agent_has_the_floor_its_components_are_in_use_and_no_word_is_lost(
    make: Callable[..., Pipeline],
    steps: list[tuple[float, str, int]],
    first: int,
    sounds: list[tuple[int, int]],
    closes_early: bool,
) -> None:
    call = Call(make, first, sounds)

    async def scenario(harness: SessionHarness) -> None:
        async with anyio.create_task_group() as group:
            for pause, what, number in steps:
                await anyio.sleep(pause)
                await call.act(group, what, number)
            if closes_early:
                await harness.session.close()
        if not closes_early:
            await call.come_to_rest()
            await call.check_the_floor()

    call.harness.run(scenario, limit=300.0)
    call.check_the_end()
