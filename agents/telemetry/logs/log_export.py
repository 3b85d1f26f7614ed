"""Log records over OTLP: records of a session or a job go to the telemetry of that session or job.

Each Telemetry has one `LogExport`. Sessions and jobs put theirs into a context variable, and a record goes to the one
that is set where it is logged. So two sessions of a process never see each other's records, and records from outside of
both, such as an exporter's own, are not sent.

The first Telemetry that sends logs puts a handler on the logger `vivavoce`. It stays there and holds nothing. For
records of your own code, put a `SessionLogHandler()` on a logger of yours; you answer for the content of its messages.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import get_current

from vivavoce.agents.telemetry.logs.logs import captures_content, context_ids, extras, mask, without_content
from vivavoce.agents.telemetry.texts import type_name
from vivavoce.pipelines.core.characters import whole
from vivavoce.pipelines.core.errors import contained, describe, located, whole_text

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider

    from vivavoce.agents.telemetry.options import AttributeValue, Redact

logger = logging.getLogger(__name__)

OURS = "vivavoce"

log_export: ContextVar[LogExport | None] = ContextVar("vivavoce_log_export", default=None)
"""The export of the current session or job; None: records are not sent."""

_IDS = {"session_id": "vivavoce.session.id", "job_id": "vivavoce.job.id", "turn_id": "vivavoce.turn.id"}


class LogExport:
    """Makes log records of OpenTelemetry out of Python's.

    Args:
        attributes: Attributes of every record.
        redact: Called for every attribute, and for the message by the name `body`.
    """

    def __init__(
        self, provider: LoggerProvider, attributes: Mapping[str, AttributeValue], redact: Redact | None
    ) -> None:
        self._provider = provider
        self._attributes = dict(attributes)
        self._redact = redact
        self._has_failed = False

    def begin(self) -> None:
        """Receive the records of `vivavoce` from now on."""
        logging.getLogger(OURS).addHandler(_OWN)  # adding it twice is adding it once

    def take(self, record: logging.LogRecord) -> None:
        """Emit a record. It never raises. Records logged meanwhile are not sent, or they would come back here."""
        token = log_export.set(None)
        try:
            self._provider.get_logger(record.name).emit(self._translated(record))
        except Exception as error:  # noqa: BLE001 - a provider of the application's, or a message without its arguments
            if not self._has_failed:
                self._has_failed = True
                logger.warning("A log record could not be sent: %s; this is said once", located(error))
        finally:
            log_export.reset(token)

    def _translated(self, record: logging.LogRecord) -> LogRecord:
        ids = context_ids(record)
        attributes: dict[str, AttributeValue | None] = {
            **self._attributes,
            **{name: ids[own] or None for own, name in _IDS.items()},
            "gen_ai.conversation.id": ids["session_id"] or None,
            "code.file.path": record.pathname,
            "code.function.name": record.funcName,
            "code.line.number": record.lineno,
            **extras(record),
            **_exception(record),
        }
        cleaned = {name: self._clean(name, value) for name, value in attributes.items()}
        body = self._clean("body", mask(record.getMessage()))
        severity, name = _severity(record.levelno)
        return LogRecord(
            timestamp=int(record.created * 1e9),
            context=get_current(),
            severity_text=name,
            severity_number=severity,
            body="" if body is None else body,
            attributes={name: value for name, value in cleaned.items() if value is not None},
        )

    def _clean(self, name: str, value: AttributeValue | None) -> AttributeValue | None:
        if value is not None and self._redact is not None:
            try:
                value = self._redact(name, value)
            except BaseException as raised:  # noqa: BLE001 - user code; an attribute that it cannot clean is not sent
                error = contained(raised, "redact")
                logger.debug("redact raised %s for %s", describe(error), name)
                return None
        return _encodable(value)


class SessionLogHandler(logging.Handler):
    """Sends the records of sessions and jobs to their telemetry, and no others.

    Put it on loggers of yours; records of `vivavoce` itself are sent without it, once.
    """

    def handle(self, record: logging.LogRecord) -> bool:
        """Send the record if its session or job sends logs; without a lock, and without a wait."""
        export = log_export.get()
        is_ours = record.name.partition(".")[0] == OURS
        if export is not None and not is_ours and self.filter(record):
            export.take(record)
        return True


class _OwnHandler(SessionLogHandler):
    """The one on `vivavoce`."""

    def handle(self, record: logging.LogRecord) -> bool:
        export = log_export.get()
        if export is not None and not getattr(record, "is_local", False):
            export.take(record)
        # Without logging set up, Python writes warnings to stderr: so it does beside this handler.
        last = logging.lastResort
        if last is not None and record.levelno >= last.level and not _is_heard(record.name):
            last.handle(record)
        return True


def _is_heard(name: str) -> bool:
    """Whether a logger's records reach a handler besides `_OWN`."""
    here: logging.Logger | None = logging.getLogger(name)
    while here is not None:
        if any(handler is not _OWN for handler in here.handlers):
            return True
        here = here.parent if here.propagate else None
    return False


_OWN = _OwnHandler()


def _encodable(value: AttributeValue | None) -> AttributeValue | None:
    """Return a value that OTLP can encode: one that it cannot would cost the whole batch."""
    if isinstance(value, str):
        return whole(value)  # half a surrogate pair
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return str(value)
    return value


def _severity(level: int) -> tuple[SeverityNumber, str]:
    for least, severity in _SEVERITIES:
        if level >= least:
            return severity, severity.name
    return SeverityNumber.TRACE, "TRACE"


_SEVERITIES = (
    (logging.CRITICAL, SeverityNumber.FATAL),
    (logging.ERROR, SeverityNumber.ERROR),
    (logging.WARNING, SeverityNumber.WARN),
    (logging.INFO, SeverityNumber.INFO),
    (logging.DEBUG, SeverityNumber.DEBUG),
)


def _exception(record: logging.LogRecord) -> dict[str, AttributeValue]:
    """Return a record's exception: lines of code always, foreign texts only with `capture_content`."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return {"exception.stacktrace": mask(record.exc_text)} if record.exc_text else {}
    kind = type(error)
    found: dict[str, AttributeValue] = {"exception.type": type_name(kind)}
    if captures_content():
        found["exception.message"] = mask(whole_text(error))
        found["exception.stacktrace"] = mask(logging.Formatter().formatException((kind, error, error.__traceback__)))
    else:
        found["exception.message"] = mask(describe(error))
        found["exception.stacktrace"] = mask(without_content(error))
    return found
