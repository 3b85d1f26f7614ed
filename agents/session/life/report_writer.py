"""Writes the report of a session to a file when the session has closed, in a thread, within a limit.

`SessionOptions(report_path=...)` or the variable `VIVAVOCE_REPORT` asks for it; the option wins, and "" turns it off.
`agents.core.session_files` names the file: JSON for `vivavoce report`, or the page itself if the name ends in .html.
Only its owner may read it, since it holds the conversation's words if `capture_content` is on.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import anyio
import anyio.to_thread

from vivavoce.agents.core.session_files import session_file
from vivavoce.agents.records import SessionReport
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import describe

logger = logging.getLogger(__name__)

VARIABLE = "VIVAVOCE_REPORT"
SUFFIXES = (".json", ".html")
LIMIT = 2.0
"""Seconds for it, after the steps of the close; the session does not wait longer for a slow disk."""


def report_file(path: str | Path | None, session_id: str) -> Path | None:
    """Return the file that the option or the environment asks for, None if neither does.

    Raises:
        ConfigurationError: The path has another suffix.
    """
    wanted = os.environ.get(VARIABLE, "") if path is None else os.fspath(path)
    if not wanted:
        return None
    return session_file(wanted, session_id, suffix=".json", suffixes=SUFFIXES, what="a report")


async def write_report(path: Path, report: SessionReport, clock: Clock) -> None:
    """Write the report; a failure is logged only, since the session has closed."""
    from vivavoce.agents.reports.files import write_new

    with clock.hold(), anyio.move_on_after(LIMIT) as scope:
        try:
            written = await anyio.to_thread.run_sync(write_new, path, report, abandon_on_cancel=True)
        except Exception as error:  # noqa: BLE001 - disks fail, and the application's values may not be JSON
            logger.error("The report of session %s cannot be written to %s: %s", report.session_id, path, _told(error))
        else:
            logger.info("The report of session %s is %s", report.session_id, written)
    if scope.cancelled_caught:
        logger.error("The report of session %s was not written to %s within %g s", report.session_id, path, LIMIT)


def _told(error: Exception) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else describe(error)
