"""The messages of Cartesia's TTS websocket, sans-I/O: requests of a context, and the events that the server reports.

The errors of the recognisers' websockets have the same fields.

Source: https://docs.cartesia.ai/api-reference/tts/websocket; cartesia 4.2.0, `types/generation_request.py` and
`types/websocket_response.py`.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.streams import json_object
from vivavoce.pipelines.tts.base import Word
from vivavoce.plugins.cartesia.options import TTSOptions

PROVIDER = "cartesia"

VERSION = "2026-08-14"
"""Of the API; errors have a name and a text since 2026-03-01."""

NO_WORDS = "only punctuation"
"""In the error for a text in which the server finds nothing to speak."""


@dataclass(frozen=True, slots=True)
class Audio:
    """A piece of a context's audio, in 16 bits; it may end in the middle of a sample."""

    context: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Words:
    """Words of a context; times are seconds of the context's audio."""

    context: str
    words: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """A context is over.

    Args:
        is_empty: Whether the server found nothing to speak in its text.
    """

    context: str
    is_empty: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """A context failed; "": all contexts of the connection."""

    context: str
    error: ProviderError


Event = Audio | Words | Done | Failed


def settings(model: str, voice: str, language: str, options: TTSOptions) -> dict[str, Any]:
    """Return the fields of a context's requests that must stay the same in all of them."""
    controls = {name: getattr(options, name) for name in ("speed", "volume", "emotion")}
    controls = {name: value for name, value in controls.items() if value is not None}
    return {
        "model_id": model,
        "voice": {"mode": "id", "id": voice},
        "language": language,
        "output_format": {"container": "raw", "encoding": "pcm_s16le", "sample_rate": options.sample_rate},
        "add_timestamps": True,
        "max_buffer_delay_ms": 0,  # this plugin sends whole sentences
        **({"generation_config": controls} if controls else {}),
        **({"pronunciation_dict_id": options.pronunciation} if options.pronunciation else {}),
    }


def speak(fields: Mapping[str, Any], context: str, text: str, *, is_last: bool = False) -> str:
    """Return the request to speak more text, which is joined to the earlier one as it is."""
    return json.dumps({**fields, "context_id": context, "transcript": text, "continue": not is_last})


def cancel(context: str) -> str:
    """Return the request to speak no more of a context."""
    return json.dumps({"context_id": context, "cancel": True})


def event(message: str | bytes, failures: Failures) -> Event | None:
    """Return the event of a message; None for one that is of no interest.

    Args:
        failures: Of the requests.
    Raises:
        ProviderProtocolError: The message breaks the protocol.
    """
    fields = json_object(message, failures)
    context, kind = fields.get("context_id"), fields.get("type")
    name = context if isinstance(context, str) else ""
    if kind == "error" or (kind is None and "error" in fields):
        is_empty = name and NO_WORDS in _text_of(fields)
        return Done(name, is_empty=True) if is_empty else Failed(name, failure_in(fields, failures))
    if not name:
        return None
    if kind == "chunk":
        return Audio(name, _audio(fields.get("data"), failures))
    if kind == "timestamps":
        return Words(name, _words(fields.get("word_timestamps"), failures))
    return Done(name) if kind == "done" else None


def failure_in(fields: Mapping[str, Any], failures: Failures) -> ProviderError:
    """Return the error of a message that reports one."""
    status, code, request = (fields.get(name) for name in ("status_code", "error_code", "request_id"))
    if not isinstance(status, int) or not 400 <= status < 600:
        return failures.in_answer(code, _text_of(fields))
    heads = {"x-request-id": request} if isinstance(request, str) else {}
    return failures.status(status, heads, {"error_code": code, "message": _text_of(fields)})


def _text_of(fields: Mapping[str, Any]) -> str:
    parts = (fields.get("title"), fields.get("message"), fields.get("error"))
    return ": ".join(part for part in parts if isinstance(part, str) and part)


def _audio(data: object, failures: Failures) -> bytes:
    if not isinstance(data, str):
        raise failures.malformed("base64 audio in a chunk", type(data).__name__)
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        got = "other text"
    raise failures.malformed("base64 audio in a chunk", got)


def _words(times: object, failures: Failures) -> tuple[Word, ...]:
    columns = [times.get(name) for name in ("words", "start", "end")] if isinstance(times, dict) else []
    if not columns or not all(isinstance(column, list) for column in columns):
        raise failures.malformed("lists of words, starts and ends", "something else")
    words = []
    for text, start, end in zip(*columns, strict=False):
        if not (isinstance(text, str) and is_time(start) and is_time(end)):
            raise failures.malformed("words with times", "something else")
        words.append(Word(text, float(start), max(float(start), float(end))))
    return tuple(words)


def is_time(value: object) -> TypeGuard[float]:
    """Whether this is a number of seconds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
