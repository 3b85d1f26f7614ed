"""Reads report.json: returns a SessionReport, or raises an error that says what is wrong with the file."""

from __future__ import annotations

import json
from pathlib import Path

from vivavoce.agents.records import REPORT_VERSION, SessionReport
from vivavoce.pipelines.core.errors import ReportError

SHOWN_PROBLEMS = 3


def read_report(path: Path) -> SessionReport:
    """Return the report in that file; unknown fields, for example an application's own, are skipped.

    Raises:
        ReportError: The file cannot be read, is no report, or has another version.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ReportError(f"'{path}' does not exist; give a report.json") from error
    except IsADirectoryError as error:
        raise ReportError(f"'{path}' is a folder; give the report.json in it") from error
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ReportError(f"cannot read '{path}': {why}") from error
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ReportError(f"'{path}' is no session report: it is not JSON ({error})") from error
    return _checked(path, data)


def _checked(path: Path, data: object) -> SessionReport:
    from pydantic import TypeAdapter, ValidationError

    if not isinstance(data, dict) or "version" not in data or "turns" not in data:
        raise ReportError(f"'{path}' is no session report: it has no 'version' and 'turns'; sessions write report.json")
    if data["version"] != REPORT_VERSION:
        raise ReportError(
            f"'{path}' is a session report of version {data['version']!r}, needed version {REPORT_VERSION}; "
            "read it with the vivavoce that wrote it"
        )
    try:
        return TypeAdapter(SessionReport).validate_python(data)
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
            for problem in error.errors(include_input=False, include_url=False)[:SHOWN_PROBLEMS]
        ]
        more = error.error_count() - len(problems)
        problems += [f"and {more} more"] if more > 0 else []
        raise ReportError(f"'{path}' is a damaged session report: {'; '.join(problems)}") from error
