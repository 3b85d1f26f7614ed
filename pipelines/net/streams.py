"""Streamed answers: server-sent events and JSON lines, cut from the pieces in which a body comes.

Source of the events: https://html.spec.whatwg.org/multipage/server-sent-events.html, section 9.2.6.
"""

from __future__ import annotations

import codecs
import json
import logging
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import anyio

from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.net.client import Response
from vivavoce.pipelines.net.failures import Failures, error_in

logger = logging.getLogger(__name__)

MAX_CHARACTERS = 8 * 1024 * 1024
"""Length of one event, or of one line."""

MAX_OTHER_LINES = 200
"""Lines of an event stream that are no field of an event, of which an error may consist."""

REST_LIMIT = 0.1
"""Seconds for the end of a body behind its last event, so that the connection stays for the next request."""

END_OF_LINE = re.compile(r"\r\n|\n|\r")
LINE_FEED = re.compile("\n")


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One server-sent event; `name` is "message" if the server gave none."""

    data: str = field(repr=False)
    name: str = "message"
    id: str = ""


class Lines:
    """Cuts UTF-8 in pieces of any size into whole lines.

    Args:
        failures: Makes the errors.
        ends: What ends a line; JSON lines end with a line feed only.
    """

    def __init__(self, failures: Failures, ends: re.Pattern[str] = END_OF_LINE) -> None:
        self._failures = failures
        self._ends = ends
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._rest = ""

    def feed(self, data: bytes, *, is_last: bool = False) -> list[str]:
        """Return the lines that are whole now.

        Args:
            is_last: Whether nothing follows: then the rest is a line too, if it is not empty.
        Raises:
            ProviderProtocolError: It is no UTF-8, or a line without an end.
        """
        text = self._rest + self._decoded(data, is_last)
        held = ""
        if text.endswith("\r") and not is_last:  # perhaps the first half of an end
            text, held = text[:-1], "\r"
        *lines, self._rest = self._ends.split(text)
        if is_last and self._rest:
            lines.append(self._rest)
            self._rest = ""
        self._rest += held
        if len(self._rest) > MAX_CHARACTERS:
            raise self._failures.malformed(f"lines of at most {MAX_CHARACTERS} characters", "a longer one")
        return lines

    def _decoded(self, data: bytes, is_last: bool) -> str:
        try:
            return self._decoder.decode(data, is_last)
        except UnicodeDecodeError:
            failure = self._failures.malformed("UTF-8", "other bytes")
        raise failure  # outside of the block: the error holds the bytes


class EventReader:
    """Turns the body of a `text/event-stream` into events, sans-I/O."""

    def __init__(self, failures: Failures) -> None:
        self._lines = Lines(failures)
        self._failures = failures
        self._data: list[str] = []
        self._size = 0
        self._name = ""
        self._id = ""
        self._is_first = True
        self._others: list[str] = []

    def feed(self, data: bytes) -> list[ServerEvent]:
        """Return the events that are whole now; an event that the end of the stream cuts off is none.

        Raises:
            ProviderProtocolError: As for `Lines.feed()`.
        """
        events: list[ServerEvent] = []
        for line in self._lines.feed(data):
            if self._is_first:
                self._is_first, line = False, line.removeprefix("\ufeff")
            if line:
                self._take(line)
            elif self._data:
                events.append(ServerEvent("\n".join(self._data), self._name or "message", self._id))
                self._data, self._name, self._size = [], "", 0
            else:
                self._name = ""
        return events

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
            self._size += len(value)
            if self._size > MAX_CHARACTERS:
                raise self._failures.malformed(f"events of at most {MAX_CHARACTERS} characters", "a longer one")
        elif name == "event":
            self._name = value
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name not in ("", "retry", "id") and len(self._others) < MAX_OTHER_LINES:
            self._others.append(line)

    def error(self) -> ProviderError | None:
        """Return the error that the server wrote between the events as plain JSON, as Google's servers do."""
        try:
            body = json.loads("\n".join(self._others))
        except (ValueError, RecursionError):
            return None
        name, text = error_in(body)
        if name.isdecimal() and 400 <= int(name) < 600:
            return self._failures.status(int(name), None, body)
        return self._failures.in_answer(name or None, text) if name or text else None


async def sse(response: Response) -> AsyncGenerator[ServerEvent, None]:
    """Yield the server-sent events of an answer.

    Raises:
        ProviderError: The answer is no event stream, it broke off, or it ends with an error.
    """
    _check_kind(response, "text/event-stream")
    reader = EventReader(response.failures)
    async with aclosing(response.chunks()) as chunks:
        async for data in chunks:
            for event in reader.feed(data):
                yield event
    if (failure := reader.error()) is not None:
        raise failure


async def read_rest(events: AsyncGenerator[ServerEvent, None]) -> None:
    """Read to the end of a body whose last event has come, for a moment at most; a failure is of no matter."""
    with anyio.move_on_after(REST_LIMIT):
        try:
            async for _ in events:
                pass
        except ProviderError as failure:
            logger.debug("the connection failed after the end of an answer: %s", failure)


async def json_lines(response: Response) -> AsyncGenerator[Any, None]:
    """Yield the values of an answer with one JSON value a line; empty lines are passed over.

    Raises:
        ProviderError: A line is no JSON, or the answer broke off.
    """
    lines = Lines(response.failures, LINE_FEED)
    async with aclosing(response.chunks()) as chunks:
        async for data in chunks:
            for line in lines.feed(data):
                if line.strip():
                    yield json_value(line, response.failures)
    for line in lines.feed(b"", is_last=True):
        if line.strip():
            yield json_value(line, response.failures)


def json_value(text: str | bytes, failures: Failures) -> Any:
    """Return the value of a JSON text.

    Raises:
        ProviderProtocolError: It is none.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        got = f"something else ({type(error).__name__})"
    raise failures.malformed("JSON", got)  # outside of the block: the error holds the text


def json_object(text: str | bytes, failures: Failures) -> dict[str, Any]:
    """Return the object of a JSON text.

    Raises:
        ProviderProtocolError: It is none.
    """
    value = json_value(text, failures)
    if not isinstance(value, dict):
        raise failures.malformed("a JSON object", type(value).__name__)
    return value


def _check_kind(response: Response, needed: str) -> None:
    if response.kind != needed:
        raise response.failures.malformed(
            f"an answer of the type {needed}", f"{response.kind}; check base_url, and whether the server has this API"
        )
