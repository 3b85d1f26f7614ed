"""Files of a report: its JSON, and its page with the recording that belongs to it."""

from __future__ import annotations

import json
from pathlib import Path

from vivavoce.agents.records import SessionReport
from vivavoce.agents.reports.page import render
from vivavoce.agents.reports.peaks import read_peaks
from vivavoce.pipelines.core.characters import whole
from vivavoce.pipelines.core.errors import ReportError
from vivavoce.pipelines.core.private_file import create_private


def to_text(report: SessionReport) -> str:
    """Return the content of report.json."""
    return whole(json.dumps(report.to_json(), indent=2, ensure_ascii=False)) + "\n"


def page_of(
    report: SessionReport, *, wav: Path | None = None, beside: Path | None = None, with_audio: bool = False
) -> str:
    """Return the page of a report.

    Args:
        wav: The session's recording; else the first that the report names, as named or in the folder `beside`.
        with_audio: Whether the page holds the sound too.
    Raises:
        ReportError: The recording cannot be read.
    """
    recording = next((each for each in report.recordings if each.path.endswith(".wav")), None)
    if wav is None and recording is not None:
        named = Path(recording.path)
        wav = next((file for file in (named, *([beside / named.name] if beside else ())) if file.is_file()), None)
    peaks = None if wav is None else read_peaks(wav, offset=0.0 if recording is None else recording.started_at)
    if with_audio and wav is None:
        raise ReportError("there is no recording to put into the page; give one with --wav, or leave out --audio")
    sound = wav.read_bytes() if with_audio and wav is not None else None
    return whole(render(report, peaks=peaks, audio=sound))


def write_new(path: Path, report: SessionReport) -> Path:
    """Write the report, or its page if `path` ends in .html, into a new file; return its path.

    Raises:
        OSError: It cannot be written.
        ReportError: The recording cannot be read.
    """
    text = page_of(report) if path.suffix == ".html" else to_text(report)
    data = text.encode()  # before there is a file
    descriptor, file = create_private(path)
    with open(descriptor, "wb") as out:
        out.write(data)
    return file
