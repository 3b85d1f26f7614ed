"""The demo's agent: a table host that greets, asks for day, time and party size, and books through a function tool."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from vivavoce.agents.agent import Agent
from vivavoce.agents.cli.demo.speech import Speech
from vivavoce.pipelines.cascading import CascadingOptions, CascadingPipeline
from vivavoce.pipelines.llm.base import LLM
from vivavoce.pipelines.llm.tools import function_tool

if TYPE_CHECKING:
    from vivavoce.plugins import rules

GREETING = "Hello, this is the corner table."

HOUSE_RULES = (
    "Please let me read you our house rules. We keep every table for fifteen minutes. The kitchen takes the last order "
    "at ten in the evening. Children and quiet dogs are welcome in the garden."
)


@dataclass(frozen=True, slots=True)
class Booking:
    """One booked table."""

    day: str
    time: str
    people: int


@dataclass(slots=True)
class Bookings:
    """The bookings that the tool has stored, newest last; the session's userdata."""

    made: list[Booking] = field(default_factory=list)

    @property
    def current(self) -> Booking | None:
        """The booking that counts: a correction replaces it."""
        return self.made[-1] if self.made else None


class TableHost(Agent):
    """Takes one booking.

    Args:
        bookings: Where `book` stores it.
    """

    def __init__(self, bookings: Bookings) -> None:
        super().__init__("You take bookings for the restaurant The Corner Table. Be brief.")
        self.bookings = bookings

    @function_tool
    async def book(self, day: str, time: str, people: int) -> str:
        """Book a table, or change the booking made in this call.

        Args:
            day: A weekday, "tonight" or "tomorrow".
            time: Such as "19:30".
            people: How many will come.
        """
        self.bookings.made.append(Booking(day, time, people))
        return f"booked: {day}, {time}, {people}"

    async def on_enter(self) -> None:
        await self.session.say(f"{GREETING} {booking().slots[0].ask}")


@cache
def booking() -> rules.SlotFilling:
    """Return the rules of the host's answers."""
    from vivavoce.plugins import rules

    def guests(value: rules.Value) -> str:
        return f"{rules.in_words(value)} {'guest' if value == 1 else 'guests'}"

    return rules.SlotFilling(
        slots=(
            rules.Slot(
                name="day", parser=rules.days(), ask="For which day would you like a table?", heard="On {value}."
            ),
            rules.Slot(
                name="time", parser=rules.times(), ask="At what time?", heard="At {value}.", say=rules.time_in_words
            ),
            rules.Slot(
                name="people",
                parser=rules.party_sizes(largest=12),
                ask="For how many people?",
                heard="For {value}.",
                say=guests,
            ),
        ),
        tool="book",
        done=f"I have booked {{day}} at {{time}} for {{people}}. {HOUSE_RULES}",
        changed="I have changed it to {day} at {time} for {people}.",
        anything_else="Is the booking right?",
        ends_on="yes",
        answers=(
            rules.Answer(r"\b(?:stop|wait)\b", "Certainly."),
            rules.Answer(r"^(?:hello|hi)\b", "Hello."),
        ),
        goodbye="Thank you for calling. Goodbye.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModel:
    """A language model that answers instead of the rules.

    Args:
        name: Name of the model; None takes the plugin's default, which only OpenAI has.
        base_url: URL of a server with OpenAI's API; None is OpenAI.
    """

    name: str | None = None
    base_url: str | None = None


@asynccontextmanager
async def demo_speech(
    speech: Speech, model: LanguageModel | None = None
) -> AsyncIterator[Callable[[], CascadingPipeline]]:
    """Open the parts (Silero, ears, an LLM, a voice), shared by all calls and loaded; yields a function that makes
    pipelines.

    Args:
        model: Answers the caller; None takes the rules, and then everything is offline. A language model receives all
            words that the ears recognise, the rules of pocketsphinx only those that its grammar allows.
    Raises:
        ConfigurationError: An extra, a key or a model's name is missing, or weights are damaged.
    """
    from vivavoce.plugins import silero

    async with (
        silero.VAD() as vad,
        speech.stt("host", is_open=model is not None) as stt,
        _llm(model) as llm,
        speech.tts("host") as tts,
    ):
        await speech.load()
        options = CascadingOptions(find_turn_detector=False)  # the same call on each machine
        yield lambda: CascadingPipeline(stt=stt, llm=llm, tts=tts, vad=vad, options=options)


def _llm(model: LanguageModel | None) -> LLM:
    if model is None:
        from vivavoce.plugins import rules

        return rules.LLM(booking())
    from vivavoce.plugins import openai

    return openai.LLM(model=model.name, base_url=model.base_url)
