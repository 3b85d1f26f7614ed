"""examples/call_notes.py in virtual time: one note of each call, and a close that a note cannot hold up.

Likewise the extension of docs/extensions.md, which counts slow answers.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import anyio
import pytest

from vivavoce.agents import Agent, SessionOptions
from vivavoce.agents.testing import HANG, ScriptedLLM, SessionHarness
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.plugins import rules

ROOT = Path(__file__).parents[2]
EXAMPLE: dict[str, Any] = runpy.run_path(str(ROOT / "examples" / "call_notes.py"))
PAGE = (ROOT / "docs" / "extensions.md").read_text(encoding="utf-8")
CallNotes = EXAMPLE["CallNotes"]


def call(extension: Any) -> SessionHarness:
    """Return a call with a greeting, and one turn."""
    options = SessionOptions(extensions=(extension,), capture_content=True)
    harness = SessionHarness(EXAMPLE["Reception"]("Help."), rules.LLM(EXAMPLE["TALK"]), options=options)
    harness.caller.says("on friday", 3.0, 4.0)
    return harness


def test_the_application_gets_one_note_of_the_call_when_it_ends() -> None:
    notes: list[str] = []

    async def keep(note: str) -> None:
        await anyio.sleep(0.5)
        notes.append(note)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(10.0)
        assert notes == []
        assert len(harness.session.extension(CallNotes).lines) == 1

    harness = call(CallNotes(keep)).run(scenario)
    session = harness.session
    latency = session.turns[1].e2e_latency
    assert latency is not None
    answer = "We will see you on friday. Is there anything else?"
    assert notes == [f"call {session.id}, 1 turns\n'on friday', answered after {latency:.1f} s: '{answer}'"]
    with pytest.raises(ConfigurationError, match="the session has memory, call notes"):
        session.extension(SessionOptions)  # type: ignore[arg-type]


def test_a_note_that_hangs_is_named_in_the_report_of_the_close() -> None:
    async def keep(note: str) -> None:
        await anyio.sleep(HANG)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(10.0)
        report = await harness.session.close()
        assert [step.name for step in report.steps if step.error] == ["call notes"]

    call(CallNotes(keep)).run(scenario)


@pytest.mark.parametrize(("delay", "count"), [(0.1, 0), (3.0, 1)])
def test_the_extension_of_the_page_counts_slow_answers(delay: float, count: int) -> None:
    page: dict[str, Any] = {"__name__": "app"}
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.M | re.S)
    exec(compile(code, "extensions.md", "exec", dont_inherit=True), page)
    harness = SessionHarness(Agent("Help."), ScriptedLLM([delay, "Fine."]), options=page["options"])
    harness.caller.says("on friday", 1.0, 2.0)
    harness.run(until=9.0)
    assert harness.session.extension(page["SlowAnswers"]).count == count
