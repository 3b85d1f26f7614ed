"""The report of a session as a file, written when it has closed, in a thread, within a limit.

Asked for by `SessionOptions(report_path=...)` or the environment's `VIVAVOCE_REPORT`; the option wins, "" turns it off.
Each session has a file of its own, named after its id:

| path given | file |
|---|---|
| a folder (it exists, or ends in "/"), or a name without a suffix: `reports` | `reports/<session id>.json` |
| a name that ends in .json, for `vivavoce report`: `call.json` | `call.<session id>.json` |
| a name that ends in .html, the page itself: `call.html` | `call.<session id>.html` |

Missing folders are made. A file that is there already is never touched: the next one is `…-2`. Only its owner may read
it, since with `capture_content` it holds what was said.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path

import anyio
import anyio.to_thread

from vivavoce.agents.records import SessionReport
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import ConfigurationError, describe

logger = logging.getLogger(__name__)

VARIABLE = "VIVAVOCE_REPORT"
SUFFIXES = (".json", ".html")
LIMIT = 2.0
"""Seconds for it, behind the steps of the close; a disk that takes longer is left to itself."""


def report_file(path: str | Path | None, session_id: str) -> Path | None:
    """Return the file that the option or the environment asks for, None if neither does.

    Raises:
        ConfigurationError: Nothing here writes such files.
    """
    wanted = os.environ.get(VARIABLE, "") if path is None else os.fspath(path)
    if not wanted:
        return None
    name, given = re.sub(r"[^\w.-]", "_", session_id), Path(wanted)
    if wanted.endswith(os.sep) or given.is_dir() or not given.suffix:
        return given / f"{name}.json"
    if given.suffix not in SUFFIXES:
        raise ConfigurationError(f"a report is a folder or a file in .json or .html, got {wanted!r}")
    return given.with_name(f"{given.stem}.{name}{given.suffix}")


async def write_report(path: Path, report: SessionReport, clock: Clock) -> None:
    """Write it; what goes wrong is logged, for the session is over."""
    from vivavoce.agents.reports.files import write_new

    with clock.hold(), anyio.move_on_after(LIMIT) as scope:
        try:
            written = await anyio.to_thread.run_sync(write_new, path, report, abandon_on_cancel=True)
        except Exception as error:  # noqa: BLE001 - a disk, or values of the application's that are no JSON
            logger.error("The report of session %s cannot be written to %s: %s", report.session_id, path, _told(error))
        else:
            logger.info("The report of session %s is %s", report.session_id, written)
    if scope.cancelled_caught:
        logger.error("The report of session %s was not written to %s within %g s", report.session_id, path, LIMIT)


def _told(error: Exception) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else describe(error)
