"""examples/memory.py in virtual time: the second call knows the booking of the first one."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from vivavoce.agents.memory import SqliteStore
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, ToolCall

EXAMPLE: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "memory.py"))
BOOK = ToolCall(call_id="c1", name="book", arguments='{"day": "friday"}')


def call(store: SqliteStore, *answers: Any, guest: str = "anna") -> SessionHarness:
    """Return a call of a guest."""
    host, options = EXAMPLE["Host"](store, guest), EXAMPLE["options"](store, guest)
    return SessionHarness(host, ScriptedLLM(*answers), options=options)


def test_a_guest_who_calls_again_is_known_by_the_booking_of_the_call_before(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "guests.db")
    first = call(store, [BOOK], "We will see you on friday.")
    first.caller.says("on friday", 2.0, 3.0)
    first.run(until=6.0)
    first.expect_history(
        ("assistant", "Hello! For which day?"), ("user", "on friday"), ("assistant", "We will see you on friday.")
    )
    second = call(store)
    second.run(until=4.0)
    second.expect_history(("assistant", "Welcome back! You have a table on friday."))


def test_a_caller_without_a_number_hears_of_no_other_caller_s_booking(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "guests.db")
    first = call(store, [BOOK], "We will see you on friday.", guest="")
    first.caller.says("on friday", 2.0, 3.0)
    first.run(until=6.0)
    second = call(store, guest="")
    second.run(until=4.0)
    second.expect_history(("assistant", "Hello! For which day?"))
