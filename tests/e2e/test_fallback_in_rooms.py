"""Fallbacks in a room, on both servers, with real ears and voices: first choices fail, come back, and all are down.

The caller's synthetic speech goes through the room. pocketsphinx recognises it and espeak answers, once as the first
choice and once as the second one, which the test breaks; only the model's words are scripted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

import anyio
import pytest
from livekit import rtc

from kit.e2e.calls import GRAMMAR, OPTIONS, seconds_of
from kit.e2e.faults import FaultySTT, FaultyTTS
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.talker import RATE, Talker, calling, record, spoken
from kit.limits import LIMIT
from vivavoce.agents import Agent, AgentSession
from vivavoce.agents.events import ErrorOccurred, UserTranscript
from vivavoce.agents.records import TurnRecord
from vivavoce.agents.testing import HANG, Recording, ScriptedLLM
from vivavoce.pipelines import (
    CascadingOptions,
    CascadingPipeline,
    FallbackLLM,
    FallbackLLMOptions,
    FallbackSTT,
    FallbackSTTOptions,
    FallbackTTS,
    FallbackTTSOptions,
)
from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderTimeoutError
from vivavoce.pipelines.core.retry import RetryOptions
from vivavoce.plugins import espeak, pocketsphinx, silero

pytestmark = [
    pytest.mark.real_server,
    pytest.mark.e2e,
    pytest.mark.timeout(120),
    pytest.mark.test_all("a recogniser may mishear a word on a busy machine"),
]

ASKS, SEVEN = "table for friday please", "at seven"
ANSWER = "the kitchen of this house takes the last order at ten in the evening"
SHORT = "We do have a table"
APOLOGY = "please call again"
SOUND = 0.6
"""Seconds by which the length of the answer may differ: the word that was begun twice, and the pause between voices."""
DOWN = ProviderConnectionError("the test has no such server", provider="scripted", retryable=False)


@dataclass
class Call:
    """The caller, the session, its events, its recogniser, and the members that the test breaks."""

    talker: Talker
    session: AgentSession[object]
    recording: Recording
    stt: FallbackSTT
    ears: tuple[FaultySTT, FaultySTT]
    voices: tuple[FaultyTTS, FaultyTTS]

    async def turns(self, count: int) -> list[TurnRecord]:
        """Wait until so many turns have ended and the caller has heard the last of it; return them."""
        await self.talker.until(lambda: len(self._ended) >= count)
        await self.talker.listens(0.4)
        return self._ended

    @property
    def _ended(self) -> list[TurnRecord]:
        return [turn for turn in self.session.turns if turn.kind == "turn"]

    @property
    def messages(self) -> list[tuple[str, str]]:
        return [(one.role, one.content) for one in self.session.history.messages()]


Start = Callable[..., Awaitable[Call]]


@pytest.fixture
async def call(room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room) -> AsyncIterator[Start]:
    """Start the test's call, whose components are fallbacks."""
    async with AsyncExitStack() as stack:
        vad = await stack.enter_async_context(silero.VAD())
        inner = await stack.enter_async_context(pocketsphinx.STT(grammar=GRAMMAR, fillers=pocketsphinx.FILLERS))
        usual = await stack.enter_async_context(espeak.TTS(rate=160))
        await usual.start()
        lines = await record((ASKS, SEVEN))

        async def start(
            *models: ScriptedLLM,
            first_voice: espeak.TTS | None = None,
            stt: FallbackSTTOptions | None = None,
            llm: FallbackLLMOptions | None = None,
            tts: FallbackTTSOptions | None = None,
            apology: str = "",
        ) -> Call:
            ears = FaultySTT(inner, "first"), FaultySTT(inner, "second")
            voices = FaultyTTS(first_voice or usual, "first"), FaultyTTS(usual, "second")
            recogniser = FallbackSTT(ears, stt)
            pipeline = CascadingPipeline(
                vad=vad,
                stt=recogniser,
                llm=FallbackLLM(models, llm),
                tts=FallbackTTS(voices, tts),
                options=CascadingOptions(stt_reconnect=RetryOptions(waits=(0.2,)), tts_retry=RetryOptions(waits=())),
            )
            session = AgentSession[object](Agent("Be brief."), pipeline, options=replace(OPTIONS, apology=apology))
            stack.push_async_callback(session.close)
            recording = Recording()
            recording.listen(session)
            await session.start(agent_room)
            talker = await stack.enter_async_context(calling(room_server, room_name, lines))
            return Call(talker, session, recording, recogniser, ears, voices)

        yield start


def fallbacks(turn: TurnRecord) -> list[tuple[str, str]]:
    """Component and successor of each."""
    return [(one.component, one.successor) for one in turn.fallbacks]


