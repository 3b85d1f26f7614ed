"""The sound of a real telephone's call, measured: what it has heard is what the session counts as heard."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.line.answering import GREETING, question, seconds_of_sound
from kit.line.called import called

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

FADE = 0.05
"""Seconds in which a speech that is cut fades: the telephone hears them, and they count as no word."""


@pytest.mark.test_all("measured sound")
async def test_a_telephone_has_heard_what_the_session_counts_as_heard(tmp_path: Path) -> None:
    async with called(tmp_path, says=question(after=1.6)) as it:
        await it.dial()
        await it.answer_begun()
        await it.vendor.until_played(GREETING + 0.8)
        await it.phone.press("5")
        await it.is_silent()
        await it.hang_up()
    assert seconds_of_sound(it.phone.heard()) == pytest.approx(seconds_of_sound(it.played()), abs=0.04)
    assert seconds_of_sound(it.played()) == pytest.approx(it.seconds_played, abs=0.04 + FADE)
    assert it.vendor.clears == 1
