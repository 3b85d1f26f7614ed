"""Code that the close waits for may call `close()`: it gets an error, and there is no deadlock."""

from __future__ import annotations

from vivavoce.agents import Agent
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.core.errors import SessionError


def test_an_agent_s_cleanup_that_closes_the_session_is_told_to_return() -> None:
    told: list[str] = []

    class Tidy(Agent):
        async def cleanup(self) -> None:
            try:
                await self.session.close()
            except SessionError as error:
                told.append(str(error))

    harness = SessionHarness(Tidy("Help."), ScriptedLLM()).run(until=1.0)
    assert told == ["the session is closing and waits for this code; return from it instead of closing"]
    assert harness.close_report is not None
    assert harness.close_report.seconds < 0.1


def test_an_agent_asked_for_in_on_exit_of_a_close_is_free_for_another_session() -> None:
    other = Agent("Another.", id="other")

    class Leaving(Agent):
        async def on_exit(self) -> None:
            _ = self.session.update_agent(other)

    SessionHarness(Leaving("Help."), ScriptedLLM()).run(until=1.0)
    harness = SessionHarness(other, ScriptedLLM()).run(until=1.0)
    assert harness.session.agent is other
