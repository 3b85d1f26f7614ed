"""18. The wake-up as a property of the session: read, and set before and after the start."""

from __future__ import annotations

import anyio
import anyio.to_thread
import pytest

from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.events import WakeUpFired
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, run_virtual
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.agents.turn.options import WakeUp
from vivavoce.pipelines.core.errors import ConfigurationError, SessionClosedError
from vivavoce.pipelines.testing import VirtualClock


def woken(harness: SessionHarness) -> list[tuple[float, int]]:
    return [(round(event.at, 3), event.level) for event in harness.recording.of(WakeUpFired)]


def test_a_wake_up_that_is_set_after_the_start_counts_from_then() -> None:
    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        assert session.wake_up is None
        await harness.until(2.0)
        session.wake_up = 10
        assert session.wake_up == WakeUp(after=10)
        await harness.until(30.0)
        session.wake_up = WakeUp(after=4, repeat=2)
        await harness.until(45.0)
        session.wake_up = None

    harness = SessionHarness(Agent("Help."), ScriptedLLM()).run(scenario, until=100.0)
    assert woken(harness) == [(12.0, 1), (34.0, 1), (38.0, 2)]


def test_a_wake_up_that_is_set_before_the_start_is_in_force_from_the_start() -> None:
    class Early(Agent):
        async def on_enter(self) -> None:
            self.session.wake_up = 5

    assert woken(SessionHarness(Early("Help."), ScriptedLLM(), wake_up=60).run(until=20.0)) == [(5.0, 1)]


def test_the_wake_up_of_a_session_that_is_not_started_can_be_read_and_set() -> None:
    session = AgentSession[None](Agent("Help."), SessionHarness(Agent("x"), ScriptedLLM()).pipeline, wake_up=7)
    assert session.wake_up == WakeUp(after=7)
    session.wake_up = WakeUp(after=3, then="close")
    assert session.wake_up == WakeUp(after=3, then="close")
    with pytest.raises(ConfigurationError, match="wake_up must be seconds"):
        session.wake_up = "soon"  # type: ignore[assignment]  # what the check is for
    assert session.wake_up == WakeUp(after=3, then="close")


def test_a_wake_up_may_be_set_from_a_thread_and_not_after_the_close() -> None:
    async def scenario(harness: SessionHarness) -> None:
        session = harness.session

        def set_it() -> None:
            session.wake_up = 3

        await anyio.to_thread.run_sync(set_it)
        await harness.until(harness.now + 5.0)

    harness = SessionHarness(Agent("Help."), ScriptedLLM()).run(scenario)
    assert [level for _, level in woken(harness)] == [1]
    with pytest.raises(SessionClosedError):
        harness.session.wake_up = 10


def test_a_hangup_that_the_transport_cannot_do_is_refused_where_it_is_set() -> None:
    class Deaf(LocalTransport):
        def check_hangup(self) -> None:
            raise ConfigurationError("this transport disconnects no one")

    async def scenario() -> None:
        clock = VirtualClock()
        pipeline = SessionHarness(Agent("x"), ScriptedLLM()).pipeline
        session = AgentSession[None](Agent("Help."), pipeline, options=SessionOptions(clock=clock))
        session.wake_up = WakeUp(after=3, then="hangup")
        with pytest.raises(ConfigurationError, match="disconnects no one"):
            await session.start(Deaf(clock))
        session.wake_up = 3
        async with session:
            await session.start(Deaf(clock))
            with pytest.raises(ConfigurationError, match="disconnects no one"):
                session.wake_up = WakeUp(after=3, then="hangup")
            assert session.wake_up == WakeUp(after=3)

    run_virtual(scenario())
