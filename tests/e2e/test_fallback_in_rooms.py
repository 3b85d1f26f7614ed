"""Fallbacks in a room, on both servers, with real ears and voices: every first choice fails in one turn of a call.

The caller's synthetic speech goes through the room. pocketsphinx recognises it and espeak answers, once as the first
choice, which the test breaks, and once as the second one; only the model's words are scripted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
from livekit import rtc

from kit.e2e.calls import GRAMMAR, OPTIONS, seconds_of
from kit.e2e.faults import FaultySTT, FaultyTTS
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.talker import Talker, calling, record
from vivavoce.agents import Agent, AgentSession
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import Recording, ScriptedLLM
from vivavoce.pipelines import CascadingPipeline, FallbackLLM, FallbackSTT, FallbackTTS
from vivavoce.pipelines.core.errors import ProviderConnectionError
from vivavoce.plugins import espeak, pocketsphinx, silero

pytestmark = [pytest.mark.real_server, pytest.mark.e2e, pytest.mark.timeout(60)]

ASKS = "table for friday please"
ANSWER = "the kitchen of this house takes the last order at ten in the evening"
SOUND = 0.6
"""Seconds by which the length of the answer may differ: the word that was begun twice, and the pause between voices."""


@dataclass
class Call:
    """The caller, the session, its events, and the first choices that the test breaks."""

    talker: Talker
    session: AgentSession[object]
    recording: Recording
    ears: FaultySTT
    voice: FaultyTTS


@pytest.fixture
async def call(room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room) -> AsyncIterator[Call]:
    """A call whose components are fallbacks."""
    async with AsyncExitStack() as stack:
        vad = await stack.enter_async_context(silero.VAD())
        stt = await stack.enter_async_context(pocketsphinx.STT(grammar=GRAMMAR, fillers=pocketsphinx.FILLERS))
        tts = await stack.enter_async_context(espeak.TTS(rate=160))
        await tts.start()
        lines = await record((ASKS,))
        ears, voice = FaultySTT(stt), FaultyTTS(tts)
        down = ScriptedLLM(default=[ProviderConnectionError("the test has no such server", provider="scripted")])
        pipeline = CascadingPipeline(
            vad=vad,
            stt=FallbackSTT([ears, stt]),
            llm=FallbackLLM([down, ScriptedLLM(default=ANSWER)]),
            tts=FallbackTTS([voice, tts]),
        )
        session = AgentSession[object](Agent("Be brief."), pipeline, options=OPTIONS)
        stack.push_async_callback(session.close)
        recording = Recording()
        recording.listen(session)
        await session.start(agent_room)
        talker = await stack.enter_async_context(calling(room_server, room_name, lines))
        yield Call(talker, session, recording, ears, voice)


async def test_with_every_first_choice_down_the_caller_is_understood_and_hears_the_whole_answer_once(
    call: Call,
) -> None:
    call.voice.fault, call.voice.after = "raises", 1.0
    call.talker.say(ASKS)
    await call.talker.until(lambda: call.session.user_state.value == "speaking")
    await call.talker.listens(0.4)
    call.ears.cut()  # in the middle of the words
    await call.talker.until(lambda: len(call.session.turns) == 1)
    await call.talker.listens(0.4)

    assert [(one.role, one.content) for one in call.session.history.messages()] == [
        ("user", ASKS),
        ("assistant", ANSWER),
    ]
    (turn,) = call.session.turns
    assert turn.outcome == "completed"
    assert [(one.component, one.provider, one.successor.partition("/")[0]) for one in turn.fallbacks] == [
        ("stt", "faulty", "pocketsphinx"),
        ("llm", "scripted", "scripted"),
        ("tts", "faulty", "espeak"),
    ]
    assert all(event.is_recovered and event.successor for event in call.recording.of(ErrorOccurred))
    heard = sum(end - start for start, end in call.talker.heard())
    assert heard == pytest.approx(await seconds_of(ANSWER), abs=SOUND)
