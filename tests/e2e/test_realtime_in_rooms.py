"""Scenarios 1, 7, 12, 14 and 16 with a realtime model in a room, on both room servers.

`openai.RealtimeModel` and the official SDK talk to the scripted realtime server over a real websocket; silero hears,
and the caller's synthetic speech goes through the room. Tolerances as in `test_scenarios_in_rooms`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from livekit import rtc

from kit.e2e.realtime_calls import SECONDS_PER_WORD, RealtimeCall, caller_and_realtime_agent
from kit.e2e.room_endpoint import RoomEndpoint
from vivavoce.agents import Agent, function_tool
from vivavoce.agents.events import ErrorOccurred
from vivavoce.pipelines.testing.realtime_server import (
    AnswerFault,
    AskedFor,
    ScriptedAnswer,
    ScriptedCall,
    ScriptedRealtimeServer,
    ScriptedWords,
)

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(120),
    pytest.mark.test_all(
        "real sound, measured in real time; tests of sessions hold the same scenarios in virtual time"
    ),
]

ROOM = 0.6
SOUND = 0.35

ASKS = "table for friday please"
ANSWER = "We have a table for you on friday"
REST = "and that was the rest"
LONG = (
    "the kitchen of this house takes the last order at ten in the evening and every table by the window is kept for "
    "exactly fifteen minutes"
)

Start = Callable[..., Awaitable[RealtimeCall]]


def seconds_of(text: str) -> float:
    """How long the server's voice takes to say a text."""
    return SECONDS_PER_WORD * len(text.split())


@pytest.fixture
async def call(room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room) -> AsyncIterator[Start]:
    """Start the test's call."""
    async with caller_and_realtime_agent(room_server, room_name, agent_room) as start:
        yield start


@pytest.mark.both_servers
@pytest.mark.parametrize("is_local", [True, False], ids=["turns-ended-here", "turns-ended-by-the-server"])
async def test_scenario_1_a_turn_is_answered_with_the_models_own_voice(call: Start, is_local: bool) -> None:
    server = ScriptedRealtimeServer()
    server.hears(ScriptedWords(text=ASKS, delay=0.5))  # after the answer has begun
    server.answers(ANSWER)
    it = await call(server, is_local=is_local)
    it.talker.say(ASKS)
    (turn,) = await it.turns(1)
    assert it.messages == [("user", ASKS), ("assistant", ANSWER)]
    assert turn.outcome == "completed"
    assert it.states("agent")[-2:] == ["speaking", "idle"]
    ((_, said_until),) = it.talker.said()
    ((heard_from, heard_until),) = it.talker.heard()
    assert 0.4 <= heard_from - said_until <= 1.5
    assert heard_until - heard_from == pytest.approx(seconds_of(ANSWER), abs=SOUND)


async def test_scenario_7_a_short_sound_cuts_nothing_and_words_cut_to_the_word(call: Start) -> None:
    server = ScriptedRealtimeServer()
    server.hears(ASKS, "wait stop please")
    server.answers(LONG, ANSWER)
    it = await call(server)
    it.talker.say(ASKS)
    await it.talker.hears_the_agent(for_seconds=0.8)
    it.talker.say("yeah")
    await it.talker.listens(1.2)
    assert it.session.agent_state.value == "speaking"
    it.talker.say("wait stop please")
    first, second = await it.turns(2)
    assert (first.outcome, second.outcome) == ("interrupted", "completed")
    began, fell_silent = it.talker.heard()[0][0], it.talker.heard()[-2][1]
    cut, answer = it.session.history.messages("assistant")
    assert (cut.interrupted, answer.content) == (True, ANSWER)
    assert LONG.startswith(cut.content)
    assert 0 < fell_silent - began - seconds_of(cut.content) + SOUND
    told = server.events("conversation.item.truncate")[0]["audio_end_ms"] / 1000
    assert told == pytest.approx(seconds_of(cut.content), abs=2 * SECONDS_PER_WORD)
    assert [message.content for message in it.session.history.messages("user")] == [ASKS, "wait stop please"]
    types = [event["type"] for event in server.connection.received]
    assert types.count("input_audio_buffer.commit") == 2


