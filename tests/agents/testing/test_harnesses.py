"""Several sessions in one virtual time, in one test."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import anyio
import pytest

from vivavoce.agents import Agent, MemoryOptions, SessionOptions, function_tool
from vivavoce.agents.memory import InProcessStore, SessionMemory
from vivavoce.agents.testing import Harnesses, ScriptedLLM, SessionHarness, ToolCall, run_virtual
from vivavoce.pipelines import SilentPipeline
from vivavoce.pipelines.core.errors import SessionNotStartedError


class Greeter(Agent):
    def __init__(self, words: str = "Hello.", seconds: float = 0.0) -> None:
        super().__init__("Help.", id="greeter")
        self.words, self.seconds = words, seconds

    async def on_enter(self) -> None:
        await anyio.sleep(self.seconds)
        await self.session.say(self.words)


def typing(text: str, at: float, *answers: Any, agent: Agent | None = None, **more: Any) -> SessionHarness:
    harness = SessionHarness(agent or Agent("Help."), ScriptedLLM(*answers), **more)
    harness.caller.types(text, at)
    return harness


def test_sessions_start_one_after_the_other_and_share_one_time() -> None:
    first = SessionHarness(Greeter(seconds=2.0), pipeline=SilentPipeline())
    second = typing("hello", 1.0, "Hi.")
    times: list[float] = []

    async def scenario(calls: Harnesses) -> None:
        await calls.until(5.0)
        times.extend((calls.now, first.now, second.now))

    Harnesses(first, second).run(scenario, until=8.0)
    assert times == pytest.approx([5.0, 5.0, 2.98])  # the greeting takes a frame
    first.expect_history(("assistant", "Hello."))
    second.expect_history(("user", "hello"), ("assistant", "Hi."))
    first.check_laws()
    second.check_laws()


def test_two_runs_of_the_same_sessions_are_the_same() -> None:
    def told() -> list[list[tuple[str, float]]]:
        harnesses = [typing("hello", at, ["Hi, ", 0.3, "caller."]) for at in (1.0, 1.01, 1.0)]
        Harnesses(*harnesses).run(until=5.0)
        return [[(event.name, event.at) for event in one.recording.events] for one in harnesses]

    assert told() == told()


def test_sessions_that_share_a_store_read_each_other_s_values() -> None:
    store = InProcessStore()
    writer, reader = (
        SessionHarness(
            Agent("Help."), pipeline=SilentPipeline(), options=SessionOptions(memory=MemoryOptions(store=store)), id=id
        )
        for id in ("writer", "reader")
    )
    found: list[object] = []

    async def scenario(calls: Harnesses) -> None:
        await writer.session.memory.data.set("room", 7)
        async with SessionMemory.attach(store, "writer") as memory:
            found.append(await memory.data.get("room"))
        await reader.session.memory.data.set("room", 8)
        found.append(await writer.session.memory.data.get("room"))

    Harnesses(writer, reader).run(scenario)
    assert found == [7, 7]
    assert (writer.session.id, reader.session.id) == ("writer", "reader")


def test_a_call_is_handed_over_to_a_session_that_starts_in_the_scenario() -> None:
    first = SessionHarness(Greeter(), ScriptedLLM("For when?"), id="first")
    second = SessionHarness(Greeter(), ScriptedLLM("Booked."), id="second")

    async def scenario(calls: Harnesses) -> None:
        await first.user("a table")
        second.resume_from = first.session.snapshot()
        await first.session.close()
        (await (await calls.start(second)).user("friday")).next_message("Booked.")

    Harnesses(first).run(scenario)
    second.expect_history(
        ("assistant", "Hello."),
        ("user", "a table"),
        ("assistant", "For when?"),
        ("user", "friday"),
        ("assistant", "Booked."),
    )
    assert first.close_report is not None


def test_a_fault_of_any_session_fails_the_run_and_is_told_with_its_session() -> None:
    class Broken(Agent):
        @function_tool
        async def book(self) -> str:
            """Book."""
            raise ValueError("my own mistake")

    call = ToolCall(call_id="1", name="book", arguments="{}")
    sound = typing("hello", 1.0, "Hi.", id="sound")
    broken = typing("book", 1.0, [call], "Sorry.", agent=Broken("Help."), id="broken")
    also_broken = typing("book", 2.0, [call], "Sorry.", agent=Broken("Help."), id="also broken")
    with pytest.raises(AssertionError, match="my own mistake") as raised:
        Harnesses(sound, broken, also_broken).run(until=5.0)
    one, other = raised.value.__notes__
    assert one == "in the session 'broken'"
    assert other.startswith("besides:")
    assert other.endswith("in the session 'also broken'")


def test_expected_errors_are_no_faults_and_expectations_of_a_scenario_fail_the_run() -> None:
    first, second = SessionHarness(Agent("Help.")), SessionHarness(Agent("Help."), ScriptedLLM("Hi."))

    async def scenario(calls: Harnesses) -> None:
        (await second.user("hello")).next_message("Ho.")

    with pytest.raises(AssertionError, match="Ho."):
        Harnesses(first, second).run(scenario)


def test_a_task_that_outlives_all_sessions_is_found_and_one_of_a_session_that_still_runs_is_none() -> None:
    first, second = typing("hello", 1.0, ["Hi, ", 3.0, "caller."]), SessionHarness(Agent("Help."))
    left: list[asyncio.Task[None]] = []

    async def scenario(calls: Harnesses) -> None:
        await calls.until(2.0)
        await second.session.close()  # while the first one answers

    Harnesses(first, second).run(scenario, until=6.0)

    async def leaving(calls: Harnesses) -> None:
        left.append(asyncio.get_running_loop().create_task(anyio.sleep(1000.0), name="left behind"))

    with pytest.raises(AssertionError, match="1 task\\(s\\) outlived the session:\n  left behind"):
        Harnesses(SessionHarness(Agent("Help.")), SessionHarness(Agent("Help."))).run(leaving)


def test_a_session_that_cannot_start_ends_the_others_and_one_that_a_scenario_starts_does_not() -> None:
    class Broken(Agent):
        async def on_enter(self) -> None:
            raise ValueError("scripted")

    first = SessionHarness(Agent("Help."))
    with pytest.raises(ValueError, match="scripted"):
        Harnesses(first, SessionHarness(Broken("Help."))).run()
    assert first.close_report is not None
    second = SessionHarness(Agent("Help."), ScriptedLLM("Hi."))

    async def scenario(calls: Harnesses) -> None:
        with pytest.raises(ValueError, match="scripted"):
            await calls.start(SessionHarness(Broken("Help.")))
        (await second.user("hello")).next_message("Hi.")

    Harnesses(second).run(scenario)


def test_a_test_that_owns_its_loop_enters_them() -> None:
    async def test() -> None:
        async with Harnesses(typing("hello", 1.0, "Hi.")) as calls:
            other = await calls.start(typing("hello", 1.0, "Ho."))
            await calls.until(3.0)
            other.expect_history(("user", "hello"), ("assistant", "Ho."))
        with pytest.raises(RuntimeError, match="make others"):
            await calls.__aenter__()

    run_virtual(test())


def test_wrong_uses_are_refused_in_words() -> None:
    def no_scenario(calls: Harnesses) -> Coroutine[Any, Any, None]:
        return None  # type: ignore[return-value]  # the mistake under test

    with pytest.raises(TypeError, match="write `async def`"):
        Harnesses(SessionHarness(Agent("Help."))).run(no_scenario)

    async def test() -> None:
        with pytest.raises(SessionNotStartedError, match="started by run"):
            await Harnesses().start(SessionHarness(Agent("Help.")))
        with pytest.raises(RuntimeError, match="a loop of virtual time of its own"):
            Harnesses().run()

    run_virtual(test())


def test_the_caller_of_a_silent_session_types_now_or_at_its_time_and_costs_no_frames() -> None:
    class Frames(Agent):
        count = 0

        def on_speech_in(self, frame: Any) -> None:
            self.count += 1

    agent = Frames("Help.")
    harness = SessionHarness(agent, pipeline=SilentPipeline()).expects_error()
    seen: list[tuple[str, float]] = []

    async def scenario(harness: SessionHarness) -> None:
        harness.caller.types("later", 2.0)
        await harness.until(1.0)
        harness.caller.types("now")
        await harness.until(3.0)
        seen.extend((message.content, message.created_at) for message in harness.session.history.messages("user"))
        assert agent.count == 0
        harness.caller.makes_noise(3.5, 4.0)
        await harness.until(4.0)
        assert 40 <= agent.count <= 50

    harness.run(scenario)
    (now, now_at), (later, later_at) = seen
    assert (now, later) == ("now", "later")
    assert later_at - now_at == pytest.approx(1.0, abs=0.03)
