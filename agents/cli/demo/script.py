"""The plan of the demo's caller: it books a table for Friday and changes the time."""

from __future__ import annotations

from vivavoce.agents.caller.answering_mind import Script

DEMO_SCRIPT = Script(
    opening="hello",
    answers=(
        ("which day", "table for friday please"),
        ("what time", "at seven"),
        ("how many", "four people"),
        ("booking right", "yes thank you goodbye"),  # in one breath: single parts are easily misheard
    ),
    barge_in=("house rules", "stop please"),
    correction=("booking right", "no, at eight"),
    read_back=(("eight", "no, at eight"), ("four", "no, four people"), ("friday", "no, on friday")),
    booked="booked",
    changed="changed",
    farewell="goodbye",
    first_booking={"day": "friday", "time": "19:00", "people": 4},
    booking={"day": "friday", "time": "20:00", "people": 4},
)
