"""The report as a file: written when the session has closed, one for each, never over another, never the call's end."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.records import ErrorRecord, RecordingRecord
from vivavoce.agents.reports import files
from vivavoce.agents.reports.read import read_report
from vivavoce.agents.session.life import close_steps
from vivavoce.agents.testing import (
    ScriptedLLM,
    ScriptedRealtimeModel,
    ScriptedSTT,
    ScriptedTTS,
    ScriptedVAD,
    SessionHarness,
)
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities
from vivavoce.pipelines.testing import VirtualClock, run_virtual


def call(path: str | Path | None, *, is_realtime: bool = False) -> SessionHarness:
    options = SessionOptions(report_path=path)
    if is_realtime:
        model = ScriptedRealtimeModel(
            "Hi there.", capabilities=RealtimeCapabilities(turn_detection=frozenset({"local"}))
        )
        harness = SessionHarness(Agent("Help."), model=model, options=options)
    else:
        harness = SessionHarness(Agent("Help."), ScriptedLLM("Hi there."), options=options)
    harness.caller.says("good morning", 0.5, 1.0)
    return harness.run(until=4.0)


@pytest.mark.parametrize("is_realtime", [False, True])
def test_a_folder_gets_the_report_of_each_session_as_it_is_after_the_close(tmp_path: Path, is_realtime: bool) -> None:
    first, second = (call(f"{tmp_path}/new/", is_realtime=is_realtime) for _ in range(2))
    assert sorted(tmp_path.glob("new/*")) == sorted(
        tmp_path / "new" / f"{each.session.id}.json" for each in (first, second)
    )
    (path,) = tmp_path.glob(f"new/{first.session.id}.json")
    report = read_report(path)
    assert report == first.session.report()
    assert report.close == first.close_report is not None
    assert [turn.user_text for turn in report.turns] == ["good morning"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_name_in_html_gets_the_page_and_nothing_said_unless_it_is_captured(tmp_path: Path) -> None:
    async def quiet() -> None:
        clock = VirtualClock()
        pipeline = CascadingPipeline(stt=ScriptedSTT(), llm=ScriptedLLM("Hi."), tts=ScriptedTTS(), vad=ScriptedVAD())
        options = SessionOptions(clock=clock, report_path=tmp_path / "call.html")
        async with AgentSession[None](Agent("Help."), pipeline, options=options, id="one") as session:
            await session.start(LocalTransport(clock))
            session.input.text("good morning")
            await asyncio.sleep(3.0)  # noqa: TID251 - virtual, and not the session's own

    run_virtual(quiet())
    page = (tmp_path / "call.one.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "good morning" not in page
    assert "capture_content is off" in page


def test_the_environment_asks_for_it_too_and_the_option_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIVAVOCE_REPORT", str(tmp_path / "all.json"))
    harness = call(None)
    assert [file.name for file in tmp_path.iterdir()] == [f"all.{harness.session.id}.json"]
    call("")
    assert len(list(tmp_path.iterdir())) == 1


def test_a_report_that_is_there_is_never_touched(tmp_path: Path) -> None:
    harness = call("")
    report, path = harness.session.report(), tmp_path / "a.json"
    path.write_text("mine")
    assert files.write_new(path, report) == tmp_path / "a-2.json"
    assert files.write_new(path, report) == tmp_path / "a-3.json"
    assert path.read_text() == "mine"


@pytest.mark.parametrize("name", ["call.json", "call.html"])
def test_half_a_character_in_an_error_or_a_name_costs_no_report(tmp_path: Path, name: str) -> None:
    report = replace(
        call("").session.report(),
        errors=(ErrorRecord(at=1.0, source="tool", error="no such file '\udcff'"),),
        recordings=(RecordingRecord(path="/tmp/\udcff.wav", started_at=0.0, seconds=1.0, sample_rate=8000),),
    )
    text = files.write_new(tmp_path / name, report).read_text()
    assert "good morning" in text
    assert "no such file" in text
    assert "\ufffd" in text


def test_a_report_that_cannot_be_made_leaves_no_file(tmp_path: Path) -> None:
    report = replace(call("").session.report(), room=object())  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        files.write_new(tmp_path / "call.json", report)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_written_is_logged_and_the_close_is_clean(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "taken").write_text("a file where a folder is needed")
    harness = call(f"{tmp_path}/taken/inside/")
    assert harness.close_report is not None
    assert harness.close_report.is_clean
    assert any("cannot be written" in line and "taken/inside" in line for line in caplog.messages)


def test_a_disk_that_hangs_does_not_hold_the_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    free = threading.Event()

    def hang(*_: Any) -> Path:
        free.wait(10)
        return tmp_path

    monkeypatch.setattr(files, "write_new", hang)
    monkeypatch.setattr(close_steps, "REPORT_LIMIT", 0.0)  # virtual time stands still during a wait for a thread
    try:
        harness = call(tmp_path / "call.json")
    finally:
        free.set()
    assert harness.close_report is not None
    assert any("was not written" in line for line in caplog.messages)


def test_what_is_no_report_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"call\.txt"):
        SessionOptions(report_path="call.txt")
    with pytest.raises(ConfigurationError, match="report_path"):
        SessionOptions(report_path=3)  # type: ignore[arg-type]
