"""Greetings spoken by espeak over mu-law, heard by the real VAD: humans, and voicemails that get a message."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from kit.line_sounds import RATE, hiss, joined, over, tone
from kit.speech import spoken
from vivavoce.agents import Agent, SessionOptions
from vivavoce.agents.events import CallAnsweredBy
from vivavoce.agents.telephony import MachineDetection, TelephonyOptions
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.resample import Resampler
from vivavoce.plugins import silero

pytestmark = pytest.mark.test_all("the real VAD hears spoken greetings")

HUMANS = ["Hello?", "Yes, hello, this is Ann.", "Robinson.", "Good morning?"]
VOICEMAILS = [
    "Hello, you have reached Ann. I cannot come to the phone at the moment. Please leave a message after the tone.",
    "Your call has been forwarded to an automatic voice message system. At the tone, please record your message.",
    "The person you are calling is not able to answer. Leave your name and number, and I will get back to you.",
]
BEEPS = [(1000.0, 0.4), (1400.0, 0.15), (440.0, 1.1)]


class Messenger(Agent):
    """Leaves a message after the beep."""

    end = ""

    async def on_enter(self) -> None:
        verdict = await self.session.telephony.answered_by()
        if verdict.kind == "machine":
            self.end = await self.session.telephony.wait_for_beep()
            await self.session.say("Call back please.")


async def over_the_line(text: str, beep: tuple[float, float] | None) -> tuple[AudioFrame, float]:
    """Return the sound of a greeting as a telephone brings it, and the time at which it ends."""
    [said] = await spoken(text)
    greeting = joined(hiss(0.8), said.to_numpy().astype(np.float64), hiss(1.0, seed=1))
    whole = greeting if beep is None else joined(greeting, tone(beep[0], seconds=beep[1]))
    heard, resampler = over("mulaw", joined(whole, hiss(3.0, seed=2))), Resampler(8000, RATE)
    data = resampler.push(heard).data + resampler.flush().data
    return AudioFrame(data, RATE), 0.8 + said.duration


def call(text: str, beep: tuple[float, float] | None) -> tuple[SessionHarness, Messenger, float]:
    sound, ends_at = asyncio.run(over_the_line(text, beep))
    agent = Messenger("Call.")
    options = SessionOptions(telephony=TelephonyOptions(machine_detection=MachineDetection()))
    harness = SessionHarness(agent, ScriptedLLM(default="Good day."), vad=silero.VAD(), options=options)
    harness.caller.plays(sound, 0.0)
    harness.caller.is_recognised(text, ends_at + 0.3)
    harness.run(until=sound.duration + 5.0, waits_for_start=False)
    return harness, agent, sound.duration


@pytest.mark.parametrize("text", HUMANS)
def test_a_spoken_greeting_of_a_human_is_one(text: str) -> None:
    harness, _, _ = call(text, None)
    [event] = harness.recording.of(CallAnsweredBy)
    assert (event.kind, event.reason) == ("human", "short_greeting")
    assert harness.messages[-1] == ("assistant", "Good day.")


@pytest.mark.parametrize("beep", BEEPS)
@pytest.mark.parametrize("text", VOICEMAILS)
def test_a_spoken_voicemail_gets_the_message_after_its_beep(text: str, beep: tuple[float, float]) -> None:
    harness, agent, seconds = call(text, beep)
    [event] = harness.recording.of(CallAnsweredBy)
    assert event.kind == "machine"
    assert agent.end == "beep"
    assert [text for role, text in harness.messages if role == "assistant"] == ["Call back please."]
    assert harness.played[0][0] >= seconds - 3.0
