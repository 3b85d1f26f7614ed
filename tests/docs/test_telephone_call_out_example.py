"""examples/telephone_call_out.py in virtual time: a human, a voicemail, an assistant, an announcement answer.

A call that nobody takes: tests/e2e/test_telephone_calls.py.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np

from vivavoce.agents import Agent, SessionOptions
from vivavoce.agents.telephony import MachineDetection, TelephonyOptions
from vivavoce.agents.testing import SessionHarness
from vivavoce.pipelines.media.frame import AudioFrame

EXAMPLE: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "telephone_call_out.py"))
OPTIONS = SessionOptions(telephony=TelephonyOptions(machine_detection=MachineDetection()))


def reached() -> Agent:
    """Return the example's agent, whose call has been answered."""

    async def on_enter(agent: Any) -> None:
        await agent.reached()

    kind: Any = type("Reached", (EXAMPLE["Reminder"],), {"on_enter": on_enter})
    agent: Agent = kind("+15550100")
    return agent


def call(*said: tuple[str, float, float], beep_at: float = 0.0) -> SessionHarness:
    harness = SessionHarness(reached(), options=OPTIONS)
    for text, start, end in said:
        harness.caller.says(text, start, end)
    if beep_at:
        times = np.arange(6400) / 16000
        samples = (8000 * np.sin(2 * np.pi * 1000 * times)).astype(np.int16)
        harness.caller.plays(AudioFrame(samples.tobytes(), 16000), beep_at)
    return harness.run(until=25.0, waits_for_start=False)


def said_by_agent(harness: SessionHarness) -> list[str]:
    return [text for role, text in harness.messages if role == "assistant"]


def test_a_human_hears_the_reminder() -> None:
    harness = call(("hello", 0.4, 1.0))
    assert said_by_agent(harness) == [EXAMPLE["REMINDER"]]
    assert harness.room.hung_up == []


def test_a_voicemail_gets_the_message_after_its_beep() -> None:
    harness = call(("please leave a message after the tone", 0.4, 3.0), beep_at=4.6)
    assert said_by_agent(harness) == [EXAMPLE["MESSAGE"]]
    assert harness.played[0][0] >= 5.0
    assert harness.room.hung_up == ["caller"]


def test_an_assistant_that_screens_the_call_hears_who_calls() -> None:
    harness = call(("state your name and why you are calling", 0.4, 3.0), ("hello", 12.0, 12.6))
    assert said_by_agent(harness) == [EXAMPLE["NAME"], EXAMPLE["REMINDER"]]


def test_an_announcement_gets_nothing() -> None:
    harness = call(("the number you have dialed is not in service", 0.4, 3.0))
    assert said_by_agent(harness) == []
    assert harness.room.hung_up == ["caller"]
