"""examples/push_to_talk.py in virtual time: the button works in the greeting, and only it lets the caller in."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from livekit import rtc

from vivavoce.agents import EndpointingOptions, SessionOptions
from vivavoce.agents.testing import ScriptedLLM, SessionHarness

EXAMPLE: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "push_to_talk.py"))
PRESS = rtc.RpcInvocationData(request_id="1", caller_identity="caller", payload="", response_timeout=10.0)
GREETING = "Hold the button and say a day."


def call(*answers: str) -> SessionHarness:
    options = SessionOptions(endpointing=EndpointingOptions(mode="manual"))
    return SessionHarness(EXAMPLE["Host"]("You take bookings."), ScriptedLLM(*answers), options=options)


def test_the_button_works_during_the_greeting() -> None:
    harness = call("See you.")
    harness.caller.says("on friday", 1.2, 2.0)

    async def scenario(harness: SessionHarness) -> None:
        button = EXAMPLE["Button"](harness.session)
        await harness.until(1.0)
        await button.start_turn(PRESS)
        assert button.is_held
        await harness.started()  # the greeting was cut; `entrypoint` does not mute a caller who speaks
        await harness.until(2.5)
        await button.end_turn(PRESS)
        assert not button.is_held

    harness.run(scenario, until=6.0, waits_for_start=False)
    (greeting, *rest) = harness.messages
    assert greeting[1] in GREETING
    assert greeting[1] != GREETING
    assert rest == [("user", "on friday"), ("assistant", "See you.")]


def test_a_caller_without_the_button_is_not_heard_in_the_greeting_either() -> None:
    harness = call()
    harness.caller.makes_noise(0.6, 1.4)
    harness.run(until=4.0)
    assert harness.messages == [("assistant", GREETING)]
    assert [state for who, state, _ in harness.states if (who, state) == ("user", "speaking")] == []
