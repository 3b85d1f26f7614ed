"""examples/telephone_survey.py in virtual time: keys answer, also before a question is over."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from vivavoce.agents import SessionOptions
from vivavoce.agents.telephony import TelephonyOptions
from vivavoce.agents.testing import SessionHarness

EXAMPLE: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "telephone_survey.py"))


def survey(*pressed: tuple[str, float]) -> SessionHarness:
    harness = SessionHarness(EXAMPLE["Survey"](), options=SessionOptions(telephony=TelephonyOptions(keys=None)))
    for keys, at in pressed:
        harness.caller.presses(keys, at)
    return harness.run(until=60.0, waits_for_start=False)


def test_keys_answer_the_questions_and_stop_them() -> None:
    harness = survey(("1", 1.5), ("2", 4.0))
    assert harness.session.agent.answers == {"visit": "1", "again": "2"}  # type: ignore[attr-defined]  # a `Survey`
    assert harness.messages[-1] == ("assistant", "Thank you. Goodbye.")
    assert harness.room.hung_up == ["caller"]


def test_a_wrong_key_and_a_silence_are_asked_again_once() -> None:
    harness = survey(("7", 3.0), ("1", 6.0))
    assert harness.session.agent.answers == {"visit": "1"}  # type: ignore[attr-defined]  # a `Survey`
    asked = [text for _, text in harness.messages if text == EXAMPLE["QUESTIONS"]["again"]]
    assert len(asked) == 2
