"""The twin's answers: frames, and the end of a connection."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from vivavoce.plugins.azure.wire import binary_frame, text_frame


@dataclass(frozen=True, slots=True)
class Close:
    """The server closes the websocket."""

    code: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """A frame of the server.

    Args:
        message: As it is sent.
    """

    path: str
    body: Any = field(repr=False)
    message: str | bytes = field(repr=False)


Answer = Told | Close


def answer(path: str, request: str, body: dict[str, Any] | None, stream: str = "") -> Told:
    """Return a frame of text."""
    text = "" if body is None else json.dumps(body)
    message = text_frame(path, text, request=request, kind="application/json; charset=utf-8")
    return Told(path, body, message.replace("\r\n\r\n", f"\r\nX-StreamId:{stream}\r\n\r\n", 1) if stream else message)


def audio(request: str, data: bytes, stream: str = "1") -> Told:
    """Return a frame of audio."""
    return Told("audio", data, binary_frame("audio", data, request=request, kind="audio/x-wav", stream=stream))
