"""The command `vivavoce report`: a session's report.json as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from vivavoce.agents.records import SessionReport


def report(
    path: Annotated[Path, typer.Argument(help="A report.json: of `vivavoce demo`, or of VIVAVOCE_REPORT=reports/.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The page [default: beside it, .html].")] = None,
    wav: Annotated[
        Path | None,
        typer.Option("--wav", help="The session's own recording [default: the one the report names, if it is there]."),
    ] = None,
    audio: Annotated[bool, typer.Option("--audio", help="Put the sound into the page too, with a player.")] = False,
) -> None:
    """Make one HTML page of a call: timeline, transcripts, latencies, tools, errors.

    The page needs no network and can be sent to a colleague. It has the same content as the report, so only you may
    read the file.
    """
    from vivavoce.agents.reports.read import read_report

    page = output or path.with_suffix(".html")
    write_page(read_report(path), page, wav=wav, beside=path.parent, with_audio=audio)
    typer.echo(f"wrote {page}")


def write_page(
    report: SessionReport, page: Path, *, wav: Path | None = None, beside: Path | None = None, with_audio: bool = False
) -> None:
    """Write the page of a report, in place of one that is there; only its owner may read it.

    Args:
        wav: The session's recording; else the first that the report names, as named or in the folder `beside`.
        with_audio: Whether the page holds the sound too.
    Raises:
        ReportError: The recording cannot be read, or the page cannot be written.
    """
    from vivavoce.agents.reports.files import page_of
    from vivavoce.pipelines.core.errors import ReportError
    from vivavoce.pipelines.core.private_file import write_private

    text = page_of(report, wav=wav, beside=beside, with_audio=with_audio)
    try:
        write_private(page, text)
    except OSError as error:
        raise ReportError(f"cannot write '{page}': {error.strerror}") from error
