"""A small budget in a room: the caller hears the answer and the goodbye, and the session closes.

Silero detects speech, pocketsphinx recognises it, and espeak speaks; the cost is that of the characters spoken and of
the audio that was recognised.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from livekit import rtc

from kit.e2e.calls import OPTIONS, caller_and_agent, seconds_of
from kit.e2e.room_endpoint import RoomEndpoint
from vivavoce.agents.budget import BudgetOptions, Price
from vivavoce.agents.events import BudgetExceeded, ErrorOccurred

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(120),
    pytest.mark.test_all("a recogniser may mishear a word on a busy machine"),
]

SOUND = 0.35
ANSWER = "We have a table for you on friday by the window"
GOODBYE = "I must go now, goodbye"


def price_of(name: str) -> Price:
    """One for a character, and one for a second of the caller's audio."""
    return Price() if name == "scripted" else Price(million_characters=1e6, audio_minute=60.0)


async def test_a_small_budget_ends_in_the_goodbye(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    budget = BudgetOptions(cost=40, prices=price_of, goodbye=GOODBYE)
    async with caller_and_agent(room_server, room_name, agent_room) as call:
        it = await call(ANSWER, options=replace(OPTIONS, budget=budget))
        it.talker.say("table for friday please")
        report = await it.session.wait_closed()
        use, usage = await it.session.budget.use(), it.session.usage
    assert report.reason == "budget_exceeded"
    assert report.is_clean
    assert it.messages[-2:] == [("assistant", ANSWER), ("assistant", GOODBYE)]
    seconds = [until - since for since, until in it.talker.heard()]
    expected = [await seconds_of(ANSWER), await seconds_of(GOODBYE)]
    assert seconds == [pytest.approx(one, abs=SOUND) for one in expected]
    (exceeded,) = it.recording.of(BudgetExceeded)
    assert exceeded.use >= 40
    assert usage.tts_characters == len(ANSWER) + len(GOODBYE)
    assert usage.stt_audio_seconds > 0
    assert use["cost"] == pytest.approx(usage.tts_characters + usage.stt_audio_seconds)
    assert not it.recording.of(ErrorOccurred)
