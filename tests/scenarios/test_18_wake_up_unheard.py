"""18. A wake-up that no code of the application handles: one line in the log says so, and the remedy."""

from __future__ import annotations

import logging

import anyio
import pytest

from vivavoce.agents import Agent, AgentSession, SessionOptions, WakeUp
from vivavoce.agents.events import WakeUpFired
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, run_virtual
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.testing import VirtualClock


class Plain(Agent):
    """Sets no handler."""

    def __init__(self) -> None:
        super().__init__("Help.", id="host")


class Asking(Plain):
    """Sets its callback where a resumed call does not set it again."""

    async def on_enter(self) -> None:
        self.session.on_wake_up = lambda: None


class Listening(Plain):
    async def on_enter(self) -> None:
        self.session.on(WakeUpFired, lambda event: None)


TWICE = WakeUp(after=2, repeat=2)


def warned(
    caplog: pytest.LogCaptureFixture, agent: Agent, wake_up: WakeUp = TWICE, *, is_resumed: bool = False
) -> list[str]:
    """Run a call of 10 s whose caller is silent; return the warnings."""

    async def main() -> None:
        # A session without the harness, whose recording listens to every event.
        session: AgentSession[None] = AgentSession(
            agent,
            SessionHarness(Agent("x"), ScriptedLLM()).pipeline,
            wake_up=wake_up,
            options=SessionOptions(clock=VirtualClock()),
        )
        async with session:
            snapshot = session.snapshot() if is_resumed else None
            await session.start(LocalTransport(VirtualClock(), participant="anna"), resume_from=snapshot)
            await anyio.sleep(10.0)

    with caplog.at_level(logging.WARNING):
        run_virtual(main())
    return [record.getMessage() for record in caplog.records]


def test_a_wake_up_that_nothing_handles_is_one_warning_a_session_with_the_remedy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (line,) = warned(caplog, Plain())
    assert "session.on_wake_up is None, and the event 'wake_up' has no handler" in line
    assert "set one before session.start()" in line


def test_a_resumed_call_whose_callback_was_set_in_on_enter_says_that_on_enter_does_not_run_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (line,) = warned(caplog, Asking(), is_resumed=True)
    assert "on_enter, which a resumed call does not run again" in line


@pytest.mark.parametrize("kind", [Asking, Listening])
def test_a_callback_or_a_handler_of_the_event_is_enough(caplog: pytest.LogCaptureFixture, kind: type[Plain]) -> None:
    assert warned(caplog, kind()) == []


@pytest.mark.parametrize("then", ["close", None])
def test_a_wake_up_of_one_level_that_only_ends_the_call_needs_no_handler(
    caplog: pytest.LogCaptureFixture, then: str | None
) -> None:
    only_end = WakeUp(after=2, then=then)  # type: ignore[arg-type]  # a parameter of the test
    assert len(warned(caplog, Plain(), only_end)) == (then is None)
