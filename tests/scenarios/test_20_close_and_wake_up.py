"""Scenario 20: closing from `on_wake_up`, and while it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from vivavoce.agents import Agent, AgentSession, SessionOptions, WakeUp
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.records import CloseReport
from vivavoce.agents.states import AgentState
from vivavoce.agents.testing import SessionHarness
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.core.clock import LoopClock

LINE = "good bye then"


def woken_up(callback: Callable[[SessionHarness], Awaitable[None]], until: float = 20.0) -> SessionHarness:
    """Run a session whose caller is woken up at 5.0, to its end."""
    harness = SessionHarness(Agent("Help."), wake_up=WakeUp(after=5, repeat=2))

    async def scenario(harness: SessionHarness) -> None:
        harness.session.on_wake_up = lambda: callback(harness)

    return harness.run(scenario, until=until)


def test_on_wake_up_may_speak_and_then_close_the_session() -> None:
    after: list[tuple[float, str]] = []

    async def hang_up(harness: SessionHarness) -> None:
        await harness.session.say(LINE)
        report = await harness.session.close()
        after.append((harness.now, report.reason))

    harness = woken_up(hang_up)
    report = harness.close_report
    assert report is not None
    ((at, reason),) = after
    assert at == pytest.approx(5.8)  # the close neither waits for it nor cuts it
    assert reason == "user_initiated"
    assert report.is_clean
    assert report.seconds < 0.05
    assert "wake-up" not in [step.name for step in report.steps]
    harness.expect_history(("assistant", LINE)).expect_outcomes("completed")


def test_on_wake_up_may_close_in_the_middle_of_its_own_speech() -> None:
    async def hang_up(harness: SessionHarness) -> None:
        _ = harness.session.say(LINE)
        await anyio.sleep(0.4)
        await harness.session.close()

    report = woken_up(hang_up).close_report
    assert report is not None
    assert report.is_clean
    assert report.seconds == pytest.approx(0.05)  # the fade


def test_on_wake_up_may_await_a_close_that_takes_longer_than_its_limit() -> None:
    class Slow(Agent):
        async def on_exit(self) -> None:
            await anyio.sleep(3.0)

    after: list[float] = []
    harness = SessionHarness(Slow("Help."), wake_up=5, options=SessionOptions(callback_timeout=1.0))

    async def scenario(harness: SessionHarness) -> None:
        async def hang_up() -> None:
            await harness.session.close()
            after.append(harness.now)

        harness.session.on_wake_up = hang_up
        report = await harness.session.wait_closed()
        assert report.is_clean

    harness.run(scenario)
    assert after == [pytest.approx(8.0)]
    assert harness.recording.of(ErrorOccurred) == []


def test_on_wake_up_may_leave_the_room_and_the_caller_of_wait_closed_goes_on() -> None:
    reports: list[CloseReport] = []
    harness = SessionHarness(Agent("Help."), wake_up=5)

    async def scenario(harness: SessionHarness) -> None:
        harness.session.on_wake_up = harness.session.leave
        reports.append(await harness.session.wait_closed())
        assert harness.now == pytest.approx(5.0)

    harness.run(scenario)
    assert harness.room.is_left
    assert reports == [harness.close_report]


def test_a_close_cuts_what_on_wake_up_is_at() -> None:
    ended: list[float] = []

    async def dawdle(harness: SessionHarness) -> None:
        try:
            await harness.session.say(LINE)
            await anyio.sleep(60.0)
        finally:
            ended.append(harness.now)

    harness = woken_up(dawdle, until=8.0)
    report = harness.close_report
    assert report is not None
    assert report.is_clean
    assert report.seconds < 0.05
    assert [step.name for step in report.steps][:3] == ["input", "wake-up", "speech"]
    assert ended == [pytest.approx(8.0)]


def test_an_on_wake_up_that_clings_to_its_work_is_named_and_the_later_steps_run() -> None:
    async def cling(harness: SessionHarness) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(60.0)

    harness = SessionHarness(Agent("Help."), wake_up=5, options=SessionOptions(close_timeout=2.0))

    async def scenario(harness: SessionHarness) -> None:
        harness.session.on_wake_up = lambda: cling(harness)
        await harness.until(6.0)
        report = await harness.session.close()
        assert report.seconds <= 2.0
        assert [step.name for step in report.steps if step.error] == ["wake-up", "handlers"]
        assert harness.session.agent_state is AgentState.CLOSED
        await harness.until(70.0)  # it ends by itself; the leak guard looks

    harness.run(scenario)


async def test_on_wake_up_closes_a_session_in_real_time() -> None:
    clock = LoopClock()
    pipeline = SessionHarness(Agent("x")).pipeline
    session: AgentSession[None] = AgentSession(Agent("x"), pipeline, wake_up=0.05, options=SessionOptions(clock=clock))
    session.on_wake_up = session.close
    with anyio.fail_after(60):
        await session.start(LocalTransport(clock))
        report = await session.wait_closed()
    assert report.is_clean
