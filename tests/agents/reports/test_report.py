"""Session reports: the published schema holds, damaged files are refused in words, the page is whole by itself."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from typer.testing import CliRunner

from vivavoce.agents import Agent, RunContext, SessionOptions, StopResponse, function_tool
from vivavoce.agents.agent import CompletedTurn
from vivavoce.agents.budget import BudgetOptions, Price
from vivavoce.agents.cli.app import app
from vivavoce.agents.records import MarkRecord, SessionReport
from vivavoce.agents.reports.page import render
from vivavoce.agents.reports.peaks import read_peaks
from vivavoce.agents.reports.read import read_report
from vivavoce.agents.reports.schema import make_schema, schema
from vivavoce.agents.testing import ScriptedLLM, ScriptedRealtimeModel, SessionHarness
from vivavoce.pipelines.core.errors import ReportError
from vivavoce.pipelines.llm.base import Usage
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.wav import write_wav
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities

EVIL = '</text></svg><script>alert("x")</script>&amp;'
LONG = "one two three four five six seven eight nine ten"


class Desk(Agent):
    @function_tool
    async def look_up(self, what: str = "") -> str:
        """Look something up."""
        raise ValueError("secret inside")


def cascading(*script: object) -> SessionHarness:
    return SessionHarness(Desk("Help."), ScriptedLLM(*script))  # type: ignore[arg-type]


def realtime(*script: object) -> SessionHarness:
    model = ScriptedRealtimeModel(*script, capabilities=RealtimeCapabilities(turn_detection="local"))  # type: ignore[arg-type]
    return SessionHarness(Desk("Help."), model=model)


def call(make: object = cascading) -> SessionReport:
    """A call with an interruption, a tool that fails, a turn that fails and markup in its words."""
    tool = ToolCall(call_id="c1", name="look_up", arguments='{"what": "it"}')
    harness: SessionHarness = make([0.1, LONG, Usage(input_tokens=7)], [0.1, tool], [0.1, EVIL], [ValueError("quoted")])  # type: ignore[operator]
    harness.caller.says("count please", 0.5, 1.5)
    harness.caller.says("wait stop", 3.0, 3.6)
    harness.caller.says(EVIL, 7.0, 8.0)
    harness.expects_error("tool").run(until=12.0)
    return harness.session.report()


@pytest.mark.parametrize("make", [cascading, realtime])
def test_a_report_keeps_to_the_published_schema_and_is_read_back_as_it_was(make: object, tmp_path: Path) -> None:
    with warnings.catch_warnings():  # of the library's own imports
        warnings.simplefilter("ignore")
        from jsonschema import Draft202012Validator
    report = call(make)
    data = json.loads(json.dumps(report.to_json()))
    Draft202012Validator.check_schema(schema())
    Draft202012Validator(schema()).validate(data)
    assert not Draft202012Validator(schema()).is_valid({**data, "version": 2})
    assert not Draft202012Validator(schema()).is_valid({**data, "turns": [{}]})
    path = tmp_path / "report.json"
    path.write_text(json.dumps({**data, "booking": {"people": 4}}))  # an application's own field
    assert read_report(path) == report


def test_the_published_schema_is_that_of_the_record_classes() -> None:
    assert schema() == make_schema(), "a field changed: write make_schema() into the file; version 1 only adds fields"


def test_a_report_tells_of_errors_without_content_and_what_the_session_ran_on() -> None:
    report = call()
    assert [(error.source, error.error) for error in report.errors] == [
        ("tool", "ValueError"),
        ("llm", "ProviderError: scripted: it raised ValueError"),
    ]
    assert report.pipeline == "cascading"
    assert [part.kind for part in report.components] == ["vad", "stt", "llm", "tts"] or report.components
    assert report.seconds == pytest.approx(12.0, abs=0.5)
    assert report.close is not None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not JSON"),
        ("[1]", "no 'version'"),
        ('{"a": 1}', "no 'version'"),
        ('{"version": 7, "turns": []}', "version 7, needed version 1"),
        ('{"version": 1, "turns": [{"turn_id": 3}]}', "damaged session report: .*turns.0"),
        ('{"version": 1, "turns": [], "session_id": "s", "started_at": "noon"}', "started_at"),
    ],
)
def test_what_is_no_report_is_refused_in_words(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(ReportError, match=problem):
        read_report(path)
    with pytest.raises(ReportError, match="does not exist"):
        read_report(tmp_path / "other.json")
    with pytest.raises(ReportError, match="is a folder"):
        read_report(tmp_path)


def test_the_page_is_whole_by_itself_and_no_words_become_markup() -> None:
    page = render(call())
    assert page.startswith("<!doctype html>")
    assert "<script" not in page
    assert EVIL not in page
    assert "&lt;script&gt;" in page
    assert not re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(?:https?:)?//""", page)
    assert "default-src 'none'" in page
    for words in ("count please", "wait stop", "interrupted", "look_up", "End", "p95", "tokens in", "configured wait"):
        assert words.lower() in page.lower(), words
    assert page.count('class="waterfall"') == sum(turn.e2e_latency is not None for turn in call().turns)


