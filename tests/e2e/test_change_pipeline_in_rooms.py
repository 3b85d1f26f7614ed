"""Scenario 27 in a room, on both room servers: a call goes from a realtime model to a cascade and back, and falls back.

The realtime side is the official SDK over a real websocket to the scripted server; the cascade hears with silero and
pocketsphinx and speaks with espeak. The caller's synthetic speech goes through the room.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
from livekit import rtc

from kit.e2e.calls import GRAMMAR
from kit.e2e.realtime_calls import RealtimeCall, caller_and_realtime_agent
from kit.e2e.room_endpoint import RoomEndpoint
from vivavoce.agents.events import ErrorOccurred, PipelineChanged
from vivavoce.agents.testing import ScriptedLLM
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.testing.realtime_server import AnswerFault, ScriptedAnswer, ScriptedRealtimeServer
from vivavoce.plugins import espeak, pocketsphinx, silero

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(120),
    pytest.mark.test_all("a recogniser may mishear a word on a busy machine"),
]

ASKS = "table for friday please"
ANSWER = "We have a table for you on friday"
LONG = "the kitchen of this house takes the last order at ten in the evening"

Start = Callable[..., Awaitable[RealtimeCall]]


@pytest.fixture
async def call(room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room) -> AsyncIterator[Start]:
    """Start the test's call."""
    async with caller_and_realtime_agent(room_server, room_name, agent_room) as start:
        yield start


@pytest.fixture
async def make_cascade() -> AsyncIterator[Callable[..., CascadingPipeline]]:
    """Make a cascade with real ears and a real voice, whose model answers with the script."""
    async with AsyncExitStack() as stack:
        vad = await stack.enter_async_context(silero.VAD())
        stt = await stack.enter_async_context(pocketsphinx.STT(grammar=GRAMMAR, fillers=pocketsphinx.FILLERS))
        tts = await stack.enter_async_context(espeak.TTS(rate=160))
        await tts.start()
        yield lambda *script: CascadingPipeline(vad=vad, stt=stt, llm=ScriptedLLM(*script), tts=tts)


async def test_a_call_goes_to_a_cascade_and_back_to_the_model_which_is_told_what_it_missed(
    call: Start, make_cascade: Callable[..., CascadingPipeline]
) -> None:
    server = ScriptedRealtimeServer()
    server.hears(ASKS, "yes please")
    server.answers(ANSWER, "Goodbye")
    it = await call(server)
    realtime = it.session.pipeline
    it.talker.say(ASKS)
    await it.talker.hears_the_agent(for_seconds=0.3)
    there = it.session.update_pipeline(make_cascade(LONG))  # while it speaks
    await it.turns(1)
    await there
    assert there.outcome == "completed"
    it.talker.say("at seven")
    await it.turns(2)

    back = it.session.update_pipeline(realtime)
    await back
    assert back.outcome == "completed"
    it.talker.say("yes please")
    await it.turns(3)
    assert [turn.outcome for turn in it.session.turns] == ["completed"] * 3
    said = [("user", ASKS), ("assistant", ANSWER), ("user", "at seven"), ("assistant", LONG)]
    assert it.messages == [*said, ("user", "yes please"), ("assistant", "Goodbye")]
    assert server.connection.conversation.texts[:4] == said
    changes = [(event.old, event.pipeline) for event in it.recording.of(PipelineChanged)]
    assert changes == [("realtime", "cascading"), ("cascading", "realtime")]
    assert not it.recording.of(ErrorOccurred)
    assert len(it.talker.heard()) >= 3


async def test_a_call_whose_model_is_gone_for_good_goes_on_with_the_cascade(
    call: Start, make_cascade: Callable[..., CascadingPipeline]
) -> None:
    server = ScriptedRealtimeServer()
    server.hears(ASKS)
    server.answers(ScriptedAnswer(text=LONG, fault=AnswerFault.CLOSE, fault_after=4))
    cascade = make_cascade(ANSWER)
    it = await call(server, fallback=cascade)
    server.refuse(*[503] * 30)
    it.talker.say(ASKS)
    (lost,) = await it.turns(1)
    assert lost.outcome == "failed"
    await it.talker.until(lambda: it.session.pipeline is cascade)
    it.talker.say("at seven")
    *_, good = await it.turns(2)
    assert (good.outcome, good.heard_text) == ("completed", ANSWER)
    assert it.messages[-2:] == [("user", "at seven"), ("assistant", ANSWER)]
    assert all(event.is_recovered for event in it.recording.of(ErrorOccurred) if event.source == "realtime_model")
