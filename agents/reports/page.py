"""The page: one self-contained HTML file of a session report. It loads nothing, and its policy forbids loading."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path

from vivavoce.agents.records import SessionReport
from vivavoce.agents.reports import figures
from vivavoce.agents.reports.markup import Element, el, to_html, words
from vivavoce.agents.reports.peaks import Peaks
from vivavoce.agents.reports.timeline import timeline
from vivavoce.agents.reports.turns import turns

_FOLDER = Path(__file__).parent
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; media-src data:; img-src data:"


def render(report: SessionReport, *, peaks: Peaks | None = None, audio: bytes | None = None) -> str:
    """Return the page.

    Args:
        peaks: Waveforms of the recording.
        audio: A WAV file to play in the page, which contains it; it begins at the same time as the peaks.
    """
    began = datetime.fromtimestamp(report.started_at, UTC)
    name = report.room or report.session_id
    title = f"Call in {name}, {began:%Y-%m-%d %H:%M} UTC"
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", http_equiv="Content-Security-Policy", content=POLICY),
        el("meta", name="color-scheme", content="light dark"),
        el("title", title),
        el("style", (_FOLDER / "page.css").read_text(encoding="utf-8")),
    )
    main = el(
        "main",
        figures.summary(report),
        timeline(report, peaks),
        _player(audio, peaks) if audio is not None else None,
        turns(report),
        figures.latency(report),
        figures.usage(report),
        figures.errors(report),
        figures.close(report),
        figures.session(report),
    )
    script = el("script", (_FOLDER / "page.js").read_text(encoding="utf-8")) if audio is not None else None
    body = el("body", _header(report, began, name), main, script)
    return "<!doctype html>\n" + to_html(el("html", head, body, lang="en")) + "\n"


def _header(report: SessionReport, began: datetime, name: str) -> Element:
    ended = "still running" if report.close is None else words(report.close.reason)
    when = el("time", f"{began:%d %B %Y, %H:%M:%S} UTC", datetime=began.isoformat())
    return el(
        "header",
        el("p", "vivavoce session report", class_="brand"),
        el("h1", f"Call in {name}"),
        el("p", when, f" · {ended}"),
    )


def _player(audio: bytes, peaks: Peaks | None) -> Element:
    offset = 0.0 if peaks is None else peaks.offset
    source = "data:audio/wav;base64," + base64.b64encode(audio).decode()
    player = el("audio", id="audio", controls="controls", preload="metadata", src=source, data_offset=offset)
    hint = el("p", "Click the timeline to listen from there. The caller is on the left.", class_="note")
    return el("section", el("h2", "Sound"), player, hint, id="sound")