async def test_scenario_12_interrupt_before_the_first_audio_during_it_and_after_it(call: Start) -> None:
    server = ScriptedRealtimeServer()
    server.answers(ScriptedAnswer(text=LONG, delay=20), LONG, "Fine", ANSWER)
    server.hears(ASKS)
    it = await call(server)
    before = it.session.reply("Greet them.")
    await server.received("response.create")
    await it.session.interrupt()
    await before
    assert (before.outcome, before.heard_text, it.talker.heard()) == ("cancelled", "", [])
    assert await server.received("response.cancel")

    during = it.session.reply("Greet them.")
    await it.talker.hears_the_agent(for_seconds=1.0)
    cut_at = it.talker.now
    await it.session.interrupt()
    await it.session.interrupt()
    await it.talker.listens(1.0)
    assert during.interrupted
    ((began, fell_silent),) = it.talker.heard()
    assert fell_silent <= cut_at + ROOM
    assert fell_silent - began == pytest.approx(seconds_of(during.heard_text), abs=SOUND + SECONDS_PER_WORD)
    assert await server.received("conversation.item.truncate")

    whole = it.session.reply("Greet them.")
    await whole
    await it.session.interrupt()
    assert (whole.outcome, whole.heard_text) == ("completed", "Fine")
    it.talker.say(ASKS)
    (turn,) = await it.turns(1)
    assert (turn.outcome, turn.heard_text) == ("completed", ANSWER)


async def test_scenario_14_an_answer_that_fails_costs_its_turn_and_one_whose_connection_is_lost_goes_on(
    call: Start,
) -> None:
    server = ScriptedRealtimeServer()
    server.hears("at seven", "yes please", ASKS)
    server.answers(
        ScriptedAnswer(text=LONG, fault=AnswerFault.FAIL, fault_after=4),
        ScriptedAnswer(text=LONG, fault=AnswerFault.CLOSE, fault_after=4),
        REST,
        ANSWER,
    )
    it = await call(server)
    it.talker.say("at seven")
    (failed,) = await it.turns(1)
    assert (failed.outcome, it.session.agent_state.value) == ("failed", "idle")
    assert LONG.startswith(failed.heard_text)

    it.talker.say("yes please")
    _, whole = await it.turns(2)
    assert (whole.outcome, it.session.agent_state.value) == ("completed", "idle")
    assert whole.heard_text.endswith(REST)
    assert LONG.startswith(whole.heard_text.removesuffix(REST).strip())
    await server.connected(2)

    it.talker.say(ASKS)
    *_, good = await it.turns(3)
    assert (good.outcome, good.heard_text) == ("completed", ANSWER)
    assert ("user", "at seven") in server.connection.conversation.texts  # sent again
    assert it.recording.of(ErrorOccurred)


class Host(Agent):
    """Books tables; the second one fails."""

    def __init__(self) -> None:
        super().__init__("Be brief.")
        self.booked: list[str] = []

    @function_tool
    async def book(self, day: str) -> str:
        """Book a table."""
        self.booked.append(day)
        if day == "monday":
            raise RuntimeError("closed on mondays")
        return f"booked for {day}"


@pytest.mark.parametrize("day", ["friday", "monday"])
async def test_scenario_16_a_tool_is_called_and_its_output_or_its_failure_is_answered(call: Start, day: str) -> None:
    def mind(asked: AskedFor) -> ScriptedAnswer | str:
        outputs = [item["output"] for item in asked.items if item["type"] == "function_call_output"]
        if outputs:
            return ANSWER if "booked" in outputs[-1] else "That did not work"
        return ScriptedAnswer(calls=(ScriptedCall(name="book", arguments=f'{{"day": "{day}"}}'),))

    server = ScriptedRealtimeServer(mind=mind)
    server.hears(ASKS)
    host = Host()
    it = await call(server, host)
    it.talker.say(ASKS)
    (turn,) = await it.turns(1)
    answer = ANSWER if day == "friday" else "That did not work"
    assert (turn.outcome, turn.heard_text, host.booked) == ("completed", answer, [day])
    kinds = [item["type"] for item in server.connection.conversation]
    assert kinds == ["message", "function_call", "function_call_output", "message"]
    ((began, fell_silent),) = it.talker.heard()
    assert fell_silent - began == pytest.approx(seconds_of(answer), abs=SOUND)