def test_the_page_counts_turns_as_they_began_and_names_a_late_answer() -> None:
    class Slow(Agent):
        @function_tool
        async def look_up(self, context: RunContext) -> str:
            """Say something, stop the answer, and come to something."""
            _ = self.session.say(LONG)
            await anyio.sleep(1.0)
            context.speech.interrupt()
            return "found"

    tool = ToolCall(call_id="c1", name="look_up", arguments="{}")
    harness = SessionHarness(Slow("Help."), ScriptedLLM([0.1, tool], "It is found.", "As you wish."))
    harness.caller.says("count please", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(8.0)
        await harness.session.reply("Say something.")

    harness.run(scenario)
    report = harness.session.report()
    assert [turn.kind for turn in report.turns] == ["turn", "say", "reply", "reply"]
    shuffled = replace(report, turns=(report.turns[1], report.turns[3], report.turns[0], report.turns[2]))
    for page in (render(report), render(shuffled)):
        heads = re.findall(r'<h3><span class="count">(\d)</span>.*?(?:class="kind">([^<]*)<|class="badge)', page)
        assert heads == [
            ("1", ""),
            ("2", "said by the application"),
            ("3", "answers turn 1 late: the results of its tools"),
            ("4", "asked for by the application"),
        ]
        named = re.findall(r"in traces and logs </b><code>([^<]*)<", page)
        assert named == [turn.turn_id for turn in report.turns]


def test_a_call_without_a_turn_has_a_page_too() -> None:
    page = render(SessionReport(session_id="s", started_at=0.0))
    assert "Nothing was said" in page
    assert "still running" in page


def test_the_waveforms_of_a_recording_are_drawn_and_its_sound_can_be_heard(tmp_path: Path) -> None:
    import numpy as np

    loud = np.zeros((16000, 2), np.int16)
    loud[:8000, 0] = 16384
    loud[8000:, 1] = 32767
    path = tmp_path / "call.wav"
    write_wav(path, AudioFrame(loud.tobytes(), 16000, 2))
    peaks = read_peaks(path, offset=0.5)
    assert peaks.caller == (0.5,) * 10 + (0.0,) * 10
    assert peaks.agent == (0.0,) * 10 + (1.0,) * 10
    page = render(call(), peaks=peaks, audio=path.read_bytes())
    assert page.count("<polygon") == 2
    assert "data:audio/wav;base64," in page
    assert 'data-offset="0.5"' in page


def test_the_command_writes_the_page_or_says_what_is_wrong(tmp_path: Path) -> None:
    report, page, wav = tmp_path / "report.json", tmp_path / "call.html", tmp_path / "mono.wav"
    report.write_text(json.dumps(call().to_json()))
    page.touch(0o644)
    done = CliRunner().invoke(app, ["report", str(report), "-o", str(page)])
    assert done.exit_code == 0, done.output
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert CliRunner().invoke(app, ["report", str(report)]).exit_code == 0
    assert {file.stat().st_mode & 0o777 for file in (page, tmp_path / "report.html")} == {0o600}
    write_wav(wav, AudioFrame(bytes(640), 16000))
    for arguments, problem in (
        (["--wav", str(wav)], "needed 2"),
        (["--wav", str(report)], "is no WAV file"),
        (["--audio"], "there is no recording"),
        (["-o", str(tmp_path / "no" / "where.html")], "cannot write"),
    ):
        failed = CliRunner().invoke(app, ["report", str(report), *arguments])
        assert isinstance(failed.exception, ReportError), arguments
        assert problem in str(failed.exception)


def test_the_timeline_has_a_row_of_events_only_where_there_are_any() -> None:
    report = replace(call(), errors=(), marks=())
    quiet, marked = (render(each) for each in (report, replace(report, marks=(MarkRecord(at=1.0, name="wake_up"),))))
    assert ">events</span>" not in quiet
    assert ">events</span>" in marked
    assert 'height="276"' in quiet
    assert 'height="300"' in marked


def test_a_timeline_that_no_desktop_shows_whole_says_everywhere_that_it_scrolls() -> None:
    report = call()
    assert 'class="narrow"> scrolls sideways' in render(report)
    assert 'class="wide"> scrolls sideways' in render(replace(report, seconds=60.0))


def test_the_page_cuts_a_long_result_of_a_tool_and_shows_its_length() -> None:
    class Library(Agent):
        @function_tool
        async def read(self) -> str:
            """Read it all."""
            return "§" * 60_000

    harness = SessionHarness(
        Library("Help."), ScriptedLLM([0.1, ToolCall(call_id="c1", name="read", arguments="{}")], "Read.")
    )
    harness.caller.says("read it", 0.5, 1.5)
    report = harness.run(until=5.0).session.report()
    page = render(report)
    assert page.count("§") == 500
    assert "… 60,000 characters" in page
    assert report.to_json()["turns"][0]["tools"][0]["output"] == "§" * 60_000


def test_a_turn_that_the_agent_drops_counts_as_no_answer() -> None:
    class Deaf(Agent):
        async def on_enter(self) -> None:
            await self.session.say("Hello.")

        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            if turn.text == "forget it":
                raise StopResponse

    harness = SessionHarness(Deaf("Help."), ScriptedLLM([0.1, "Sure."]))
    harness.caller.says("help me", 2.0, 3.0)
    harness.caller.says("forget it", 6.0, 7.0)
    report = harness.run(until=10.0).session.report()
    assert [turn.outcome for turn in report.turns] == ["completed", "completed", "discarded"]
    assert re.search(r"answered turns</dt><dd>1<small>2 with the agent.{1,6}s own speech", render(report))


@pytest.mark.parametrize(("limit", "tile"), [(5.0, "limit 5"), (-1.0, "no limit")])
def test_the_report_of_a_session_with_a_budget_has_its_cost_and_its_limit(limit: float, tile: str) -> None:
    price = Price(million_input=1e6, million_output=1e6, audio_minute=0, million_characters=0)
    budget = BudgetOptions(cost=limit, prices={"scripted": price})
    llm = ScriptedLLM([0.1, "Sure.", Usage(input_tokens=1, output_tokens=1)])
    harness = SessionHarness(Agent("Help."), llm, options=SessionOptions(budget=budget))
    harness.caller.says("help me", 1.0, 2.0)
    report = harness.run(until=5.0).session.report()
    assert report.to_json()["budget"] == {"cost": 2.0, "cost_limit": None if limit < 0 else limit}
    assert re.search(rf"<dt>cost</dt><dd>2<small>{tile}</small>", render(report))
    assert call().budget is None
    assert "<dt>cost</dt>" not in render(call())
