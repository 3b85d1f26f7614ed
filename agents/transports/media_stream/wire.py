"""MediaWire: the messages of one media stream, sans-I/O; a file for each vendor."""

from __future__ import annotations

import base64
import binascii
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from vivavoce.agents.transports.media_stream.coding import Coding
from vivavoce.agents.transports.media_stream.wire_error import WireError as WireError
from vivavoce.pipelines.core.checks import shown

Message = str | bytes
"""One frame of text or of bytes."""
KEYS = frozenset("0123456789*#ABCD")
KINDS = {
    type(None): "none",
    bool: "a flag",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "an object",
}
MOST_SHOWN = 60
"""Characters of a foreign text in an error."""
DIGITS = 20
"""Of a vendor's whole number, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The call has begun.

    Args:
        line: The wire's name, such as `"twilio"`.
        call_id: The vendor's id of the call.
        stream_id: The vendor's id of the stream; empty if there is none.
        number: The caller's number, as the vendor or our own webhook gives it; empty if unknown.
        called_number: The number that was called; empty if unknown.
        parameters: Names and values that the webhook's answer, or the application, gave to the stream.
    """

    line: str
    call_id: str
    stream_id: str = ""
    number: str = field(default="", repr=False)
    called_number: str = field(default="", repr=False)
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)

    def with_parameters(self, parameters: Mapping[str, str]) -> Started:
        """Return the same call with other parameters."""
        return replace(self, parameters=parameters)


@dataclass(frozen=True, slots=True)
class Heard:
    """Audio of the caller.

    Args:
        pcm: 16-bit mono PCM at the wire's input rate.
        chunk: Number of the message, from 1 or so on; None if the vendor does not count.
        timestamp: Its first sample's time in milliseconds, from any beginning; None if the vendor gives none.
    """

    pcm: bytes = field(repr=False)
    chunk: int | None = None
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class KeyPressed:
    """The caller pressed a key: one of 0 to 9, *, # and A to D."""

    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class MarkPlayed:
    """The audio before that mark has been played, or, after a `clear()`, dropped."""

    name: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The vendor reports an error of the stream."""

    text: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The vendor has ended the stream: the call is over."""


WireEvent = Started | Heard | KeyPressed | MarkPlayed | Failed | Stopped


class MediaWire(ABC):
    """One stream's state and messages.

    The outgoing messages are made after `Started` alone.
    """

    name: str
    """The vendor's name, as on the command line."""
    reorders = False
    """Whether the vendor may send audio in another order than the caller spoke it."""

    def __init__(self, coding: Coding) -> None:
        self._is_started = False
        self._coding = coding
        """The form of the audio, both ways unless a wire says otherwise; `start` may name another one."""
        self._stream_id = ""

    @property
    def input_rate(self) -> int:
        """Hz of `Heard`; known once the stream has started."""
        return self._coding.sample_rate

    @property
    def output_rate(self) -> int:
        """Hz for `audio()`; known once the stream has started."""
        return self._coding.sample_rate

    @abstractmethod
    def receive(self, message: Message) -> list[WireEvent]:
        """Return the events of a message; an event that the vendor has added without notice has none.

        Raises:
            WireError: It is malformed, or comes at the wrong time; the stream may go on without it.
        """

    @abstractmethod
    def audio(self, pcm: bytes) -> Message:
        """Return the message that queues 16-bit mono PCM of the output rate at the vendor."""

    @abstractmethod
    def mark(self, name: str) -> Message:
        """Return the message that has the vendor report when the audio before it has been played."""

    @abstractmethod
    def clear(self) -> Message:
        """Return the message that drops the audio queued at the vendor."""

    def keys(self, keys: str) -> Message | None:
        """Return the message that presses keys for the other side; None if there is none."""
        return None

    def stop(self) -> Message | None:
        """Return the message that ends the stream from our side, before the socket closes; None if there is none."""
        return None

    def _begin(self) -> None:
        if self._is_started:
            raise WireError(f"needed one start of the {self.name} stream, got a second one; it is ignored")
        self._is_started = True

    def _check_stream(self, stream_id: str) -> None:
        if stream_id != self._stream_id:
            raise WireError("needed a message of this call's own stream, got one of another; it is ignored")

    def _check_started(self, what: str) -> None:
        if not self._is_started:
            raise WireError(f"needed the start of the {self.name} stream first, got {what}; it is ignored")


def object_of(message: Message) -> dict[str, Any]:
    """Return the JSON object of a text message.

    Raises:
        WireError: It is none.
    """
    if isinstance(message, bytes):
        raise WireError(f"needed a message of text, got {len(message)} bytes; it is ignored")
    try:
        found = json.loads(message)
    except (ValueError, RecursionError) as error:
        raise WireError(f"needed a message in JSON, got {len(message)} characters of another; it is ignored") from error
    if not isinstance(found, dict):
        raise WireError(f"needed a JSON object, got {_kind(found)}; it is ignored")
    return found


def part_of(message: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the object at a field of a message.

    Raises:
        WireError: There is none.
    """
    part = message.get(name)
    if not isinstance(part, dict):
        raise WireError(f"needed an object in {name!r}, got {_kind(part)}; the message is ignored")
    return part


def text_of(message: Mapping[str, Any], name: str, *, default: str = "") -> str:
    """Return the text at a field of a message; numbers become texts.

    Raises:
        WireError: It is of another kind.
    """
    value = message.get(name)
    if value is None:
        return default
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise WireError(f"needed a text in {name!r}, got {_kind(value)}; the message is ignored")


def number_of(message: Mapping[str, Any], name: str) -> int | None:
    """Return the whole number at a field, which vendors send as a number or as a text; None if it is left out.

    Raises:
        WireError: It is none.
    """
    value = message.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, str) and len(value) <= DIGITS and value.isascii() and value.isdecimal():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**DIGITS:
        return value
    raise WireError(f"needed a whole number in {name!r}, got {cut(value)}; the message is ignored")


def texts_of(message: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return the names and values at a field; empty if it is left out.

    Raises:
        WireError: It is no object of texts.
    """
    if message.get(name) is None:
        return {}
    part = part_of(message, name)
    return {key: text_of(part, key) for key in part}


def payload_of(media: Mapping[str, Any]) -> bytes:
    """Return the bytes of a media message.

    Raises:
        WireError: They are not in base64.
    """
    payload = media.get("payload")
    if not isinstance(payload, str):
        raise WireError(f"needed audio in base64 in 'payload', got {_kind(payload)}; the message is dropped")
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError) as error:
        raise WireError("needed audio in base64 in 'payload', got something else; the message is dropped") from error


def key_of(dtmf: Mapping[str, Any]) -> KeyPressed:
    """Return the key of a dtmf message.

    Raises:
        WireError: It is no key of a telephone; its text is not quoted, since digits are secrets.
    """
    key = text_of(dtmf, "digit").upper()
    if key not in KEYS:
        raise WireError("needed a key of a telephone in 'digit', got something else; the message is ignored")
    return KeyPressed(key)


def in_base64(data: bytes) -> str:
    """Return bytes as a JSON message carries them."""
    return base64.b64encode(data).decode("ascii")


def as_json(message: Mapping[str, object]) -> str:
    """Return a message as text."""
    return json.dumps(message, separators=(",", ":"))


def cut(value: object) -> str:
    """Return the beginning of a foreign value that is no secret, such as the name of a codec."""
    text = shown(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def _kind(value: object) -> str:
    """Return what a foreign value is; it is not quoted, since keys, numbers and words of callers are in there."""
    return KINDS.get(type(value), "another value")
