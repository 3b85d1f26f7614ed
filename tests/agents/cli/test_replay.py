"""`vivavoce replay` as a user meets it: a timeline, a verdict, and words for every file that is not whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from kit.cli import in_this_process
from kit.graphs import booking, graph_harness
from vivavoce.agents import Agent, SessionOptions
from vivavoce.agents.cli.app import app
from vivavoce.agents.cli.timeline import describe
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.agents.turn.inputs import InterruptRequested, SpeechRequested
from vivavoce.agents.turn.trace.record import TURN


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """The trace of a call with a question, its answer and an interruption."""
    harness = SessionHarness(
        Agent("Help."),
        ScriptedLLM([0.1, "For how many?"], default="[/bold] Fine."),
        options=SessionOptions(trace_path=tmp_path / "traces"),
    )
    harness.caller.says("a [red]table[/x]", 0.5, 1.5)
    harness.caller.says("stop it now", 2.3, 3.3)
    harness.run(until=6.0)
    return tmp_path / "traces" / f"{harness.session.id}.jsonl"


def run(*arguments: str | Path) -> tuple[int, str]:
    """Run the command and return its exit status and its output; a VoiceError becomes its text."""
    result = CliRunner().invoke(app, ["replay", *map(str, arguments)], env={"COLUMNS": "160"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return 1, f"{result.output}{type(result.exception).__name__}: {result.exception}"
    return result.exit_code, result.output


def change(path: Path, line: int, how: Callable[[dict[str, Any]], object]) -> Path:
    lines = path.read_text().split("\n")
    plain = json.loads(lines[line])
    how(plain)
    lines[line] = json.dumps(plain)
    path.write_text("\n".join(lines))
    return path


def find(path: Path, what: str) -> int:
    """Return the index of the first line that holds `what`."""
    return next(number for number, line in enumerate(path.read_text().split("\n")) if what in line)


def test_the_timeline_says_when_who_and_what_and_the_verdict_ends_it(trace: Path) -> None:
    status, printed = run(trace)
    assert status == 0
    rows = [line.split() for line in printed.splitlines()]
    assert ["time", "who", "input", "effects", "states", "next"] in rows
    assert ["0.000", "session", "SessionStarting", "agent", "starting"] in rows
    heard = next(line for line in printed.splitlines() if "UserFinal(text='a [red]table[/x]')" in line)
    assert heard.split()[:2] == ["1.700", "user"]
    committed = next(line for line in printed.splitlines() if "CommitUserTurn" in line)
    assert committed.split()[:3] == ["1.900", "clock", "Tick"]
    for word in ("GrantFloor(speech_id='answer_1')", "agent speaking", "PauseSpeech", "outcome='interrupted'"):
        assert word in printed
    assert printed.splitlines()[-1].endswith("steps replayed, the effects are the same")


def test_the_moves_of_a_graph_stand_in_the_timeline_and_a_difference_of_theirs_is_shown(tmp_path: Path) -> None:
    harness = graph_harness(booking(), ScriptedLLM("For which day?"), trace_path=tmp_path)
    harness.caller.says("book a table", 3.0, 4.0)
    harness.run(until=6.0)
    (path,) = tmp_path.iterdir()
    status, printed = run(path)
    assert status == 0
    (moved,) = [line for line in printed.splitlines() if "Moved(state='details', source='greeting'" in line]
    assert "graph details" in moved
    (begun,) = [line for line in printed.splitlines() if "GraphBegins" in line]
    assert (begun.split()[1], "when_" in begun, "OnIntent" in printed) == ("graph", False, False)
    count = path.read_text().count('"input":') - 1  # the beginning of the graph is no input
    assert printed.splitlines()[-1].endswith(f": {count} steps replayed, the effects are the same")
    line = find(path, '"Classified"')
    change(path, line, lambda plain: plain["input"].update(intent="bye"))
    status, printed = run(path, "--check")
    assert status == 1
    assert f"The first difference is at line {line + 1}," in printed
    assert "- recorded: Moved(state='details', source='greeting', reason='transition', transition=0" in printed
    change(path, line, lambda plain: plain["input"].update({"is": "Guessed"}))
    assert f"line {line + 1} cannot be replayed: needed a class of the graph machine, got 'Guessed'" in run(path)[1]


def test_check_shows_the_verdict_alone(trace: Path) -> None:
    status, printed = run(trace, "--check")
    assert status == 0
    assert len(printed.splitlines()) == 1
    assert printed.startswith(f"{trace.stem}: ")


def test_the_first_difference_is_shown_with_both_sides(trace: Path) -> None:
    line = find(trace, "CommitUserTurn")
    change(trace, line, lambda plain: plain["effects"].pop(0))
    status, printed = run(trace)
    assert status == 1
    assert f"The first difference is at line {line + 1}, 1.900 s, in the effects:" in printed
    assert "- recorded: GrantFloor(speech_id='answer_1')" in printed
    assert "+ replayed: CommitUserTurn(turn_id='turn_1'" in printed
    assert "are the same" not in printed


@pytest.mark.parametrize(
    ("effects", "words"), [([], "- recorded: nothing"), (None, "- recorded: the machine raised")], ids=str
)
def test_a_difference_of_all_effects_is_said_in_words(effects: object, words: str, trace: Path) -> None:
    change(trace, find(trace, "CommitUserTurn"), lambda plain: plain.update(effects=effects))
    status, printed = run(trace)
    assert status == 1
    assert words in printed
    assert ("the machine raised" in printed) == (effects is None)


def test_another_deadline_is_shown_in_seconds(trace: Path) -> None:
    change(trace, find(trace, "UserSpeechEnded"), lambda plain: plain.update(deadline=None))
    status, printed = run(trace, "--check")
    assert status == 1
    assert "in the deadline:" in printed
    assert "- recorded: none" in printed
    assert "+ replayed: 2.500" in printed


def test_a_trace_of_a_killed_process_is_shown_as_far_as_it_goes(trace: Path) -> None:
    text = trace.read_text()
    trace.write_text(text[: text.rindex("SessionClosing")])
    status, printed = run(trace)
    assert status == 0
    assert "UserFinal(text='stop it now')" in printed
    assert "is cut off: the process ended while it was written." in printed
    assert "the effects are the same" in printed
    trace.write_text(text[: text.rindex('{"end"')])
    assert "The trace has no end" in run(trace, "--check")[1]


def test_a_damaged_line_is_told_and_not_taken_for_the_same(trace: Path) -> None:
    lines = trace.read_text().split("\n")
    trace.write_text("\n".join([*lines[:5], "~", *lines[5:]]))
    status, printed = run(trace)
    assert status == 1
    assert "Line 6 is damaged; the lines after it are not shown." in printed


def test_another_version_is_told(trace: Path) -> None:
    change(trace, 0, lambda plain: plain.update(version="0.0.1"))
    status, printed = run(trace)
    assert status == 0
    assert "Written by vivavoce 0.0.1, replayed by" in printed


def test_other_rules_are_told_and_the_trace_is_replayed(trace: Path) -> None:
    assert "other code" not in run(trace)[1]
    change(trace, 0, lambda plain: plain.update(rules="000000000000"))
    status, printed = run(trace)
    assert status == 0
    assert "Written by machines of other code: they may have decided otherwise on purpose." in printed


def test_a_trace_that_was_given_up_says_why(trace: Path) -> None:
    change(trace, find(trace, '"end"'), lambda plain: plain.update(end="the disk was too slow"))
    assert "The trace ends before the session did: the disk was too slow." in run(trace, "--check")[1]


def test_a_trace_that_only_names_its_options_is_shown_and_fails(trace: Path) -> None:
    change(trace, 0, lambda plain: plain.update(not_replayable=["options.policy: app.Policy"]))
    status, printed = run(trace)
    assert status == 1
    assert "UserFinal(text='stop it now')" in printed
    assert "TraceError: the trace cannot be replayed; it only names options.policy: app.Policy" in printed


def test_a_trace_of_the_older_format_is_shown_and_not_replayed(trace: Path) -> None:
    change(trace, 0, lambda plain: plain.update(format=1, version="0.1.0"))
    status, printed = run(trace)
    assert status == 1
    assert "UserFinal(text='stop it now')" in printed
    assert "the trace can be shown and not replayed: needed format 3, got 1" in printed
    assert "replay it with the vivavoce that wrote it, 0.1.0" in printed
    assert "Traceback" not in printed


def test_values_are_shown_in_short() -> None:
    assert describe(TURN.encode(InterruptRequested()), zero=0.0) == "InterruptRequested"
    asked = TURN.encode(SpeechRequested(speech_id="s", kind="say", priority=2))
    assert describe(asked, zero=0.0) == "SpeechRequested(speech_id='s', kind='say', priority=2)"
    assert describe({"is": "Mystery", "words": {"is": "frozenset", "of": ["a", 1]}}, zero=0.0) == (
        "Mystery(words=frozenset('a', 1))"
    )


def _files(folder: Path) -> None:
    (folder / "notes.txt").write_text("hello\n")
    (folder / "empty.jsonl").write_text("")
    (folder / "binary.jsonl").write_bytes(b"\xff\xfe\x00")
    (folder / "future.jsonl").write_text('{"trace": "vivavoce", "format": 4, "version": "9.0"}\n')
    (folder / "none").mkdir()
    (folder / "some").mkdir()
    (folder / "some" / "a.jsonl").write_text("")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nofile"], "'nofile' does not exist; give a trace"),
        (["none"], "'none' is a folder: it holds no trace"),
        (["some"], "'some' is a folder: give one of its files, such as 'some/a.jsonl'"),
        (["notes.txt"], "'notes.txt': this is no trace: needed a file that a session wrote"),
        (["empty.jsonl"], "this is no trace"),
        (["binary.jsonl"], "this is no trace: it is not text"),
        (["future.jsonl"], "needed a trace of format 1 to 3, got 4; replay it with the vivavoce that wrote it, 9.0"),
        (["/proc/self/mem"], "cannot read '/proc/self/mem'"),
        ([], "Missing argument"),
    ],
    ids=" ".join,
)
def test_a_mistake_is_answered_in_words(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _files(tmp_path)
    status, printed = in_this_process(capsys)("replay", *arguments, cwd=tmp_path)
    assert status != 0
    assert words in printed
    assert "Traceback" not in printed


def test_help_tells_how_to_record_one() -> None:
    status, printed = run("--help")
    assert status == 0
    for word in ("VIVAVOCE_TRACE", "--check", "path", "the user's words"):
        assert word in " ".join(printed.split())
