"""docs/turn-machine.md: its call is what `vivavoce replay` prints, and its vocabulary and files are the machine's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
import typer

from vivavoce.agents import Agent, SessionOptions, function_tool
from vivavoce.agents.cli.replay_command import replay
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.agents.turn.effects import Effect
from vivavoce.agents.turn.inputs import TurnInput
from vivavoce.pipelines.llm.tools import ToolCall

TEXT = (Path(__file__).parents[2] / "docs" / "turn-machine.md").read_text(encoding="utf-8")
COLUMNS = "180"


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("Take bookings.")

    async def on_enter(self) -> None:
        self.session.on_wake_up = self.ask

    async def ask(self, level: int) -> None:
        await self.session.say("Are you there?")

    @function_tool
    async def free_tables(self) -> str:
        """Return the free tables."""
        return "one at eight, by the window"


def told(folder: Path) -> Path:
    """Run the call of the page and return its trace."""
    look_up = ToolCall(call_id="c1", name="free_tables", arguments="{}")
    llm = ScriptedLLM([look_up], "Yes, at eight, by the window or near the door.", "Nine is fine.", delay=0.1)
    harness = SessionHarness(Host(), llm, options=SessionOptions(trace_path=folder), wake_up=3.0)
    harness.caller.says("a table please", 0.5, 1.5)
    harness.caller.says("mhm", 2.5, 2.8, final_at=3.0)
    harness.caller.says("no wait at nine", 3.2, 4.0, final_at=4.2)
    harness.run(until=9.5)
    (trace,) = folder.glob("*.jsonl")
    return trace


def names_in(heading: str) -> list[str]:
    """Return the names in the first column of the tables below that heading."""
    rows = [row for row in TEXT.split(f"## {heading}\n")[1].split("\n## ")[0].splitlines() if row.startswith("|")]
    return [name for row in rows for name in re.findall(r"`([A-Z]\w+)`", row)]


def test_the_call_on_the_page_is_printed_by_replay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = told(tmp_path)
    # The wake-up's speech has a random id; of the same length, so that the columns stay as they are.
    trace.write_text(re.sub(r"speech_[0-9a-f]{12}", "speech_0123456789ab", trace.read_text(encoding="utf-8")))
    monkeypatch.setenv("COLUMNS", COLUMNS)
    with pytest.raises(typer.Exit) as left:
        replay(trace)
    assert left.value.exit_code == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    block = TEXT.split("```text\n")[1].split("\n```")[0].splitlines()
    assert printed[: len(block)] == block


@pytest.mark.parametrize(("heading", "kinds"), [("Inputs", TurnInput), ("Effects", Effect)])
def test_all_inputs_and_effects_are_on_the_page_once(heading: str, kinds: object) -> None:
    assert sorted(names_in(heading)) == sorted(kind.__name__ for kind in get_args(kinds))


def test_each_file_of_the_rules_is_on_the_page() -> None:
    machine = Path(__file__).parents[2] / "agents" / "turn"
    folders = ("user", "floor", "barge_in", "exchange")
    rules = {f"{name}/{path.name}" for name in folders for path in (machine / name).glob("[a-z]*.py")}
    named = set(re.findall(r"`([\w/]+\.py)`", TEXT.split("| rule |")[1]))
    assert rules <= named
    assert [name for name in sorted(named) if not (machine / name).exists()] == []


def test_the_page_is_short() -> None:
    assert len(TEXT.splitlines()) <= 120
