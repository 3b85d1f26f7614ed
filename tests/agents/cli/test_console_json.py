"""`vivavoce console --text --json`: lines of JSON in and out, by their schema; each error is a line."""

from __future__ import annotations

import json
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kit.cli import Command, in_this_process
from vivavoce.agents.cli.catalogue.providers import find_plugins
from vivavoce.agents.cli.console.json_lines import InterruptLine, JsonReader, JsonView, UserLine, schema
from vivavoce.agents.cli.new.parts import choose, voice_activity
from vivavoce.agents.cli.new.project import Project, write
from vivavoce.pipelines.core.errors import ConfigurationError

DAY = '{"day": "friday"}'
APP = """
from vivavoce.agents import Agent, AgentSession, JobContext, function_tool
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.testing import ScriptedLLM

BOOK = ToolCall(call_id="1", name="book", arguments='{"day": "friday"}')


class Host(Agent):
    @function_tool
    async def book(self, day: str) -> str:
        "Book a table."
        print("a table is booked")
        return f"booked: {day}"


async def entrypoint(ctx: JobContext) -> None:
    llm = ScriptedLLM([BOOK], "Done, for friday.")
    await AgentSession(Host("You take bookings."), CascadingPipeline(llm=llm)).start()
"""


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    return in_this_process(capsys)


def _typed(folder: Path, *lines: str) -> Path:
    path = folder / "typed"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def _lines(printed: str) -> list[dict[str, Any]]:
    """Return the lines of JSON, each of which is as the schema says."""
    found = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    for line in found:
        jsonschema.validate(line, schema()["out"])
    return found


@pytest.mark.timeout(60)
def test_a_program_drives_the_agent_turn_by_turn(command: Command, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    typed = _typed(tmp_path, "friday", '{"type": "user", "text": "friday"}')
    status, printed = command("console", "app.py", "--text", "--json", cwd=tmp_path, typed=typed)
    assert status == 0, printed
    lines = [line for line in _lines(printed) if line["type"] not in ("state", "turn")]
    (refused,) = [line for line in lines if line["type"] == "error"]
    assert "line 1 is not JSON" in refused["message"]
    assert [line for line in lines if line["type"] != "error"] == [
        {"type": "ready"},
        {"type": "user", "text": "friday"},
        {"type": "tool", "name": "book", "arguments": DAY, "output": "booked: friday", "is_error": False},
        {"type": "agent", "text": "Done, for friday.", "interrupted": False},
        {"type": "ready"},
        {"type": "ended", "reason": "the input has ended"},
    ]
    assert "a table is booked\n" in printed


@pytest.mark.test_all("seconds of espeak; the lines have a test in make test")
@pytest.mark.timeout(60)
def test_a_new_offline_project_books_a_table_by_lines_of_json(command: Command, tmp_path: Path) -> None:
    listed, _ = find_plugins()
    stt, llm, tts = choose(listed, "stt", None), choose(listed, "llm", None), choose(listed, "tts", None)
    write(Project(name="host", vad=voice_activity(listed), stt=stt, llm=llm, tts=tts).files(), tmp_path / "host")
    typed = _typed(tmp_path, '{"type": "user", "text": "on friday"}', '{"type": "user", "text": "at seven"}')
    status, printed = command("console", "agent.py", "--text", "--json", cwd=tmp_path / "host", typed=typed)
    assert status == 0, printed
    assert [line["name"] for line in _lines(printed) if line["type"] == "tool"] == ["book"]


def test_a_conversation_that_cannot_be_is_told_by_lines(command: Command, tmp_path: Path) -> None:
    status, printed = command("console", "missing.py", "--text", "--json", cwd=tmp_path)
    assert status == 1
    assert _lines(printed) == [
        {"type": "error", "message": "'missing.py' does not exist; give the Python file that holds your agent"},
        {"type": "ended", "reason": "it could not begin"},
    ]


def test_lines_of_json_are_what_is_said_in_writing(command: Command) -> None:
    status, printed = command("console", "app.py", "--json")
    assert status == 1
    assert "--json goes with --text" in printed


def test_the_schema_is_printed(command: Command) -> None:
    printed = json.loads(command("console", "--json-schema")[1])
    assert printed == schema()
    for line in ({"type": "user", "text": "on friday"}, {"type": "interrupt"}):
        jsonschema.validate(line, printed["in"])


def test_lines_of_the_input_are_read() -> None:
    reader = JsonReader()
    assert reader.read('{"type": "user", "text": "on friday"}') == UserLine(text="on friday")
    assert reader.read('{"type": "interrupt"}') == InterruptLine(type="interrupt")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("on friday", "line 1 is not JSON"),
        ("[" * 100_000, "line 1 is not JSON"),
        ("1" * 5000, "line 1 is not JSON"),
        ("[]", "line 1 is neither"),
        ('"user"', "line 1 is neither"),
        ('{"text": "on friday"}', "Unable to extract tag"),
        ('{"type": "usr", "text": "on friday"}', "'usr'"),
        ('{"type": "user"}', "user.text: Field required"),
        ('{"type": "user", "text": " "}', "user.text"),
        ('{"type": "user", "text": 7}', "valid string"),
        ('{"type": "user", "text": "hello", "by": "me"}', "user.by"),
    ],
)
def test_a_line_that_is_none_is_refused_by_its_number(line: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        JsonReader().read(line)
    assert told in str(refused.value)


def test_words_of_every_language_are_written_as_they_are() -> None:
    out = StringIO()
    JsonView(out).agent_said("ठीक है\nçok iyi", interrupted=True)
    assert out.getvalue() == '{"type": "agent", "text": "ठीक है\\nçok iyi", "interrupted": true}\n'


def test_words_that_the_output_cannot_write_are_escaped() -> None:
    out = TextIOWrapper(BytesIO(), encoding="latin-1")
    JsonView(out).note("ça 日本")
    out.seek(0)
    assert out.read() == '{"type": "note", "text": "\\u00e7a \\u65e5\\u672c"}\n'


def test_a_reader_that_has_left_ends_nothing() -> None:
    class Gone(StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

    view = JsonView(Gone())
    view.note("one")
    view.note("two")
