"""`update_components` and the components of agents in a room, on both servers: real ears, real voices, real audio.

Silero detects speech, pocketsphinx recognises it, and espeak speaks; a slow and a fast voice differ in the seconds that
the caller's own recording holds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from livekit import rtc

from kit.e2e.calls import Call, caller_and_agent, seconds_of
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.talker import RATE, spoken
from vivavoce.agents import Agent, AgentOverrides
from vivavoce.agents.events import ErrorOccurred
from vivavoce.plugins import espeak, pocketsphinx, silero

pytestmark = [
    pytest.mark.real_server,
    pytest.mark.e2e,
    pytest.mark.timeout(120),
    pytest.mark.test_all("a recogniser may mishear a word on a busy machine"),
]

SOUND = 0.35
ANSWER = "We have a table for you on friday by the window"
OTHER = "#JSGF V1.0; grammar other; public <turn> = at seven | yes please | goodbye;"

Start = Callable[..., Awaitable[Call]]


@pytest.fixture
async def call(room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room) -> AsyncIterator[Start]:
    """Start the test's call, with the model's script."""
    async with caller_and_agent(room_server, room_name, agent_room) as start:
        yield start


async def test_voice_recogniser_and_vad_change_between_two_turns_and_no_word_is_lost(call: Start) -> None:
    it = await call(ANSWER, ANSWER)
    async with (
        espeak.TTS(rate=90) as slow,
        pocketsphinx.STT(grammar=OTHER, fillers=pocketsphinx.FILLERS) as ears,
        silero.VAD() as vad,
    ):
        await slow.start()
        it.talker.say("table for friday please")
        await it.talker.hears_the_agent(for_seconds=0.3)
        change = it.session.update_components(tts=slow, stt=ears, vad=vad)  # while it speaks
        await it.turns(1)
        await change
        assert change.outcome == "completed"
        it.talker.say("at seven")
        turns = await it.turns(2)
        slow_seconds = len(await spoken(slow, ANSWER)) / 2 / RATE
        await it.session.close()
    assert [turn.outcome for turn in turns] == ["completed", "completed"]
    said = [("user", "table for friday please"), ("assistant", ANSWER), ("user", "at seven"), ("assistant", ANSWER)]
    assert it.messages == said
    (first_from, first_until), (second_from, second_until) = it.talker.heard()
    assert first_until - first_from == pytest.approx(await seconds_of(ANSWER), abs=SOUND)
    assert second_until - second_from == pytest.approx(slow_seconds, abs=SOUND)
    assert slow_seconds > 1.4 * await seconds_of(ANSWER)
    assert not it.recording.of(ErrorOccurred)


async def test_an_agent_brings_its_voice_and_its_recogniser_and_gives_them_back(call: Start) -> None:
    it = await call(ANSWER, ANSWER, ANSWER)
    async with (
        espeak.TTS(rate=90) as slow,
        pocketsphinx.STT(grammar=OTHER, fillers=pocketsphinx.FILLERS) as ears,
    ):
        await slow.start()
        first, second = it.session.agent, Agent("Be slow.", overrides=AgentOverrides(tts=slow, stt=ears))
        it.talker.say("table for friday please")
        await it.turns(1)
        await it.session.update_agent(second)
        it.talker.say("at seven")
        await it.turns(2)
        handoff = it.session.update_agent(first)
        await handoff
        assert handoff.outcome == "completed"
        it.talker.say("table for friday please")
        await it.turns(3)
        slow_seconds = len(await spoken(slow, ANSWER)) / 2 / RATE
        await it.session.close()
    assert [text for who, text in it.messages if who == "user"] == [
        "table for friday please",
        "at seven",
        "table for friday please",
    ]
    seconds = [until - since for since, until in it.talker.heard()]
    usual = await seconds_of(ANSWER)
    assert seconds == [pytest.approx(length, abs=SOUND) for length in (usual, slow_seconds, usual)]
    assert not it.recording.of(ErrorOccurred)
