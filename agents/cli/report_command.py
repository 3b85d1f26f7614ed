"""The command `vivavoce report`: a session's report.json as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from vivavoce.agents.records import SessionReport


def report(
    path: Annotated[Path, typer.Argument(help="A report.json, such as `vivavoce demo` writes.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The page [default: beside it, .html].")] = None,
    wav: Annotated[
        Path | None,
        typer.Option("--wav", help="The session's own recording [default: the one the report names, if it is there]."),
    ] = None,
    audio: Annotated[bool, typer.Option("--audio", help="Put the sound into the page too, with a player.")] = False,
) -> None:
    """Make one HTML page of a call: timeline, transcripts, latencies, tools, errors.

    The page needs no network and can be sent to a colleague; it holds what the report holds.
    """
    from vivavoce.agents.observe.report.read import read_report

    page = output or path.with_suffix(".html")
    write_page(read_report(path), page, wav=wav, beside=path.parent, with_audio=audio)
    typer.echo(f"wrote {page}")


def write_page(
    report: SessionReport, page: Path, *, wav: Path | None = None, beside: Path | None = None, with_audio: bool = False
) -> None:
    """Write the page of a report.

    Args:
        wav: The session's recording; else the first that the report names, as named or in the folder `beside`.
        with_audio: Whether the page holds the sound too.
    Raises:
        ReportError: The recording cannot be read, or the page cannot be written.
    """
    from vivavoce.agents.observe.report.page import render
    from vivavoce.agents.observe.report.peaks import read_peaks
    from vivavoce.pipelines.core.errors import ReportError

    recording = next((each for each in report.recordings if each.path.endswith(".wav")), None)
    if wav is None and recording is not None:
        named = Path(recording.path)
        wav = next((file for file in (named, *([beside / named.name] if beside else ())) if file.is_file()), None)
    peaks = None if wav is None else read_peaks(wav, offset=0.0 if recording is None else recording.started_at)
    if with_audio and wav is None:
        raise ReportError("there is no recording to put into the page; give one with --wav, or leave out --audio")
    sound = wav.read_bytes() if with_audio and wav is not None else None
    try:
        page.write_text(render(report, peaks=peaks, audio=sound), encoding="utf-8")
    except OSError as error:
        raise ReportError(f"cannot write '{page}': {error.strerror}") from error
