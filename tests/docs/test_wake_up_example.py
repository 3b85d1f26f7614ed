"""examples/wake_up.py in virtual time: the caller hears each wake-up at its time."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from vivavoce.agents.testing import ScriptedLLM, SessionHarness

EXAMPLE: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "wake_up.py"))
HELLO = ("assistant", "Hello! For which day?")


def asks(harness: SessionHarness) -> None:
    """Set the handler as the entrypoint does."""
    harness.session.on_wake_up = harness.session.agent.ask_again  # type: ignore[attr-defined]  # a `Patient`


def test_a_caller_who_says_nothing_is_asked_twice_and_hung_up_on() -> None:
    harness = SessionHarness(EXAMPLE["Patient"](), wake_up=EXAMPLE["SILENCE"])

    async def scenario(harness: SessionHarness) -> None:
        asks(harness)
        report = await harness.session.wait_closed()
        assert report.is_clean
        assert harness.now == pytest.approx(20.25)

    harness.run(scenario)
    assert harness.room.hung_up == ["caller"]
    harness.expect_played((0.2, 0.8), (5.2, 0.8), (11.2, 1.4), (19.05, 1.2))
    harness.expect_history(
        HELLO,
        ("assistant", "Are you still there?"),
        ("assistant", "I cannot hear you. Please say something."),
        ("assistant", "Then I hang up now. Goodbye."),
    )


def test_a_caller_who_answers_is_not_hung_up_on() -> None:
    harness = SessionHarness(
        EXAMPLE["Patient"](), ScriptedLLM("We will see you on friday."), wake_up=EXAMPLE["SILENCE"]
    )
    harness.caller.says("on friday", 7.0, 8.0)

    async def scenario(harness: SessionHarness) -> None:
        asks(harness)

    harness.run(scenario, until=12.0)
    harness.expect_history(
        HELLO,
        ("assistant", "Are you still there?"),
        ("user", "on friday"),
        ("assistant", "We will see you on friday."),
    )