async def test_with_every_first_choice_down_the_caller_is_understood_and_hears_the_whole_answer_once(
    call: Start,
) -> None:
    it = await call(ScriptedLLM(default=[DOWN]), ScriptedLLM(default=ANSWER))
    it.voices[0].fault, it.voices[0].after = "raises", 1.0
    it.talker.say(ASKS)
    await it.talker.until(lambda: it.session.user_state.value == "speaking")
    await it.talker.listens(0.4)
    it.ears[0].cut()  # in the middle of the words
    (turn,) = await it.turns(1)

    assert it.messages == [("user", ASKS), ("assistant", ANSWER)]
    assert turn.outcome == "completed"
    assert fallbacks(turn) == [("stt", "faulty/second"), ("llm", "scripted"), ("tts", "faulty/second")]
    assert all(event.is_recovered and event.successor for event in it.recording.of(ErrorOccurred))
    heard = sum(end - start for start, end in it.talker.heard())
    assert heard == pytest.approx(await seconds_of(ANSWER), abs=SOUND)


async def test_first_choices_that_are_late_are_passed_over_and_serve_again_once_they_work(call: Start) -> None:
    first, second = ScriptedLLM([HANG], default=SHORT), ScriptedLLM(default=SHORT)
    async with espeak.TTS(rate=80) as slow:
        await slow.start()
        it = await call(
            first,
            second,
            first_voice=slow,
            stt=FallbackSTTOptions(final_limit=1.2, retry_after=3.0),
            llm=FallbackLLMOptions(first_token=0.6, check_every=1.0),
            tts=FallbackTTSOptions(first_byte=1.0, check_every=1.0),
        )
        it.ears[0].is_mute = True
        it.voices[0].fault, it.voices[0].after = "hangs", 0.0
        it.talker.say(ASKS)
        (late,) = await it.turns(1)
        assert late.outcome == "completed"
        assert fallbacks(late) == [("stt", "faulty/second"), ("llm", "scripted"), ("tts", "faulty/second")]
        errors = it.recording.of(ErrorOccurred)
        assert {event.source for event in errors} == {"stt", "llm", "tts"}
        assert all(event.is_recovered and isinstance(event.error, ProviderTimeoutError) for event in errors)

        # The recogniser comes back by time, since a check shows no speed; model and voice by a check.
        it.ears[0].is_mute = False
        await it.talker.until(lambda: it.stt.model == "faulty/first")
        await it.talker.until(lambda: len(first.requests) >= 2 and bool(it.voices[0].spoken))
        await it.talker.listens(0.3)
        it.talker.say(SEVEN)
        _, well = await it.turns(2)
        slow_seconds = len(await spoken(slow, SHORT)) / 2 / RATE

    assert (well.outcome, fallbacks(well)) == ("completed", [])
    assert it.messages == [("user", ASKS), ("assistant", SHORT), ("user", SEVEN), ("assistant", SHORT)]
    assert ([ears.finals for ears in it.ears], len(second.requests)) == ([[SEVEN], [ASKS]], 1)
    usual_seconds = await seconds_of(SHORT)
    assert slow_seconds > 1.4 * usual_seconds
    seconds = [until - since for since, until in it.talker.heard()]
    assert seconds == [pytest.approx(usual_seconds, abs=0.35), pytest.approx(slow_seconds, abs=0.35)]


async def test_with_all_fallbacks_down_the_call_goes_on_and_without_any_ears_it_ends_with_an_apology(
    call: Start,
) -> None:
    first, second = ScriptedLLM([DOWN], default=SHORT), ScriptedLLM([DOWN], default=SHORT)
    it = await call(first, second, apology=APOLOGY)
    it.talker.say(SEVEN)
    await it.turns(1)  # without a model
    for voice in it.voices:
        voice.is_down = True
    it.talker.say(SEVEN)
    await it.turns(2)  # without a voice
    for voice in it.voices:
        voice.is_down = False
    it.talker.say(SEVEN)
    turns = await it.turns(3)
    assert [turn.outcome for turn in turns] == ["failed", "failed", "completed"]
    final = [event.source for event in it.recording.of(ErrorOccurred) if not event.is_recovered]
    assert final == ["llm", "tts"]
    assert it.messages == [*[("user", SEVEN)] * 3, ("assistant", SHORT)]
    requests = [request.context.messages("user") for request in (*first.requests, *second.requests)]
    assert [message.content for message in max(requests, key=len)] == [SEVEN] * 3

    it.talker.say(ASKS)
    await it.talker.until(lambda: it.recording.of(UserTranscript)[-1].text.startswith("table for"))
    for ears in it.ears:
        ears.is_down = True
    it.ears[0].cut()
    with anyio.fail_after(LIMIT):
        report = await it.session.wait_closed()
    assert report.reason == "error"
    users = [text for who, text in it.messages if who == "user"]
    assert len(users) == 4
    assert users[-1].startswith("table for")
    assert it.messages[-1] == ("assistant", APOLOGY)
    since, until = it.talker.heard(quiet=0.5)[-1]
    assert until - since == pytest.approx(await seconds_of(APOLOGY), abs=SOUND)
