"""A whole spoken call in free sentences, through an AgentSession, in virtual time."""

from __future__ import annotations

from vivavoce.agents import Agent, function_tool
from vivavoce.agents.testing import SessionHarness
from vivavoce.plugins import rules

TALK = rules.SlotFilling(
    slots=(
        rules.Slot(name="day", parser=rules.days(), ask="For which day?", heard="On {value}."),
        rules.Slot(
            name="time", parser=rules.times(), ask="At what time?", heard="At {value}.", say=rules.time_in_words
        ),
        rules.Slot(
            name="people", parser=rules.party_sizes(), ask="For how many?", heard="For {value}.", say=rules.in_words
        ),
        rules.Slot(name="name", parser=rules.names(), ask="Under which name?"),
    ),
    tool="book",
    done="I have booked {day} at {time} for {people}, {name}.",
    changed="Changed to {day} at {time} for {people}, {name}.",
    anything_else="Is the booking right?",
    ends_on="yes",
)


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("You take table bookings.")
        self.bookings: list[tuple[str, str, int, str]] = []

    @function_tool
    async def book(self, day: str, time: str, people: int, name: str) -> str:
        """Book a table."""
        self.bookings.append((day, time, people, name))
        return "booked"

    async def on_enter(self) -> None:
        await self.session.say("Hello, the Corner Table. For which day?")


CALL = [
    ("Hi, uh, a table for four on Friday, please. Sorry, Saturday.", "On saturday. For four. At what time?"),
    ("At seven. No, wait, half past seven.", "At seven thirty. Under which name?"),
    ("It's for Anna Smith.", "I have booked saturday at seven thirty for four, Anna Smith. Is the booking right?"),
    ("No.", "What shall I change?"),
    (
        "Can we make that six people instead?",
        "Changed to saturday at seven thirty for six, Anna Smith. Is the booking right?",
    ),
    ("Yes, that's right, Saturday at 7:30. Thank you. Goodbye!", "Goodbye."),
]


def test_a_call_in_free_sentences_with_corrections_books_what_was_meant() -> None:
    host = Host()
    harness = SessionHarness(host, rules.LLM(TALK))

    async def scenario(harness: SessionHarness) -> None:
        for words, answer in CALL:
            turn = await harness.user(words, spoken=True)
            if "booked" in answer or "Changed" in answer:
                turn.tool_call("book")
            turn.next_message(answer).no_more()

    harness.run(scenario)
    assert host.bookings == [("saturday", "19:30", 4, "Anna Smith"), ("saturday", "19:30", 6, "Anna Smith")]


def test_a_correction_that_interrupts_the_answer_is_what_the_booking_gets() -> None:
    host = Host()
    harness = SessionHarness(host, rules.LLM(TALK))
    harness.caller.says("Saturday at eight, Anna speaking.", 4.0, 6.0)
    harness.caller.says("No, sorry, at half past eight.", 7.0, 9.0)
    harness.caller.says("Four, no, five.", 14.0, 15.0)
    harness.caller.says("My name is Anna Smith.", 20.0, 22.0)
    harness.run(until=30.0)
    cut = [message.content for message in harness.session.history.messages() if message.interrupted]
    assert cut == ["On saturday. At eight."]
    assert host.bookings == [("saturday", "20:30", 5, "Anna Smith")]
