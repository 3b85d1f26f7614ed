"""The plan of the demo's caller: it books a table for Friday and changes the time, in phrases that a seed chooses."""

from __future__ import annotations

from random import Random

from vivavoce.agents.caller.answering_mind import Script

# As hibari speaks them to moonshine, none has a pause of more than 0.12 s: late packets add to it, and the host answers
# a pause.
DAY = (
    "Hi, I'd like a table for Friday, please.",
    "Hi, do you have a table for Friday?",
    "I would like a table for Friday.",
    "Hi, have you got a table for Friday?",
)
TIME = (
    "At six, no, at seven.",
    "Could we come at seven?",
    "Around seven would be great.",
    "Seven o'clock, if you have it.",
)
PEOPLE = (
    "For four, no, five people.",
    "There will be four of us, no, five of us.",
    "For three, wait, no, for five people.",
)
BARGE_IN = ("Stop, please.", "Wait a moment, please.")
CORRECTION = (
    "No, could we make it eight o'clock?",
    "No, can you make it eight o'clock?",
    "No, eight o'clock, please.",
)
GOODBYE = (
    "Yes, thank you, goodbye.",
    "Yes, that's perfect, goodbye.",
    "Yes, that's fine, goodbye.",
)


def free_script(seed: int) -> Script:
    """Return the plan in free phrases: the same call for each seed, in other words."""
    choose = Random(seed).choice
    return Script(
        opening="Hello?",
        answers=(
            ("which day", choose(DAY)),
            ("what time", choose(TIME)),
            ("how many", choose(PEOPLE)),
            ("booking right", choose(GOODBYE)),
        ),
        barge_in=("house rules", choose(BARGE_IN)),
        correction=("booking right", choose(CORRECTION)),
        read_back=(
            (("eight", "8"), "No, make it eight o'clock, please."),
            (("five", "5"), "No, for five people, please."),
            (("friday",), "No, on Friday, please."),
        ),
        booked="booked",
        changed="changed",
        farewell="thank you for calling",
        first_booking={"day": "friday", "time": "19:00", "people": 5},
        booking={"day": "friday", "time": "20:00", "people": 5},
    )


GRAMMAR_SCRIPT = Script(
    opening="hello",
    answers=(
        ("which day", "table for friday please"),
        ("what time", "at seven"),
        ("how many", "four people"),
        ("booking right", "yes thank you goodbye"),  # in one breath: single parts are easily misheard
    ),
    barge_in=("house rules", "stop please"),
    correction=("booking right", "no, at eight"),
    read_back=((("eight",), "no, at eight"), (("four",), "no, four people"), (("friday",), "no, on friday")),
    booked="booked",
    changed="changed",
    farewell="goodbye",
    first_booking={"day": "friday", "time": "19:00", "people": 4},
    booking={"day": "friday", "time": "20:00", "people": 4},
)
"""The plan in sentences of the grammars, for ears that understand no others."""


def script_of(seed: int, *, is_free: bool) -> Script:
    """Return the plan in phrases that the ears understand.

    Args:
        seed: Chooses among free phrases.
        is_free: Whether the ears understand any sentence.
    """
    return free_script(seed) if is_free else GRAMMAR_SCRIPT
