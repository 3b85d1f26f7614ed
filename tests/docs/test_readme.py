"""The snippets and names of the README, and of the pages for its readers, are those of the repository."""

from __future__ import annotations

import re
import runpy
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
from vivavoce.agents.cli.app_file import load_app
from vivavoce.agents.cli.extras import WITHOUT_USE
from vivavoce.agents.knowledge import KnowledgeOptions
from vivavoce.agents.telephony import TelephonyOptions
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness, ToolCall

ROOT = Path(__file__).parents[2]
README, START, RECIPES, COMING_FROM, INDEX = (
    (ROOT / name).read_text(encoding="utf-8")
    for name in ("README.md", "docs/start.md", "docs/recipes.md", "docs/coming-from.md", "docs/index.md")
)
(SESSIONS,) = re.findall(r"^## [^\n]*: the session\n(.*?)(?=^## )", COMING_FROM, flags=re.M | re.S)
COMMANDS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
VARS = {name: public(name) for name in HOMES}


def blocks(language: str, page: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, flags=re.M | re.S)


def test_the_readme_is_two_screens() -> None:
    assert len(README.splitlines()) <= 200


def test_the_index_leads_to_every_page() -> None:
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert pages - set(re.findall(r"\]\(([\w-]+\.md)\)", INDEX)) == set()
    assert re.findall(r"^## (.+)$", INDEX, flags=re.M) == [
        "Start",
        "Recipes",
        "Concepts",
        "Providers",
        "Production",
        "Coming from",
        "Reference",
    ]


def test_the_agent_shown_is_the_example_that_the_tests_run() -> None:
    _, shown = blocks("python", README)
    assert shown == (ROOT / "examples" / "hello.py").read_text(encoding="utf-8")


def test_the_agent_with_paid_parts_is_an_app_whose_pipeline_is_made_and_whose_tool_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    shown, _ = blocks("python", README)
    path = tmp_path / "agent.py"
    path.write_text(shown, encoding="utf-8")
    assert load_app(path).worker is not None
    names = runpy.run_path(str(path))
    (pipeline,) = re.findall(r"^    pipeline = (.+)$", shown, flags=re.M)
    assert isinstance(eval(pipeline, names), pipelines.CascadingPipeline)
    call = ToolCall(call_id="1", name="book", arguments='{"day": "friday", "time": "seven"}')
    harness = SessionHarness(names["Host"](), ScriptedLLM([call], "Booked."))
    harness.caller.says("on friday at seven", 2.0, 3.5)
    expect = harness.run(until=8.0).expect
    expect.next_message("Hello! For which day?").next_message(role="user")
    expect.tool_call("book").returned("booked: friday, seven")
    expect.next_message("Booked.").no_more()


def test_every_make_target_shown_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M))
    shown = set(re.findall(r"\bmake ([a-z]+)", README))
    assert set(re.findall(r"^make ([a-z]+)", START, flags=re.M)) <= targets
    assert {"demo", "test"} <= shown <= targets


def test_every_extra_of_use_is_in_the_table_of_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (table,) = re.findall(r"^\| extra \|.*\n\|.*\n((?:\|.*\n)+)", START, flags=re.M)
    named = {name for row in table.splitlines() for name in re.findall(r"`([\w-]+)`", row.split("|")[1])}
    assert named == set(project["optional-dependencies"]) - WITHOUT_USE


def commands() -> list[str]:
    """Return what follows "vivavoce" in every line of the shell that a page shows."""
    shown = [block for path in COMMANDS for block in blocks("sh", path.read_text(encoding="utf-8"))]
    lines = [line.partition("#")[0] for block in shown for line in block.replace("\\\n", "").splitlines()]
    return sorted({found.strip() for line in lines for found in re.findall(r"(?:^|/|\s)vivavoce (.+)", line)})


def test_the_commands_shown_are_found() -> None:
    assert {"dev examples/hello.py", "console agent.py --text --json", "models get smart_turn"} <= set(commands())


@pytest.mark.parametrize("line", commands())
def test_every_command_and_option_shown_exists(line: str) -> None:
    words = line.split()
    command = get_command(app)
    while hasattr(command, "commands"):  # a group
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_the_caller_s_script_shown_is_one(tmp_path: Path) -> None:
    (shown,) = blocks("toml", START)
    path = tmp_path / "booking.toml"
    path.write_text(shown, encoding="utf-8")
    script = read_script(path)
    assert [step.say for step in script.steps] == ["on friday", "at seven", "goodbye"]  # tests/e2e places the call
    assert script.steps[2].barge_in_after == 1.0


def test_the_keys_of_a_script_are_those_told() -> None:
    keys = {*CallScript.model_fields, *Step.model_fields, *Expectation.model_fields, *Ears.model_fields}
    (told,) = re.findall(r"^\| key \|.*\n\|.*\n((?:\|.*\n)+)", START, flags=re.M)
    assert {*keys, *Voice.model_fields} <= set(re.findall(r"`(\w+)`", told))


def test_the_test_shown_passes_beside_the_agent_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, hello = blocks("python", README)
    (test,) = blocks("python", START)
    (tmp_path / "hello.py").write_text(hello, encoding="utf-8")
    (tmp_path / "test_hello.py").write_text(test, encoding="utf-8")
    status, printed = run_pytest(tmp_path, capsys=capsys)
    assert status == 0, printed
    assert "1 passed" in printed


PEERS = re.compile(r"^(\|[^|\n]*\|)(?:[^|\n]*\|){3}$", flags=re.M)
"""A row of the table of other frameworks, the only one of four columns; the first column has our names."""
PROSE = re.sub(r"^```.*?^```", "", "\n".join((README, START, RECIPES, SESSIONS)), flags=re.M | re.S)
INLINE = re.findall(r"`([^`\n]+)`", PEERS.sub(r"\1", PROSE))


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
    (pipeline,) = re.findall(r"CascadingPipeline\(vad=silero\.VAD\(\), stt=openai\.STT\(\).*$", README, flags=re.M)
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
