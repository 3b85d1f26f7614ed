"""PeerWire: the protocol of peers without I/O: the frames of one connection, their JSON, and their order.

Each frame is one text message of a WebSocket, a JSON object with its `type`. Unknown fields are ignored.

| `type` | fields | meaning |
|---|---|---|
| `hello` | `version`, `id`, `wants`, `dialogues`, `takes`, `traceparent` | the first frame of each end |
| `refused` | `detail` | in place of the server's `hello`, and of each one of another version |
| `takes` | `models` | the names of the models that this end takes from now on; `""` stands for texts |
| `call` | `number`, `wants_answer`, `model`, `content`, `traceparent` | a message; the model `""` is a text |
| `delivery` | `number` and those of `Envelope` | a message of a dialogue, or the notice that one was removed |
| `outcome` | `number`, `status`, `detail`, `model`, `content` | the one answer to a `call` or a `delivery` |
| `cancel` | `number` | the sender waits no longer for that outcome |

The numbers of each end count up. An end has at most `MAX_OPEN` calls without an outcome. Whatever else comes is a
breach of the protocol, which ends the connection.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias, get_args

from vivavoce.pipelines.core.errors import ConfigurationError

VERSION = 1
MAX_FRAME = 1024 * 1024
"""Bytes of one frame, as UTF-8."""
MAX_OPEN = 4096
"""Calls of one end that have no outcome yet."""

MAX_SHOWN = 500
"""Characters of a text that errors, logs and models may get."""

Wants = Literal["session", "dialogues"]
Status = Literal["delivered", "rejected", "failed"]
Notice = Literal["message", "expired"]
Names: TypeAlias = "tuple[str, ...]"


class PeerProtocolError(Exception):
    """The other end broke the protocol; the text has nothing of the frame's content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """One end of the connection.

    Args:
        id: Id of its agent; "" if the connection carries dialogues.
        wants: The connection of a client leads to a session, or carries dialogues.
        dialogues: The digests of the dialogues that it speaks.
        takes: The names of the models that it takes; "" stands for texts.
        traceparent: The trace that the connection belongs to, as in W3C Trace Context.
    """

    version: int = VERSION
    id: str = ""
    wants: Wants = "session"
    dialogues: Names = ()
    takes: Names = ()
    traceparent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The connection is refused, for that reason."""

    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Takes:
    """The names of the models that an end takes from now on."""

    models: Names


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A message, and whether it is a request."""

    number: int = 0
    wants_answer: bool = False
    model: str = ""
    content: Any = field(default=None, repr=False)
    traceparent: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """An `Envelope` of a dialogue."""

    number: int = 0
    kind: Notice = "message"
    dialogue: str
    session_id: str
    sender: str
    receiver: str
    model: str = ""
    content: str = field(default="", repr=False)
    position: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The answer to a call or a delivery.

    Args:
        detail: Why it was not delivered; never any content.
        model, content: The answer to a request, as in a `Call`; the content None is no answer.
    """

    number: int = 0
    status: Status = "delivered"
    detail: str = ""
    model: str = ""
    content: Any = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """The outcome of that call is not waited for any more."""

    number: int


Frame = Hello | Refused | Takes | Call | Delivery | Outcome | Cancel

_TYPES: dict[str, type[Frame]] = {kind.__name__.lower(): kind for kind in get_args(Frame)}
_CHECKS: dict[str, Callable[[object], bool]] = {
    "int": lambda value: type(value) is int and 0 <= value < 2**53,
    "str": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "Any": lambda value: True,
    "Names": lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value),
    "Wants": lambda value: value in get_args(Wants),
    "Status": lambda value: value in get_args(Status),
    "Notice": lambda value: value in get_args(Notice),
}
_SHOWN = ("id", "detail", "model")
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def encode(frame: Frame) -> str:
    """Return the text of a frame.

    Raises:
        ConfigurationError: It is longer than `MAX_FRAME`, or its content is no JSON.
    """
    values = {one.name: getattr(frame, one.name) for one in fields(frame)}
    try:
        text = _ENCODER.encode({"type": type(frame).__name__.lower(), **values})
        size = len(text) if text.isascii() else len(text.encode())
    except (ValueError, TypeError, RecursionError):  # whose texts may quote the content
        raise ConfigurationError("a message must be JSON in whole characters, and not nested too deep") from None
    if size > MAX_FRAME:
        raise ConfigurationError(
            f"a message may have {MAX_FRAME:,} bytes as JSON, got {size:,}; send a reference to it"
        )
    return text


