"""Calls from other event loops and threads: they act, and awaiting them returns, or an error says where to await."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import anyio
import pytest

from kit.realtime import realtime_of
from kit.tasks import GetAddress
from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, SessionHarness
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import SessionClosedError, SessionError
from vivavoce.pipelines.pipeline import Pipeline

T = TypeVar("T")
Session = AgentSession[None]
WORDS = "one two three four five six seven eight nine ten."
LIMIT = 10.0
"""Real seconds within which each wait must end; none is judged by its length."""


def cascade() -> Pipeline:
    return SessionHarness(Agent("x")).pipeline


def realtime() -> Pipeline:
    return realtime_of(ScriptedLLM(), ScriptedSTT(), ScriptedTTS())


PIPELINES = pytest.mark.parametrize("pipeline", [cascade, realtime])
WAITS: dict[str, Callable[[Session], Coroutine[Any, Any, object]]] = {
    "close": lambda session: session.close(),
    "leave": lambda session: session.leave(),
    "wait_closed": lambda session: session.wait_closed(),
}
"""The waits for the close."""


async def started(pipeline: Pipeline) -> Session:
    clock = LoopClock()
    session = Session(Agent("Help."), pipeline, options=SessionOptions(clock=clock))
    await session.start(LocalTransport(clock))
    return session


async def in_time(awaitable: Awaitable[T]) -> T:
    with anyio.fail_after(LIMIT):
        return await awaitable


async def elsewhere(call: Callable[[], Awaitable[T]]) -> T:
    """Await that on an event loop of another thread, within the limit."""

    async def main() -> T:
        return await in_time(call())

    return await asyncio.to_thread(asyncio.run, main())


@pytest.mark.parametrize("name", WAITS)
@PIPELINES
async def test_after_the_close_each_wait_for_it_returns_its_report_on_any_event_loop(
    name: str, pipeline: Callable[[], Pipeline]
) -> None:
    session = await started(pipeline())
    report = await session.close()
    assert await elsewhere(lambda: WAITS[name](session)) is report


@pytest.mark.parametrize("name", WAITS)
def test_after_its_event_loop_has_ended_each_wait_for_the_close_returns_its_report(name: str) -> None:
    async def talk() -> Session:
        session = await started(cascade())
        await session.close()
        return session

    session = asyncio.run(talk())
    assert asyncio.run(in_time(WAITS[name](session))) is session.report().close

    async def left_open() -> Session:
        return await started(cascade())

    session = asyncio.run(left_open())  # whose end cancels the session's task, which closes it
    assert asyncio.run(in_time(WAITS[name](session))) is session.report().close


@PIPELINES
def test_the_end_of_its_event_loop_is_no_error_of_the_application_s_code(pipeline: Callable[[], Pipeline]) -> None:
    async def left_open() -> Session:
        return await started(pipeline())

    assert asyncio.run(left_open()).report().errors == ()


@PIPELINES
async def test_another_event_loop_closes_a_session_and_gets_the_report(pipeline: Callable[[], Pipeline]) -> None:
    session = await started(pipeline())
    speech = session.say(WORDS)
    waiting = asyncio.create_task(elsewhere(session.wait_closed))
    report = await elsewhere(session.close)
    assert report.is_clean
    assert session.report().close is report
    assert await in_time(waiting) is report
    await in_time(speech)
    assert speech.outcome in ("interrupted", "cancelled")


async def test_the_results_of_calls_are_awaited_on_any_event_loop() -> None:
    async with await started(cascade()) as session:

        async def wait(awaitable: Awaitable[None]) -> None:
            await awaitable

        speech = session.say(WORDS)
        waiting = asyncio.create_task(elsewhere(lambda: wait(speech)))
        await in_time(session.interrupt())
        await in_time(waiting)
        assert speech.is_done
        await elsewhere(lambda: wait(speech))
        other = Agent("Help.", id="other")

        async def hand_over() -> None:
            await session.update_agent(other)

        await elsewhere(hand_over)
        assert session.agent is other

        async def change() -> str | None:
            changing = session.update_components(tts=ScriptedTTS())
            await changing
            return changing.outcome

        assert await elsewhere(change) == "completed"


async def test_a_wait_on_another_event_loop_that_is_given_up_leaves_the_others() -> None:
    async with await started(cascade()) as session:
        speech = session.say(WORDS)

        async def give_up() -> None:
            with anyio.move_on_after(0.01):
                await speech

        waiting = asyncio.create_task(elsewhere(session.wait_closed))
        await elsewhere(give_up)
        assert not speech.is_done
        await session.close()
        await in_time(waiting)


REFUSED: dict[str, Callable[[Session], Awaitable[object]]] = {
    "interrupt": lambda session: session.interrupt(),
    "run_task": lambda session: session.run_task(GetAddress([])),
    "recording.start": lambda session: session.recording.start(),
}
"""Calls that are awaited on the session's event loop only."""


@pytest.mark.parametrize("name", REFUSED)
async def test_a_call_that_cannot_be_awaited_on_another_event_loop_says_so_and_the_session_goes_on(name: str) -> None:
    async def call() -> None:
        await REFUSED[name](session)

    async with await started(cascade()) as session:
        with pytest.raises(SessionError, match="on the session's (event )?loop"):
            await elsewhere(call)
        speech = session.say("Well.")
        await in_time(speech)
        assert speech.outcome == "completed"


def test_an_open_session_whose_event_loop_stands_still_is_not_waited_for() -> None:
    loop = asyncio.new_event_loop()
    try:
        session = loop.run_until_complete(started(cascade()))
        for wait in WAITS.values():
            with pytest.raises(SessionClosedError, match="event loop has ended"):
                asyncio.run(in_time(wait(session)))
        assert loop.run_until_complete(session.close()).is_clean
    finally:
        loop.close()
