"""The messages of `multi-stream-input`, sans-I/O: requests of a context, the events that the server reports, and the
words that the times of characters make.

Source: https://elevenlabs.io/docs/api-reference/text-to-speech/v-1-text-to-speech-voice-id-multi-stream-input;
elevenlabs 2.78.0, `types/websocket_tts_client_message_multi.py`, `types/websocket_tts_server_message_multi.py`.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.core.words import is_spaceless
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.streams import json_object
from vivavoce.pipelines.tts.base import Word
from vivavoce.plugins.elevenlabs.options import TTSOptions

INACTIVITY = 180
"""Seconds without a message after which the server ends a context, or the connection; it takes no more."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A character, at seconds of the message's audio, or of the answer's."""

    text: str = field(repr=False)
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Audio:
    """A piece of a context's audio, in 16 bits, which may end in the middle of a sample; and the characters in it."""

    context: str
    data: bytes = field(repr=False)
    letters: tuple[Letter, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Done:
    """A context is over."""

    context: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A context failed; "": all contexts of the connection."""

    context: str
    error: ProviderError


Event = Audio | Done | Failed


def query(model: str, language: str, options: TTSOptions) -> list[tuple[str, str]]:
    """Return the parameters of the handshake."""
    return [
        ("model_id", model),
        ("output_format", f"pcm_{options.sample_rate}"),
        ("auto_mode", "true"),  # this plugin sends whole sentences
        ("sync_alignment", "true"),
        ("inactivity_timeout", str(INACTIVITY)),
        ("apply_text_normalization", options.normalization),
        *([("language_code", language)] if language else []),
        *([("enable_ssml_parsing", "true")] if options.ssml else []),
        *([] if options.log else [("enable_logging", "false")]),
    ]


def first_message(options: TTSOptions) -> dict[str, Any]:
    """Return the message that begins a context, without its id."""
    settings = {
        "speed": options.speed,
        "stability": options.stability,
        "similarity_boost": options.similarity,
        "style": options.style,
        "use_speaker_boost": options.speaker_boost,
    }
    settings = {name: value for name, value in settings.items() if value is not None}
    dictionaries = [
        {"pronunciation_dictionary_id": one.dictionary, "version_id": one.version} for one in options.pronunciations
    ]
    return {
        "text": " ",
        **({"voice_settings": settings} if settings else {}),
        **({"pronunciation_dictionary_locators": dictionaries} if dictionaries else {}),
    }


def begin(fields: Mapping[str, Any], context: str) -> str:
    """Return the message that begins a context."""
    return json.dumps({**fields, "context_id": context})


def speak(context: str, text: str) -> str:
    """Return the request to speak more text now; the service wants a space at its end."""
    return json.dumps({"text": text if text.endswith(" ") else f"{text} ", "context_id": context, "flush": True})


def close(context: str) -> str:
    """Return the request to end a context behind the text that was flushed."""
    return json.dumps({"context_id": context, "close_context": True})


def event(message: str | bytes, failures: Failures, *, normalized: bool = False) -> Event | None:
    """Return the event of a message; None for one that is of no interest.

    Args:
        normalized: Whether to take the characters of the text as the model got it, rather than as it was sent.
    Raises:
        ProviderProtocolError: The message breaks the protocol.
    """
    fields = json_object(message, failures)
    names = (fields.get(name) for name in ("contextId", "context_id"))
    context = next((name for name in names if isinstance(name, str)), "")
    if isinstance(fields.get("error"), str):
        text = fields.get("message")
        return Failed(context, failures.in_answer(fields["error"], text if isinstance(text, str) else ""))
    if not context:
        return None
    data = fields.get("audio")
    if isinstance(data, str) and data:
        ways = [fields.get(name) for name in ("alignment", "normalizedAlignment")]
        times = next((one for one in (reversed(ways) if normalized else ways) if one), None)
        return Audio(context, _audio(data, failures), _letters(times, failures))
    is_over = any(fields.get(name) is True for name in ("isFinal", "is_final"))
    return Done(context) if is_over else None


class WordTimes:
    """Makes words of the characters of a context, whose messages may end in the middle of one.

    The vendor's documents say that times count from the beginning of the message's audio; livekit's plugin reads them
    as those of the whole answer. Both are understood: a message that begins late in its own audio counts from the
    answer's beginning.
    """

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._bytes = 0
        """Of the audio before the next message."""
        self._letters: list[Letter] = []
        """Of a word that is not complete, at the answer's times."""

    def take(self, audio: Audio) -> tuple[Word, ...]:
        """Return the words that are complete with this message."""
        offset = self._bytes / BYTES_PER_SAMPLE / self._rate
        self._bytes += len(audio.data)
        if audio.letters and audio.letters[0].start >= offset / 2:
            offset = 0.0
        words: list[Word] = []
        for letter in audio.letters:
            if letter.text.isspace() or (is_spaceless(letter.text) and self._letters):
                words += self.finish()
            if not letter.text.isspace():
                self._letters.append(Letter(letter.text, offset + letter.start, offset + letter.end))
        return tuple(words)

    def finish(self) -> tuple[Word, ...]:
        """Return the word that is not complete, if any: nothing follows."""
        letters, self._letters = self._letters, []
        if not letters:
            return ()
        return (Word("".join(letter.text for letter in letters).strip(), letters[0].start, letters[-1].end),)


def _audio(data: str, failures: Failures) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        got = "other text"
    raise failures.malformed("base64 audio", got)


def _letters(times: object, failures: Failures) -> tuple[Letter, ...]:
    """Return the characters of an alignment, whose fields come in two spellings."""
    if times is None:
        return ()
    fields = times if isinstance(times, dict) else {}
    columns = [
        fields.get("chars"),
        fields.get("charStartTimesMs", fields.get("charsStartTimesMs")),
        fields.get("charDurationsMs", fields.get("charsDurationsMs")),
    ]
    if all(column is None for column in columns[1:]):
        return ()
    if not all(isinstance(column, list) for column in columns):
        raise failures.malformed("lists of characters, starts and durations", "something else")
    return tuple(_letter(row, failures) for row in zip(*columns, strict=False))


def _letter(row: Sequence[object], failures: Failures) -> Letter:
    text, start, duration = row
    if not (isinstance(text, str) and _is_time(start) and _is_time(duration)):
        raise failures.malformed("characters with times", "something else")
    assert isinstance(start, int | float)
    assert isinstance(duration, int | float)
    return Letter(text, start / 1000, (start + duration) / 1000)


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
