"""RichReplies: sends the parts of one session to its caller, and takes the caller's answers and files."""

from __future__ import annotations

import json
import logging
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Protocol

from vivavoce.agents import events as ev
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.records import ReceivedFile
from vivavoce.agents.replies.files import safe_name, safe_type
from vivavoce.agents.replies.kept import KeptPart, KeptParts, answer, record_of
from vivavoce.agents.replies.part import Part
from vivavoce.agents.replies.wire import (
    AnswerOutcome,
    Plain,
    answer_message,
    errors_of,
    upload_message,
    uploads_message,
)
from vivavoce.agents.transports.options import FileInputOptions
from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.io import FileOutcome, OfferedFile, PartMessage

if TYPE_CHECKING:
    from pydantic import BaseModel

logger = logging.getLogger(__name__)

VALIDATION_LIMIT = 10.0
"""Seconds for a model to check the values of a form."""
SOURCE = "form"
"""The source of the `error` event for a model whose own code raises."""


class PartLog(Protocol):
    """Keeps the records of a session's parts, for the next process that continues it."""

    def record(self, text: str) -> None:
        """Keep a record, without waiting for that."""


class RichReplies:
    """The rich replies of one session."""

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self._log: PartLog | None = None
        self._kept = KeptParts()
        self._limits: FileInputOptions | None = None
        self._has_caller = False
        self._files = 0
        """The number of the caller's files so far."""
        self._coming: set[str] = set()
        """The ids of files that are being received."""
        self._checking: set[str] = set()
        """The ids of forms whose values are being checked."""

    def open(self, files: FileInputOptions | None) -> None:
        """Take the caller's files within these limits, or none for None."""
        self._limits = files

    def keep_in(self, log: PartLog) -> None:
        """Write a record of each part and of each answer to that log."""
        self._log = log

    def restore(self, records: list[str]) -> None:
        """Begin with the parts of an earlier process of the same session."""
        self._kept.restore(records)

    # --- to the caller

    def post(self, part: Part) -> str:
        """Keep, record and send a part; return its id."""
        kept = self._kept.add(new_id("part"), part)
        self._record(record_of(kept, self._context.clock.wall()))
        self._send(kept.message)
        return kept.id

    def take(self, record: str) -> None:
        """Keep and send a part that another process has posted, by its record."""
        if (kept := self._kept.take(record)) is not None:
            self._send(kept.message)

    def caller_reached(self) -> None:
        """Send all parts, since the caller is there, or there again."""
        self._has_caller = True
        if (limits := self._limits) is not None and self._are_files_wanted:
            self._send(uploads_message(limits.max_bytes, sorted(limits.media_types or ())))
        for kept in self._kept:
            self._send(kept.message)

    def caller_left(self) -> None:
        """Note that the caller is gone, maybe for good."""
        self._has_caller = False

    def _record(self, text: str) -> None:
        if self._log is not None:
            self._log.record(text)

    def _send(self, message: PartMessage) -> None:
        transport = self._context.live.transport
        if transport is not None and self._has_caller:
            transport.send_part(message)

    # --- answers

    def answered(self, json_text: str) -> None:
        """Take the caller's answer to a part."""
        from vivavoce.agents.replies.answer import read_answer

        answered = read_answer(json_text)
        if answered is None:
            logger.warning("the caller's page sent an answer to a part that cannot be read; it is left out")
            return
        kept = self._kept.get(answered.part)
        if kept is not None and kept.takes_choice and answered.choice is not None:
            self._chosen(kept, answered.choice)
        elif kept is not None and kept.model is not None and answered.values is not None:
            self._submitted(kept, kept.model, answered.values)
        else:
            self._send(answer_message(answered.part, "closed"))

    def _chosen(self, kept: KeptPart, choice: int) -> None:
        options = kept.plain["options"]
        if not 0 <= choice < len(options):
            self._send(answer_message(kept.id, "invalid"))
            return
        self._record(answer(kept, choice))
        self._send(answer_message(kept.id, "accepted"))
        self._context.inbox.post(i.TextReceived(options[choice]))

    def _submitted(self, kept: KeptPart, model: type[BaseModel], values: Plain) -> None:
        if kept.id in self._checking:  # sent twice: the first answer counts
            return
        self._checking.add(kept.id)
        check = partial(self._check, kept, model, values)
        name = f"the model {model.__name__} of a form"
        self._context.hooks.start("event", name, check, VALIDATION_LIMIT, source=SOURCE)

    async def _check(self, kept: KeptPart, model: type[BaseModel], values: Plain) -> None:
        from pydantic import ValidationError

        outcome: AnswerOutcome = "failed"
        errors: list[Plain] = []
        try:
            form = model.model_validate_json(json.dumps(values))
            outcome = "accepted"
        except ValidationError as error:
            outcome, errors = "invalid", errors_of(error)
        finally:  # the model's validators are the application's: an error of theirs is an event
            self._checking.discard(kept.id)
            self._send(answer_message(kept.id, outcome, errors))
        if outcome == "accepted":
            self._record(answer(kept))
            self._context.inbox.post(i.KeyPressed())
            self._context.log.note(ev.FormSubmitted, part_id=kept.id, form=form)

    # --- files

    @property
    def _are_files_wanted(self) -> bool:
        return self._context.log.emitter.is_listened_to(ev.FileReceived.name)

    def file_offered(self, file: OfferedFile) -> int:
        """Return how many bytes a file of the caller may have; 0 refuses it."""
        refusal = self._refusal(file)
        if refusal is None:
            self._coming.add(file.id)
            assert self._limits is not None
            return self._limits.max_bytes
        self.refuse(file, refusal)
        return 0

    def file_ended(self, file: OfferedFile, outcome: FileOutcome, data: bytes) -> None:
        """Note that a file of the caller has come or was given up; a refused file is not reported."""
        self._coming.discard(file.id)
        if outcome != "received":
            self.refuse(file, outcome)
            return
        self._files += 1
        self._send(upload_message(file.id, "received"))
        received = ReceivedFile(name=safe_name(file.name), media_type=safe_type(file.media_type), data=data)
        self._context.inbox.post(i.KeyPressed())
        self._context.log.note(ev.FileReceived, file=received)

    def _refusal(self, file: OfferedFile) -> FileOutcome | None:
        limits = self._limits
        if limits is None or not self._are_files_wanted:
            return "not_wanted"
        if self._files + len(self._coming) >= limits.max_files:
            return "too_many"
        types = limits.media_types
        if types is not None and not any(fnmatchcase(safe_type(file.media_type), one) for one in types):
            return "wrong_type"
        return "too_large" if file.size is not None and file.size > limits.max_bytes else None

    def refuse(self, file: OfferedFile, outcome: FileOutcome) -> None:
        """Refuse a file of the caller: inform the page and the application."""
        logger.info("a file of the caller was not taken: %s", outcome)
        self._send(upload_message(file.id, outcome))
        self._context.log.note(
            ev.FileRefused,
            file_name=safe_name(file.name),
            media_type=safe_type(file.media_type),
            reason=outcome,
        )
