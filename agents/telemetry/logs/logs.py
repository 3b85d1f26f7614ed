"""Logs as structured records: each has the ids of its session, job, turn and trace; as text, or as a line of JSON.

A library installs no handlers that write. `vivavoce start` (`--log-format json`, or LOG_FORMAT) sets one up; elsewhere
put `ContextFilter()` on a handler of yours, and `JsonFormatter()` if you like. The ids travel in context variables that
a session sets in its own task only, so that two sessions of a process never see each other's; nothing of logging
itself is changed. How they get into a backend: `vivavoce.agents.telemetry.logs.log_export`.

Messages of `vivavoce` hold no content. Tracebacks may quote some (a foreign error's text): without `capture_content`
they keep their lines of code and lose that text. Text that looks like a secret is masked in every line.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime

from vivavoce.agents.current_job import get_job_context
from vivavoce.pipelines.core.characters import whole
from vivavoce.pipelines.core.errors import ConfigurationError, is_tellable, text_of

CONTEXT_FIELDS = ("session_id", "job_id", "turn_id", "trace_id", "span_id")
"""Fields that `ContextFilter` adds to a record; "" without a value."""


@dataclass(frozen=True, slots=True)
class _SessionLogs:
    session_id: str
    captures_content: bool


_session: ContextVar[_SessionLogs | None] = ContextVar("vivavoce_log_session", default=None)
_turn: ContextVar[str] = ContextVar("vivavoce_log_turn", default="")


def log_session(session_id: str, *, captures_content: bool) -> None:
    """File records of the current task, and of tasks that it starts, under that session from now on."""
    _session.set(_SessionLogs(session_id, captures_content))
    _turn.set("")


def log_turn(turn_id: str) -> None:
    """File records of the current task, and of tasks that it starts, under that turn from now on."""
    _turn.set(turn_id)


def present_turn() -> str:
    """Return the turn that the calling code is part of; empty outside any turn."""
    return _turn.get()


LOCAL = {"is_local": True}
"""The `extra` of a record that quotes an application's own error: it is shown where the process runs, and not sent."""


def captures_content() -> bool:
    """Whether the current session keeps content; False where there is none."""
    session = _session.get()
    return session is not None and session.captures_content


def context_ids(record: logging.LogRecord) -> dict[str, str]:
    """Return `CONTEXT_FIELDS` of the calling task; ids that the record has stay."""
    session = _session.get()
    trace_id, span_id = _span_ids()
    found = {
        "session_id": "" if session is None else session.session_id,
        "job_id": _job_id(),
        "turn_id": _turn.get(),
        "trace_id": trace_id,
        "span_id": span_id,
    }
    return {name: getattr(record, name, "") or value for name, value in found.items()}


def extras(record: logging.LogRecord) -> dict[str, str | int | float | bool]:
    """Return the record's `extra`: plain values as they are, others as text, secrets masked."""
    found: dict[str, str | int | float | bool] = {}
    for name, value in record.__dict__.items():
        if name in _STANDARD or name in CONTEXT_FIELDS or value == "" or value is None:
            continue
        if _SECRET_NAME.search(name):
            found[name] = MASK
        else:
            found[name] = value if isinstance(value, int | float) else mask(str(value))
    return found


class ContextFilter(logging.Filter):
    """Lets all records pass, with the ids of their task; takes content out of tracebacks of `vivavoce`."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add `CONTEXT_FIELDS` to the record; ids that it has stay."""
        session = _session.get()
        for name, value in context_ids(record).items():
            setattr(record, name, value)
        is_ours = record.name.partition(".")[0] == "vivavoce"
        if is_ours and record.exc_info and session is not None and not session.captures_content:
            record.exc_text = without_content(record.exc_info[1])
            record.exc_info = None
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `time` (UTC), `level`, `logger`, `message`, the ids, a record's extras, `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": when.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name in CONTEXT_FIELDS if (value := getattr(record, name, ""))}
        line |= extras(record)
        if exception := _exception(self, record):
            line["exception"] = exception
        masked = {name: mask(value) if isinstance(value, str) else value for name, value in line.items()}
        return whole(json.dumps(masked, ensure_ascii=False))


class TextFormatter(logging.Formatter):
    """A line for people; session and turn stand behind the logger's name."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s%(place)s: %(message)s", datefmt="%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, or lines."""
        ids = [getattr(record, name, "") for name in ("session_id", "turn_id")]
        record.place = f" [{' '.join(filter(None, ids))}]" if any(ids) else ""
        return whole(mask(super().format(record)))


MASK = "•••"
_SECRET_NAME = re.compile(r"secret|password|token$|api_?key|authorization|credential", re.IGNORECASE)
_SECRETS = re.compile(
    r"""(?P<jwt>\beyJ[\w-]{8,}\.[\w-]+\.[\w-]+)"""
    r"""|(?P<bearer>\b(?:bearer|basic)\s+)[\w.~+/=-]{8,}"""
    r"""|(?P<named>\b(?:access_token|api[_-]?key|api[_-]?secret|password|client_secret)["']?\s*[=:]\s*["']?)[^\s"'&,;}]+"""
    r"""|(?P<key>\bsk-[\w-]{16,})""",
    re.IGNORECASE,
)


def mask(text: str) -> str:
    """Return `text` with tokens, keys and passwords masked. Only foreign code logs any."""
    return _SECRETS.sub(lambda found: (found["bearer"] or found["named"] or "") + MASK, text)


def without_content(error: BaseException | None) -> str:
    """Return a traceback as lines of code; the text of errors that are not ours, which may quote content, is left out.

    The error that caused it is added likewise.
    """
    if error is None:
        return ""
    text = f": {text_of(error)}" if is_tellable(error) and text_of(error) else " (its text may hold content)"
    lines = traceback.format_tb(error.__traceback__)
    own = "Traceback (most recent call last):\n" + "".join(lines) + f"{type(error).__qualname__}{text}"
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    parts = [without_content(cause), own] if cause is not None else [own]
    if isinstance(error, BaseExceptionGroup):
        parts += [without_content(leaf) for leaf in error.exceptions]
    return "\n\n".join(parts)


def _exception(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    if record.exc_text:
        return record.exc_text
    return formatter.formatException(record.exc_info) if record.exc_info else ""


def _job_id() -> str:
    try:
        return get_job_context().job.id
    except ConfigurationError:  # in no job
        return ""


def _span_ids() -> tuple[str, str]:
    """Return trace and span of the current span; without OpenTelemetry loaded there is none."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return "", ""
    context = api.get_current_span().get_span_context()
    if not context.is_valid:
        return "", ""
    return f"{context.trace_id:032x}", f"{context.span_id:016x}"


_STANDARD = {
    *logging.LogRecord("", 0, "", 0, "", None, None).__dict__,
    "message",
    "asctime",
    "place",
    "taskName",
    *LOCAL,
}
