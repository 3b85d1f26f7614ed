"""A hold, the close, and wake-ups before the verdict on who has answered a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from vivavoce.agents import Agent, SessionOptions
from vivavoce.agents.events import CallAnsweredBy, HoldChanged, WakeUpFired
from vivavoce.agents.telephony import MachineDetection, TelephonyOptions
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.core.errors import SessionError

VOICEMAIL = "you have reached the voicemail of ann please leave a message after the tone"


def a_call(
    *said: tuple[str, float, float],
    scenario: Callable[[SessionHarness], Awaitable[None]],
    until: float = 10.0,
    wake_up: float | None = None,
) -> SessionHarness:
    telephony = TelephonyOptions(machine_detection=MachineDetection())
    options = SessionOptions(telephony=telephony)
    harness = SessionHarness(Agent("You call."), ScriptedLLM(default="Good day."), options=options, wake_up=wake_up)
    for text, start, end in said:
        harness.caller.says(text, start, end)
    return harness.run(scenario, until=until)


def test_a_call_that_ends_before_its_verdict_has_one_in_the_events_too() -> None:
    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        await harness.session.close()

    [event] = a_call(scenario=scenario, until=1.0).recording.of(CallAnsweredBy)
    assert (event.kind, event.reason) == ("unknown", "hung_up")


def test_a_voicemail_that_is_put_on_hold_is_no_human() -> None:
    async def scenario(harness: SessionHarness) -> None:
        telephony = harness.session.telephony
        await harness.until(2.0)  # the greeting goes on
        telephony.hold()
        assert (await telephony.answered_by()).reason == "on_hold"
        with pytest.raises(SessionError, match="on hold"):
            await telephony.answered_by(again=True)
        telephony.resume()
        assert (await telephony.answered_by(again=True)).kind == "machine"

    harness = a_call((VOICEMAIL, 1.0, 6.0), scenario=scenario)
    found = [(event.kind, event.reason) for event in harness.recording.of(CallAnsweredBy)]
    assert found == [("unknown", "on_hold"), ("machine", "phrase")]


def test_the_agent_speaks_to_a_caller_whom_it_holds_before_the_verdict_and_the_close_ends_both() -> None:
    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        speech = harness.session.say("One moment.")
        harness.session.telephony.hold()
        await speech
        assert speech.outcome == "completed"
        await harness.session.close()

    harness = a_call(scenario=scenario, until=5.0)
    assert [event.reason for event in harness.recording.of(CallAnsweredBy)] == ["on_hold"]
    assert [event.state for event in harness.recording.of(HoldChanged)] == ["on_hold", "talking"]


def test_nobody_is_woken_up_before_the_verdict() -> None:
    async def scenario(harness: SessionHarness) -> None:
        harness.session.on_wake_up = lambda: None
        await harness.until(11.0)

    harness = a_call(scenario=scenario, until=11.0, wake_up=4.0)
    assert [round(one.at, 1) for one in harness.recording.of(WakeUpFired)] == [9.0]  # 4 s behind the verdict
