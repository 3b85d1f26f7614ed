"""The README's snippets and names are those of the repository."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from kit.project import run_pytest
from kit.public_names import HOMES, public
from vivavoce import pipelines
from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.caller.script import CallScript, Ears, Expectation, Step, Voice, read_script
from vivavoce.agents.cli.app import app
from vivavoce.agents.cli.extras import WITHOUT_USE
from vivavoce.agents.knowledge import KnowledgeOptions
from vivavoce.agents.telephony import TelephonyOptions
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
VARS = {name: public(name) for name in HOMES}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.M | re.S)


def test_the_agent_shown_is_the_example_that_the_tests_run() -> None:
    shown, _ = blocks("python")
    assert shown == (ROOT / "examples" / "hello.py").read_text(encoding="utf-8")


def test_every_make_target_shown_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M))
    shown = set(re.findall(r"\bmake ([a-z]+)", README))
    assert {"demo", "test"} <= shown <= targets


def test_every_extra_of_use_is_in_the_table_of_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (table,) = re.findall(r"^\| extra \|.*\n\|.*\n((?:\|.*\n)+)", README, flags=re.M)
    named = {name for row in table.splitlines() for name in re.findall(r"`([\w-]+)`", row.split("|")[1])}
    assert named == set(project["optional-dependencies"]) - WITHOUT_USE


@pytest.mark.parametrize("line", [line for block in blocks("sh") for line in block.splitlines() if "vivavoce " in line])
def test_every_command_and_option_shown_exists(line: str) -> None:
    words = line.split("#")[0].split()
    name = words[words.index(next(word for word in words if word.endswith("vivavoce"))) + 1]
    command = get_command(app).commands[name]  # type: ignore[attr-defined]  # the app is a group
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_the_caller_s_script_shown_is_one(tmp_path: Path) -> None:
    (shown,) = blocks("toml")
    path = tmp_path / "booking.toml"
    path.write_text(shown, encoding="utf-8")
    script = read_script(path)
    assert [step.say for step in script.steps] == ["on friday", "at seven", "goodbye"]  # tests/e2e places the call
    assert script.steps[2].barge_in_after == 1.0


def test_the_keys_of_a_script_are_those_told() -> None:
    keys = {*CallScript.model_fields, *Step.model_fields, *Expectation.model_fields, *Ears.model_fields}
    (told,) = re.findall(r"^\| key \|.*\n\|.*\n((?:\|.*\n)+)", README, flags=re.M)
    assert {*keys, *Voice.model_fields} <= set(re.findall(r"`(\w+)`", told))


def test_the_test_shown_passes_beside_the_agent_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hello, test = blocks("python")
    (tmp_path / "hello.py").write_text(hello, encoding="utf-8")
    (tmp_path / "test_hello.py").write_text(test, encoding="utf-8")
    status, printed = run_pytest(tmp_path, capsys=capsys)
    assert status == 0, printed
    assert "1 passed" in printed


PEERS = re.compile(r"^(\|[^|\n]*\|)(?:[^|\n]*\|){3}$", flags=re.M)
"""A row of the table of other frameworks, the only one of four columns; the first column has our names."""
INLINE = re.findall(r"`([^`\n]+)`", PEERS.sub(r"\1", re.sub(r"^```.*?^```", "", README, flags=re.M | re.S)))


def test_every_class_named_is_public() -> None:
    named = {name for code in INLINE for name in re.findall(r"(?<!\.)\b[A-Z][a-z]+(?:[A-Z][A-Za-z]*)+\b", code)}
    assert {"AgentSession", "WakeUp", "ConversationFlow"} <= named
    assert named <= {*HOMES, "SessionHarness"}


def test_every_name_of_a_plugin_exists() -> None:
    named = {pair for code in INLINE for pair in re.findall(r"\b([a-z]+)\.([A-Z]\w+)\(", code)}
    assert {("openai", "LLM"), ("google", "RealtimeModel")} <= named
    assert [pair for pair in named if not hasattr(import_module(f"vivavoce.plugins.{pair[0]}"), pair[1])] == []


def test_every_member_of_the_session_named_exists() -> None:
    options = SessionOptions(knowledge=KnowledgeOptions(), telephony=TelephonyOptions())
    session = AgentSession[None](Agent("Help."), pipelines.CascadingPipeline(tts=ScriptedTTS()), options=options)
    named = {name for code in INLINE for name in re.findall(r"\bsession\.(\w+)", code)}
    assert {"say", "update_agent", "snapshot", "history"} <= named
    assert [name for name in named if not hasattr(session, name)] == []


def test_every_option_shown_is_taken() -> None:
    shown = [code for code in INLINE if code.startswith("SessionOptions(")]
    assert shown
    for code in shown:
        assert isinstance(eval(code, VARS), SessionOptions)


def test_the_budget_shown_has_the_prices_of_the_pipeline_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    (budget,) = [code for code in INLINE if code.startswith("SessionOptions(budget=")]
    (pipeline,) = [code for code in INLINE if code.startswith("CascadingPipeline(vad=silero.VAD(), stt=openai.STT()")]
    plugins = {name: import_module(f"vivavoce.plugins.{name}") for name in ("openai", "silero")}
    options = eval(budget, VARS)
    made = eval(pipeline, {**VARS, **plugins})
    AgentSession[None](Agent("Help."), made, options=options)  # else it names the price


def test_every_worker_shown_has_a_name_by_which_it_is_found() -> None:
    shown = [code for code in INLINE if re.search(r"\bWorker\(entrypoint", code)]
    assert shown
    assert [code for code in shown if not code.startswith("worker = ")] == []


def test_the_reports_of_one_s_own_calls_are_where_the_option_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (shown,) = [code for code in INLINE if code.startswith('SessionOptions(report_path="calls/"')]
    harness = SessionHarness(Agent("x"), ScriptedLLM("Fine."), options=eval(shown, VARS))
    harness.caller.types("how are you", 1.0)
    harness.run(until=3.0)
    (written,) = (tmp_path / "calls").iterdir()
    assert CliRunner().invoke(app, ["report", str(written), "-o", "call.html"]).exit_code == 0
    page = (tmp_path / "call.html").read_text()
    assert "how are you" in page
    assert "Fine." in page
