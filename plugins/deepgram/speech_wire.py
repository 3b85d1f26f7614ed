"""The messages of Flux TTS (`/v2/speak`), sans-I/O: requests, and the events that the service reports.

Sources: https://developers.deepgram.com/docs/flux-tts/client-messages, /docs/flux-tts/server-messages,
/docs/flux-tts/interrupt-handling, and the fields in deepgram-sdk 7.17.0, `speak/v2/types`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.streams import json_object
from vivavoce.plugins.deepgram.wire import number_of

FLUSH = json.dumps({"type": "Flush"})
CLOSE = json.dumps({"type": "Close"})

IGNORED = ("NO_AUDIO_GENERATED", "INTERRUPT_IN_PROGRESS", "INVALID_INTERRUPT_OFFSET", "NO_ACTIVE_SPEECH")
"""Warnings that mean that an interruption was ignored."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """All audio of a turn was sent."""


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A turn was interrupted.

    Args:
        played: Seconds of the connection's audio that were played, as the service counts.
        text: What was heard of the turn; None if it cannot tell.
    """

    played: float
    text: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Warned:
    """The service warns, and goes on."""

    code: str
    text: str = field(repr=False)

    @property
    def is_ignored(self) -> bool:
        """Whether an interruption was ignored."""
        return self.code in IGNORED


Event = Spoken | Interrupted | Warned | ProviderError


def speak(text: str) -> str:
    """Return the request to speak this behind the earlier text of the turn."""
    return json.dumps({"type": "Speak", "text": text})


def interrupt(seconds: float) -> str:
    """Return the request to end the turn.

    Args:
        seconds: Of the connection's audio that were played.
    """
    offset = {"type": "time_ms", "value": round(seconds * 1000)}
    return json.dumps({"type": "Interrupt", "playback_offset": offset})


def event(message: str, failures: Failures) -> Event | None:
    """Return the event of a message; None for one that is of no interest.

    Raises:
        ProviderProtocolError: The message breaks the protocol.
    """
    told = json_object(message, failures)
    kind = told.get("type")
    if kind == "SpeechMetadata":
        return Spoken()
    if kind == "SpeechInterrupted":
        text = told.get("text_spoken")
        played = number_of(told, "audio_played_ms", failures) / 1000
        return Interrupted(played, text if isinstance(text, str) else None)
    if kind == "Warning":
        return Warned(str(told.get("code")), failures.redact(told.get("description")))
    if kind == "Error":
        return failures.in_answer(told.get("code"), told.get("description"))
    return None
