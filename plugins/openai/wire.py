"""Common parts of both APIs on the wire, sans-I/O: requests, reading of unchecked objects, whole tool calls.

`chat` and `responses` hold the differences. The SDK builds its objects from any data of a server, so that each field
may
be missing or of any type: all fields that are read here go through `text_of` and its like.
"""

from __future__ import annotations

import base64
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from vivavoce.pipelines.core.errors import ProviderError, ProviderProtocolError
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.llm.base import Done, GenerateRequest, LLMEvent, Usage
from vivavoce.pipelines.llm.call_extra import pack_extra
from vivavoce.pipelines.llm.chat_context import FunctionCall
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.media.frame import VideoFrame
from vivavoce.plugins.openai.options import LLMOptions
from vivavoce.plugins.openai.servers import OTHER, Server

logger = logging.getLogger(__name__)

PROVIDER = "openai"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDefaults:
    """The common values of all requests of one LLM.

    Args:
        maker: The name of the server in the extras of its calls: servers do not know each other's data.
        is_openai: Whether the dialect is OpenAI's own; see `LLMOptions.dialect`.
        server: In what the server differs from OpenAI's.
        reasoning_effort: None: the server decides.
    """

    model: str
    maker: str
    options: LLMOptions
    is_openai: bool
    server: Server = OTHER
    reasoning_effort: str | None = None


@dataclass(slots=True)
class CallSlot:
    """A tool call as it grows."""

    id: str = ""
    name: str = ""
    arguments: str = field(default="", repr=False)
    extra: dict[str, Any] = field(default_factory=dict, repr=False)
    """The data that the server needs back with it."""


class Reader(ABC):
    """Turns the events of one answer into ours.

    Call `feed()` for each event, then `finish()`, which returns the rest: tool calls, usage, `Done`.

    Args:
        maker: As in `RequestDefaults`.
    """

    def __init__(self, request: GenerateRequest, maker: str = PROVIDER) -> None:
        self._maker = maker
        self._taken = {item.call_id for item in request.context if isinstance(item, FunctionCall)}
        self._slots: list[CallSlot] = []
        self._usage: Usage | None = None
        self._reason = ""
        self._is_cut = False
        self._is_refused = False
        self.has_events = False

    @abstractmethod
    def feed(self, event: object) -> list[LLMEvent]:
        """Take the SDK's next event.

        Raises:
            ProviderError: It reports a failure, or breaks the protocol.
        """

    @property
    def is_complete(self) -> bool:
        """Whether the server has ended the answer."""
        return bool(self._reason)

    def finish(self) -> list[LLMEvent]:
        """Return the events that are known only at the end of the stream.

        Raises:
            ProviderError: The server did not end the answer.
        """
        if not self.has_events:
            raise ProviderProtocolError(
                "needed an event stream, got an answer without a single event; check base_url, which usually ends "
                "with /v1, and whether the server has this API",
                provider=PROVIDER,
            )
        if not self.is_complete:
            raise broken_off()
        events: list[LLMEvent] = list(self._calls())
        if self._usage is not None:
            events.append(self._usage)
        events.append(Done("refusal" if self._is_refused else self._reason))
        return events

    def _calls(self) -> Iterable[ToolCall]:
        for slot in self._slots:
            arguments = slot.arguments if slot.arguments.strip() else "{}"
            if self._is_cut and not is_json(arguments):
                logger.warning("openai: the answer ended (%s) inside of a tool call, which is dropped", self._reason)
                continue
            if not slot.name:
                raise protocol_error("a tool call with a name", "none")
            if not slot.id or slot.id in self._taken:  # some servers send none, or the same ones in each answer
                slot.id = new_id("call")
            self._taken.add(slot.id)
            extra = pack_extra(self._maker, slot.extra)
            yield ToolCall(call_id=slot.id, name=slot.name, arguments=arguments, extra=extra)


def broken_off() -> ProviderError:
    """Return the error of an answer that stops before its end; the same request may succeed."""
    return ProviderProtocolError(
        "the answer broke off: its stream ended before the server said why", provider=PROVIDER, retryable=True
    )


def protocol_error(needed: str, got: object) -> ProviderProtocolError:
    """Return the error of an event that breaks the API's description; `got` must hold no content."""
    return ProviderProtocolError(f"needed {needed}, got {got}; is the server compatible?", provider=PROVIDER)


def text_of(value: object, name: str) -> str:
    """Return a text that may be missing.

    Raises:
        ProviderProtocolError: It is something else.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise protocol_error(f"{name} as text", type(value).__name__)
    return value


def arguments_of(value: object) -> str:
    """Return a call's arguments, which some servers send as an object, as JSON text."""
    return json.dumps(value) if isinstance(value, dict) else text_of(value, "arguments")


def number_of(holder: object, *names: str) -> int:
    """Return the count found along `names`, 0 if there is none."""
    value: object = holder
    for name in names:
        value = value.get(name) if isinstance(value, dict) else getattr(value, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def data_url(image: VideoFrame) -> str:
    """Return the picture as a `data:` URL."""
    return f"data:{image.media_type};base64,{base64.b64encode(image.data).decode('ascii')}"


def drop_nones(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def is_json(text: str) -> bool:
    """Return whether a text is whole JSON."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):  # a model may nest without end
        return False
    return True
