"""Scenarios 1, 7, 8, 11, 14, 18 and 20 in a room, on both servers, with real ears and voices on both sides.

Silero detects speech, pocketsphinx recognises it, and espeak speaks, for the agent and for the caller, whose PCM goes
through the room; only the model's words are scripted. Sound is measured on the caller's own recording, where 10 ms
windows above -40 dB count.

Tolerances, in seconds. ROOM: the delay of two WebRTC legs with jitter buffers on a busy machine. SOUND: the difference
of two measurements of one piece of speech, edges and Opus included. WORD: one more word of the agent's voice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import pytest
from livekit import rtc

from kit.e2e.calls import MURMUR, OPTIONS, Call, caller_and_agent, seconds_of
from kit.e2e.room_endpoint import RoomEndpoint
from vivavoce.agents import WakeUp
from vivavoce.agents.events import ErrorOccurred, FalseInterruption, WakeUpFired
from vivavoce.pipelines.core.errors import ProviderError

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(120),
    pytest.mark.test_all("real ears and voices; tests of sessions hold the same scenarios in virtual time"),
]

ROOM = 0.6
SOUND = 0.35
WORD = 0.5

ANSWER = "We have a table for you on friday"
LONG = (
    "the kitchen of this house takes the last order at ten in the evening and every table by the window is kept for "
    "exactly fifteen minutes"
)
"""Some six seconds without a pause that would look like silence."""


Start = Callable[..., Awaitable[Call]]


@pytest.fixture
async def call(room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room) -> AsyncIterator[Start]:
    """Start the test's call, with the model's script."""
    async with caller_and_agent(room_server, room_name, agent_room) as start:
        yield start


async def test_scenario_1_a_turn_is_answered_and_its_latency_is_the_silence_heard(call: Start) -> None:
    it = await call(ANSWER)
    it.talker.say("table for friday please")
    (turn,) = await it.turns(1)
    assert it.messages == [("user", "table for friday please"), ("assistant", ANSWER)]
    assert it.states("agent") == ["starting", "idle", "listening", "thinking", "speaking", "idle"]
    assert it.states("user") == ["speaking", "idle", "listening", "idle"]
    assert turn.outcome == "completed"
    ((_, said_until),) = it.talker.said()
    ((heard_from, heard_until),) = it.talker.heard()
    assert turn.e2e_latency is not None
    assert 0.4 <= heard_from - said_until <= 1.5
    assert -0.1 <= heard_from - said_until - turn.e2e_latency <= ROOM
    assert heard_until - heard_from == pytest.approx(await seconds_of(ANSWER), abs=SOUND)


async def test_scenario_7_a_backchannel_cuts_nothing_and_words_cut_to_the_word(call: Start) -> None:
    it = await call(LONG, ANSWER)
    it.talker.say("table for friday please")
    await it.talker.hears_the_agent(for_seconds=1.0)
    it.talker.say("yeah")
    await it.talker.listens(1.5)
    assert it.session.agent_state.value == "speaking"
    assert len(it.talker.heard()) == 1  # not even paused
    onset = it.talker.now
    it.talker.say("wait stop please")
    first, second = await it.turns(2)
    assert (first.outcome, second.outcome) == ("interrupted", "completed")
    (began, fell_silent), (answered, _) = it.talker.heard()
    assert onset < fell_silent <= onset + 0.5 + ROOM  # paused at min_duration, and never resumed
    assert answered > fell_silent
    cut, answer = it.session.history.messages("assistant")
    assert (cut.interrupted, answer.content) == (True, ANSWER)
    assert LONG.startswith(cut.content)
    assert fell_silent - began == pytest.approx(await seconds_of(cut.content), abs=SOUND + WORD)
    assert [(message.content, message.backchannel) for message in it.session.history.messages("user")] == [
        ("table for friday please", False),
        ("yeah", True),
        ("wait stop please", False),
    ]


async def test_scenario_8_a_voice_without_words_pauses_the_agent_which_is_then_heard_in_full(call: Start) -> None:
    it = await call(LONG)
    it.talker.say("at seven")
    await it.talker.hears_the_agent(for_seconds=1.0)
    it.talker.say(MURMUR)
    (turn,) = await it.turns(1)
    assert len(it.recording.of(FalseInterruption)) == 1
    assert (turn.outcome, turn.heard_text) == ("completed", LONG)
    assert it.messages == [("user", "at seven"), ("assistant", LONG)]
    parts = it.talker.heard(quiet=0.2)
    assert len(parts) == 2  # one pause
    assert parts[1][0] - parts[0][1] >= 0.2
    assert sum(end - start for start, end in parts) == pytest.approx(await seconds_of(LONG), abs=SOUND)


async def test_scenario_11_words_during_a_protected_speech_cut_nothing_and_are_answered_after_it(call: Start) -> None:
    it = await call(ANSWER)
    handle = it.session.say(LONG, interruptible=False)
    await it.talker.hears_the_agent(for_seconds=1.0)
    it.talker.say("table for friday please")
    await handle
    assert (handle.outcome, handle.heard_text) == ("completed", LONG)
    await it.turns(1)
    assert it.messages == [("assistant", LONG), ("user", "table for friday please"), ("assistant", ANSWER)]
    (request,) = it.llm.requests
    assert [m.content for m in request.context.messages("user")] == ["table for friday please"]
    ((began, fell_silent),) = it.talker.heard(quiet=ROOM)  # the answer follows at once
    assert 0.0 <= fell_silent - began - await seconds_of(LONG) - await seconds_of(ANSWER) + SOUND <= SOUND + ROOM


async def test_scenario_14_a_model_a_voice_and_ears_that_break_each_fail_one_turn_at_most(call: Start) -> None:
    broken = ProviderError("the script broke the model", provider="scripted")
    it = await call(["Let me look that up for you. ", broken], LONG, ANSWER)
    it.talker.say("at seven")
    (model,) = await it.turns(1)
    assert (model.outcome, it.session.agent_state.value) == ("failed", "idle")

    it.tts.fault = "raises"
    it.talker.say("at seven")
    _, voice = await it.turns(2)
    assert (voice.outcome, it.session.agent_state.value) == ("failed", "idle")
    assert LONG.startswith(voice.heard_text)

    it.stt.cut()
    await it.talker.until(lambda: len(it.stt.streams) == 2)
    it.talker.say("table for friday please")
    *_, good = await it.turns(3)
    assert (good.outcome, good.user_text, good.heard_text) == ("completed", "table for friday please", ANSWER)
    assert it.states("agent")[-4:] == ["listening", "thinking", "speaking", "idle"]
    sources = [event.source for event in it.recording.of(ErrorOccurred)]
    assert sources == ["llm", "tts", "stt"]


async def test_scenario_14_a_voice_that_hangs_fails_at_its_limit(call: Start) -> None:
    it = await call(LONG, ANSWER)
    it.tts.fault = "hangs"
    it.talker.say("at seven")
    (turn,) = await it.turns(1)
    assert turn.outcome == "failed"
    it.talker.say("table for friday please")
    _, good = await it.turns(2)
    assert (good.outcome, good.heard_text) == ("completed", ANSWER)


async def test_scenario_18_a_silent_caller_is_asked_an_answer_counts_and_silence_hangs_up(call: Start) -> None:
    question = "Are you still there"
    it = await call(ANSWER, wake_up=WakeUp(after=1.0, repeat=2, then="close"))
    it.session.on_wake_up = lambda level: it.session.say(question)
    await it.turns(1, kind="say")
    it.talker.say("yes please")
    await it.turns(1)
    await it.turns(3, kind="say")
    report = await it.session.wait_closed()
    assert report.reason == "user_away"
    assert report.is_clean
    assert [event.level for event in it.recording.of(WakeUpFired)] == [1, 1, 2]
    first, answer, second, third = it.talker.heard()
    for before, after in ((answer, second), (second, third)):
        assert 1.0 <= after[0] - before[1] + 0.1 <= 1.0 + 0.5 + ROOM  # the edges of sounds, the voice, the room
    assert first[1] < answer[0]


async def test_scenario_20_a_close_in_mid_speech_is_quick_and_clean(call: Start) -> None:
    it = await call()
    handle = it.session.say(LONG)
    await it.talker.hears_the_agent(for_seconds=1.0)
    closed_at = it.talker.now
    report = await it.session.close()
    assert report.is_clean
    assert report.seconds <= 1.5
    assert handle.interrupted
    assert LONG.startswith(handle.heard_text)
    assert it.messages == [("assistant", handle.heard_text)]
    await anyio.sleep(0.5)  # audio on its way; then there is no track to count by
    ((began, fell_silent),) = it.talker.heard()
    assert fell_silent <= closed_at + ROOM
    assert fell_silent - began == pytest.approx(await seconds_of(handle.heard_text), abs=SOUND + WORD)


async def test_scenario_20_a_provider_that_does_not_close_is_named_and_the_rest_closes(call: Start) -> None:
    it = await call(ANSWER)
    it.talker.say("at seven")
    await it.turns(1)
    it.stt.is_stuck = True
    report = await it.session.close()
    assert report.seconds <= OPTIONS.close_timeout + 1.0
    assert [step.name for step in report.steps if step.error] == ["pipeline"]
    assert report.steps[-1].name != "pipeline"  # the later ones ran
    assert it.session.agent_state.value == "closed"
