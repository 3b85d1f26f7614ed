"""examples/twilio_number.py: its agent in virtual time, and the whole app called by a real telephone."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from kit.call_server import served
from kit.line.answering import seconds_of_sound
from kit.line.baresip import telephone
from kit.line.on_twilio import on_twilio
from kit.line.sip_line import Leg, sip_line
from kit.telephone import Twilio
from vivavoce.agents import SessionOptions
from vivavoce.agents.telephony import TelephonyOptions
from vivavoce.agents.testing import SessionHarness
from vivavoce.plugins import rules

EXAMPLE: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "twilio_number.py"))


def test_a_caller_who_is_known_is_greeted_by_name_books_a_table_and_hangs_up_by_a_key() -> None:
    options = SessionOptions(telephony=TelephonyOptions(keys=None))
    harness = SessionHarness(EXAMPLE["Host"]("+15550100"), rules.LLM(EXAMPLE["TALK"]), options=options)
    harness.caller.says("on friday", 2.0, 3.0)
    harness.caller.presses("*", 7.0)

    async def scenario(harness: SessionHarness) -> None:
        """Set the handler as the entrypoint does."""
        harness.session.on("key_pressed", harness.session.agent.take_key)  # type: ignore[attr-defined]  # a `Host`

    harness.run(scenario, until=20.0)
    harness.expect_history(
        ("assistant", "Hello Anna! For which day?"),
        ("user", "on friday"),
        ("assistant", "Your table is booked for friday. Press star to hang up. Is there anything else?"),
        ("assistant", "Goodbye."),
    )
    assert harness.session.agent.bookings == ["friday: +15550100"]  # type: ignore[attr-defined]  # a `Host`
    assert harness.room.hung_up == ["caller"]


@pytest.mark.test_all("a real telephone, and a real voice")
@pytest.mark.timeout(120)
async def test_the_app_greets_a_telephone_and_hangs_up_when_it_presses_star(tmp_path: Path) -> None:
    calls: list[tuple[Leg, Twilio]] = []
    async with sip_line() as line, telephone(tmp_path) as phone, served(EXAMPLE["entrypoint"]) as server:
        line.on_call = on_twilio(server, calls)
        await phone.dial(line.address("+15550199"))
        await phone.until_event("CALL_ESTABLISHED")
        [(_, vendor)] = calls
        await vendor.until_played(1.0)
        await phone.press("*")
        await phone.until_event("CALL_CLOSED")
    assert seconds_of_sound(phone.heard()) > 0.5
