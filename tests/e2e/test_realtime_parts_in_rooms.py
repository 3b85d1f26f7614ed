"""Agents, changes of components and fallbacks of a realtime pipeline in a room: real ears, real voices, real audio.

The model answers with text, which espeak speaks; pocketsphinx makes the caller's words. Two scripted realtime servers
stand for the model and the one that it falls back to. All facts in one call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
from livekit import rtc

from kit.e2e.calls import GRAMMAR, OPTIONS
from kit.e2e.faults import FaultySTT, FaultyTTS
from kit.e2e.realtime_calls import RealtimeCall
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.talker import RATE, calling, record, spoken
from vivavoce.agents import Agent, AgentOverrides, AgentSession, EndpointingOptions
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import Recording
from vivavoce.pipelines import (
    FallbackRealtime,
    FallbackSTT,
    FallbackTTS,
    RealtimeOptions,
    RealtimePipeline,
)
from vivavoce.pipelines.core.retry import RetryOptions
from vivavoce.pipelines.testing.realtime_server import ScriptedRealtimeServer
from vivavoce.plugins import espeak, openai, pocketsphinx, silero

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(120),
    pytest.mark.test_all("real ears and voices: a recogniser may mishear a word on a busy machine"),
]

ASKS, SEVEN, YES = "table for friday please", "at seven", "yes please"
ANSWER = "We have a table for you on friday"
SHORT = "We do"
GERMAN = "Wir haben Platz"
BACK = "one moment"
OTHER = "#JSGF V1.0; grammar other; public <turn> = at seven | goodbye;"
PATIENT = 0.7
"""Seconds of silence that end a turn in the second agent's time; 0.4 in the first one's."""
SOUND = 0.35
BREAK = 0.6
"""Seconds by which an answer may differ whose voice broke: the word that was begun twice, and the pause between."""


@dataclass
class Parts:
    """The parts of the call, each of which the test breaks or counts."""

    call: RealtimeCall
    servers: list[ScriptedRealtimeServer]
    ears: dict[str, FaultySTT]
    voices: dict[str, FaultyTTS]

    async def lengths(self, *said: tuple[str, str]) -> list[float]:
        """Seconds of texts, each in one of the voices."""
        return [len(await spoken(self.voices[name], text)) / 2 / RATE for name, text in said]


@pytest.fixture
async def parts(room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room) -> AsyncIterator[Parts]:
    """A call whose model, recogniser and voice are fallbacks."""
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(ScriptedRealtimeServer()) for _ in range(2)]
        models = [openai.RealtimeModel(model="scripted", base_url=server.url) for server in servers]
        vad = silero.VAD()
        usual_ears, others = [
            pocketsphinx.STT(grammar=grammar, fillers=pocketsphinx.FILLERS) for grammar in (GRAMMAR, OTHER)
        ]
        usual, slow, german = espeak.TTS(rate=160), espeak.TTS(rate=80), espeak.TTS(voice="de", rate=120)
        for component in (*models, vad, usual_ears, others, usual, slow, german):
            await stack.enter_async_context(component)
        for voice in (usual, slow, german):
            await voice.start()
        members = {"first": usual_ears, "second": usual_ears, "agent": others, "change": usual_ears}
        ears = {name: FaultySTT(stt, name) for name, stt in members.items()}
        speakers = {"first": usual, "second": usual, "agent": slow, "change": german}
        voices = {name: FaultyTTS(tts, name) for name, tts in speakers.items()}
        pipeline = RealtimePipeline(
            FallbackRealtime(models),
            vad=vad,
            stt=FallbackSTT([ears["first"], ears["second"]]),
            tts=FallbackTTS([voices["first"], voices["second"]]),
            options=RealtimeOptions(
                answers="text", stt_reconnect=RetryOptions(waits=(0.2,)), tts_retry=RetryOptions(waits=())
            ),
        )
        lines = await record((ASKS, SEVEN, YES))
        session = AgentSession[object](Agent("Be brief."), pipeline, options=OPTIONS)
        stack.push_async_callback(session.close)
        recording = Recording()
        recording.listen(session)
        await session.start(agent_room)
        talker = await stack.enter_async_context(calling(room_server, room_name, lines))
        yield Parts(RealtimeCall(session, talker, recording, servers[0]), servers, ears, voices)


async def test_a_realtime_call_keeps_every_word_through_fallbacks_a_handoff_and_a_change_of_voice_and_language(
    parts: Parts,
) -> None:
    it, (lost, other), ears, voices = parts.call, parts.servers, parts.ears, parts.voices
    session, talker, first = it.session, it.talker, it.session.agent
    own = AgentOverrides(stt=ears["agent"], tts=voices["agent"], endpointing=EndpointingOptions(min_delay=PATIENT))

    # Recogniser and voice are lost in the middle of words; then the model, between two turns.
    lost.answers(ANSWER)
    voices["first"].fault = "raises"
    talker.say(ASKS)
    await talker.until(lambda: session.user_state.value == "speaking")
    await talker.listens(0.4)
    ears["first"].cut()
    (broken,) = await it.turns(1)
    lost.refuse(*[503] * 20)
    lost.connection.abort()
    other.answers(SHORT, GERMAN)
    await other.connected()

    # The second agent's ears, voice and delay serve until the first one is back, which speaks with its own.
    await session.update_agent(Agent("Be slow.", overrides=own))
    talker.say(SEVEN)
    _, patient = await it.turns(2)
    back = session.update_agent(first)
    await back
    await session.say(BACK)

    # Voice and language change in the middle of the call.
    change = session.update_components(tts=voices["change"], stt=ears["change"])
    await change
    assert (back.outcome, change.outcome) == ("completed", "completed")
    talker.say(YES)
    *_, last = await it.turns(3)
    await session.close()

    assert [(turn.outcome, turn.endpointing_delay) for turn in (broken, patient, last)] == [
        ("completed", 0.4),
        ("completed", PATIENT),
        ("completed", 0.4),
    ]
    assert [(one.component, one.successor) for one in broken.fallbacks] == [
        ("stt", "faulty/second"),
        ("tts", "faulty/second"),
    ]
    said = [("user", ASKS), ("assistant", ANSWER), ("user", SEVEN), ("assistant", SHORT), ("assistant", BACK)]
    assert it.messages == [*said, ("user", YES), ("assistant", GERMAN)]
    assert set(said[:2]) < set(other.connection.conversation.texts)  # sent again
    assert (ears["agent"].finals, ears["change"].finals) == ([SEVEN], [YES])
    errors = it.recording.of(ErrorOccurred)
    assert {event.source for event in errors} == {"stt", "tts", "realtime_model"}
    assert all(event.is_recovered for event in errors)
    rest, *others = voices["second"].spoken
    assert ANSWER.endswith(rest)  # from the word at which the first voice broke
    assert (others, voices["agent"].spoken, voices["change"].spoken) == ([BACK], [SHORT], [GERMAN])
    wanted = await parts.lengths(("second", ANSWER), ("agent", SHORT), ("second", BACK), ("change", GERMAN))
    heard = [until - since for since, until in talker.heard(quiet=0.6)]
    assert heard == [pytest.approx(length, abs=BREAK if number == 0 else SOUND) for number, length in enumerate(wanted)]
