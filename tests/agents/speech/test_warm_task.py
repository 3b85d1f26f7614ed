"""A reply begins in the session's context, without context variables that the reply before it set."""

from __future__ import annotations

from contextvars import ContextVar

from vivavoce.agents import Agent, CompletedTurn
from vivavoce.agents.testing import ScriptedLLM, SessionHarness

tenant: ContextVar[str] = ContextVar("tenant", default="")


def test_what_a_hook_sets_in_its_context_does_not_reach_the_next_reply() -> None:
    seen: list[str] = []

    class Keeper(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            seen.append(tenant.get())
            tenant.set(turn.text)

    harness = SessionHarness(Keeper("Help."), ScriptedLLM("Hi.", "Bye.", "So long."))
    for n, words in enumerate(("one", "two", "three")):
        harness.caller.says(words, 0.5 + 5 * n, 1.0 + 5 * n)
    harness.run(until=16.0)
    harness.expect_outcomes("completed", "completed", "completed")
    assert seen == ["", "", ""]