def decode(text: str) -> Frame:
    """Return the frame of a text.

    Raises:
        PeerProtocolError: It is none.
    """
    try:
        data = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise PeerProtocolError("a frame is no JSON") from None
    kind = _TYPES.get(data["type"]) if isinstance(data, dict) and isinstance(data.get("type"), str) else None
    if kind is None:
        raise PeerProtocolError("a frame has none of the known types")
    values: dict[str, Any] = {}
    for one in fields(kind):
        if one.name in data:
            value = data[one.name]
            if not _CHECKS[str(one.type)](value):
                raise PeerProtocolError(f"{one.name} of a frame {kind.__name__.lower()!r} is of another kind")
            values[one.name] = tuple(value) if one.type == "Names" else short(value) if one.name in _SHOWN else value
    try:
        return kind(**values)
    except TypeError:
        raise PeerProtocolError(f"a frame {kind.__name__.lower()!r} lacks a field") from None


def short(text: str) -> str:
    """Return a text of the other end as one short line: errors, logs and models get it."""
    return "".join(one if one.isprintable() else " " for one in text[:MAX_SHOWN])


def _refuse(constant: str) -> None:
    raise ValueError(constant)


class PeerWire:
    """The frames of one connection at one end.

    Args:
        own: The hello of this end.
    """

    def __init__(self, own: Hello) -> None:
        self.own = own
        self._other: Hello | None = None
        self._issued = 0
        self._open: set[int] = set()
        """The numbers of this end's calls without an outcome."""
        self._newest = 0
        self._taken: set[int] = set()
        """The numbers of the other end's calls without an outcome."""

    @property
    def other(self) -> Hello:
        """The hello of the other end, with the models that it takes now."""
        assert self._other is not None, "the other end has said hello"
        return self._other

    # --- what this end sends

    def call(self, frame: Call | Delivery) -> tuple[int, str]:
        """Return the number of a new call, and the text to be sent.

        Raises:
            ConfigurationError: The message is too long, or no JSON; nothing has begun then.
        """
        number = self._issued + 1
        text = encode(replace(frame, number=number))
        self._issued = number
        self._open.add(number)
        return number, text

    def cancel(self, number: int) -> str:
        """Forget a call of this end; return the text to be sent, "" if it has its outcome."""
        if number not in self._open:
            return ""
        self._open.discard(number)
        return encode(Cancel(number=number))

    def outcome(self, number: int, outcome: Outcome) -> str:
        """Return the text of the outcome of a call of the other end."""
        self._taken.discard(number)
        try:
            return encode(replace(outcome, number=number))
        except ConfigurationError as error:
            return encode(Outcome(number=number, status="failed", detail=f"the answer cannot be sent: {error}"))

    # --- what comes

    def take(self, text: str) -> Frame | None:
        """Return the frame that has come; None for an outcome that comes too late.

        Raises:
            PeerProtocolError: It may not come; the connection is to be closed.
        """
        frame = decode(text)
        if self._other is None:
            if not isinstance(frame, Hello | Refused):
                raise PeerProtocolError("the first frame is no hello")
            self._other = frame if isinstance(frame, Hello) else None
        elif isinstance(frame, Call | Delivery):
            self._begin(frame.number)
        elif isinstance(frame, Outcome):
            return self._end(frame)
        elif isinstance(frame, Takes):
            self._other = replace(self._other, takes=frame.models)
        elif isinstance(frame, Cancel):
            self._taken.discard(frame.number)
        else:
            raise PeerProtocolError(f"a frame {type(frame).__name__.lower()!r} behind the hello")
        return frame

    def _begin(self, number: int) -> None:
        if number <= self._newest:
            raise PeerProtocolError("the number of a call does not count up")
        if len(self._taken) >= MAX_OPEN:
            raise PeerProtocolError(f"more than {MAX_OPEN} calls without an outcome")
        self._newest = number
        self._taken.add(number)

    def _end(self, outcome: Outcome) -> Outcome | None:
        if not 0 < outcome.number <= self._issued:
            raise PeerProtocolError("an outcome of a call that was never made")
        if outcome.number not in self._open:
            return None
        self._open.discard(outcome.number)
        return outcome
