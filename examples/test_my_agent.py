"""Tests of an agent of your own, without keys, sound or waiting: `pytest examples/test_my_agent.py`.

Needs pytest and, for its async tests, pytest-asyncio: `pip install pytest pytest-asyncio`.
"""

import pytest

from vivavoce.agents import Agent, function_tool
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness, ToolCall, TTSFault, judge


class Billing(Agent):
    async def on_enter(self) -> None:
        await self.session.say("Billing here, what is your number?")


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("You take table bookings. Be brief.")

    @function_tool
    async def book(self, day: str, people: int) -> str:
        "Book a table."
        return f"booked: {day}, {people}"

    @function_tool
    async def to_billing(self) -> Agent:
        "Hand the caller over to billing."
        return Billing("You help with bills.")

    async def on_enter(self) -> None:
        await self.session.say("Hello, a table for when?")


BOOK = ToolCall(call_id="1", name="book", arguments='{"day": "friday", "people": 4}')
HAND_OVER = ToolCall(call_id="2", name="to_billing", arguments="{}")


def test_it_books_what_the_caller_says() -> None:
    harness = SessionHarness(Host(), ScriptedLLM([BOOK], "Done, friday for four."))
    harness.caller.says("friday for four please", 2.0, 3.5)  # seconds from the start of the call
    expect = harness.run(until=8.0).expect
    expect.next_message("Hello, a table for when?")
    expect.next_message(role="user")
    expect.tool_call("book", day="friday").returned(contains="booked")
    expect.next_message(contains="friday").interrupted(False).answered_within(0.7)
    expect.no_more()
    expect.agent_went("starting", "speaking", "idle", ("listening", 2.0), "thinking", "speaking", "idle")


def test_its_greeting_stops_when_the_caller_speaks() -> None:
    harness = SessionHarness(Host(), ScriptedLLM("For how many?"), tts=ScriptedTTS(emits_words=True))
    harness.caller.says("friday please", 0.4, 1.2)
    harness.run(until=5.0).expect.next_message("Hello, a table").interrupted()  # the heard part


def test_it_hands_bills_over() -> None:
    async def scenario(harness: SessionHarness) -> None:
        answer = await harness.user("my bill is wrong")  # typed; spoken=True says it
        answer.no_tool_call("book").tool_call("to_billing").handoff(to=Billing).next_message(contains="number")

    SessionHarness(Host(), ScriptedLLM([HAND_OVER])).run(scenario)


def test_a_broken_voice_fails_one_turn_only() -> None:
    voice = ScriptedTTS(faults={1: TTSFault("before")})  # its second sentence

    async def scenario(harness: SessionHarness) -> None:
        (await harness.user("friday")).failure(contains="tts").no_more()
        (await harness.user("hello?")).next_message("I am here.")

    SessionHarness(Host(), ScriptedLLM("For how many?", "I am here."), tts=voice).run(scenario)


@pytest.mark.asyncio
async def test_it_greets_politely() -> None:
    model = ScriptedLLM('{"passed": true, "reason": "It says hello."}')  # use a model that can judge here
    async with SessionHarness(Host()) as harness:
        await harness.expect.next_message().judge(model, intent="greets and asks for the day")
    assert not await judge(ScriptedLLM('{"passed": false, "reason": "Rude."}'), "What?", intent="greets politely")
