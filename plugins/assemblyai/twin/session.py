"""One connection to `/v3/ws`, sans-I/O: the client's frames in, the server's messages out.

Fields: assemblyai 1.8.2, `streaming/v3/models.py` (`BeginEvent`, `TurnEvent`, `Word`, `SpeechStartedEvent`,
`ErrorEvent`, `TerminationEvent`), and `utterance` by https://www.assemblyai.com/docs/streaming/message-sequence. The
order of the messages: the same page; the partial transcripts: /docs/streaming/turn-detection.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE
from vivavoce.pipelines.testing.ear import Ear, HeardWord, Lexicon
from vivavoce.pipelines.testing.twin_connection import Answer, Close, Message
from vivavoce.plugins.assemblyai.twin.settings import Refused, Settings

SHORTEST, LONGEST = 50, 1000
"""Milliseconds of audio in one message."""

FIRST_PARTIAL = 0.3
"""Seconds of a turn before its first partial transcript, besides `interruption_delay`."""

PARTIAL_EVERY = 1.0
"""Seconds of speech between two further ones."""

SILENT_PARTIAL_EVERY = 0.2
"""Seconds of silence between two of a turn that is held open; their confidence in its end grows."""

SURE, UNSURE = 0.9, 0.1
"""Confidence in the end of a turn, by its last word's punctuation; Universal-Streaming models."""

PUNCTUATION = ".,;:!?"
TERMINAL = (".", "?", "!")

EXPIRES_AT = 4_102_444_800
"""The end of each session, as seconds of 1970; far off, since a twin has no clock."""

SEE_ERROR = "See Error message for details"
"""The reason of a close behind an Error message."""


def failure(code: int, text: str) -> tuple[Answer, Answer]:
    """Return the end of a session by an error (common-session-errors-and-closures)."""
    return {"type": "Error", "error_code": code, "error": text}, Close(code, SEE_ERROR)


class TurnSession:
    """Recognises one connection's turns."""

    def __init__(self, settings: Settings, lexicon: Lexicon, session_id: str) -> None:
        self._settings = settings
        self._id = session_id
        self._ear = Ear(lexicon, settings.rate, settings.max_silence)
        self._order = 0
        self._words: list[HeardWord] = []
        self._partial_at = 0.0
        """The position of the turn's newest partial transcript."""
        self._uttered = 0
        """Words of the turn that an `utterance` had."""
        self.key_terms = settings.key_terms

    def begin(self) -> Iterator[Answer]:
        """Greet the client."""
        settings = self._settings
        configuration = {"model": settings.model, "mode": settings.mode, "api_version": "2025-05-12"}
        yield {"type": "Begin", "id": self._id, "expires_at": EXPIRES_AT, "configuration": configuration}

    def audio(self, pcm: bytes) -> Iterator[Answer]:
        """Take a binary frame."""
        length = 1000 * len(pcm) / BYTES_PER_SAMPLE / self._settings.rate
        if not SHORTEST - 0.01 <= length <= LONGEST + 0.01:
            text = f"Input Duration Violation: {length:.1f} ms. Expected between {SHORTEST} and {LONGEST} ms"
            yield from failure(3007, f"Input Duration Error: {text}")
            return
        for _ in self._ear.push(pcm):
            yield from self._step()

    def text(self, message: str) -> Iterator[Answer]:
        """Take a text frame."""
        try:
            told = json.loads(message)
        except ValueError:
            yield from failure(3006, f"Invalid JSON: {message[:40]}")
            return
        kind = told.get("type") if isinstance(told, dict) else None
        if kind == "ForceEndpoint":
            yield from self._force()
        elif kind == "UpdateConfiguration":
            try:
                self._settings.update(told)
            except Refused as refused:
                yield from failure(3006, f"User Input Validation Error: {refused}")
            self.key_terms = self._settings.key_terms
        elif kind == "Terminate":
            yield from self._force()
            seconds = int(self._ear.position)
            yield {"type": "Termination", "audio_duration_seconds": seconds, "session_duration_seconds": seconds}
            yield Close(1000)
        elif kind != "KeepAlive":
            yield from failure(3006, f"Invalid Message: {message[:40]}")

    def _force(self) -> Iterator[Answer]:
        """End the turn now."""
        new = self._ear.cut()
        yield from self._hear(new)
        if self._words:
            yield from self._end(1.0 if self._settings.is_pro else self._confidence)

    def _step(self) -> Iterator[Answer]:
        yield from self._hear(self._ear.words)
        if self._words and not self._ear.is_sound:
            yield from self._judge()

    def _hear(self, words: list[HeardWord]) -> Iterator[Answer]:
        if words and not self._words:
            self._partial_at = words[0].start
            if self._settings.is_pro:
                yield {"type": "SpeechStarted", "timestamp": round(words[0].start * 1000), "confidence": 0.99}
        self._words += words
        if words and not self._settings.is_pro:
            yield self._turn(unsettled=1)
        elif words and self._ear.position - self._partial_at >= self._partial_wait:
            yield self._partial(0.0)

    @property
    def _partial_wait(self) -> float:
        if self._partial_at == self._words[0].start:
            return FIRST_PARTIAL + self._settings.interruption_delay
        return PARTIAL_EVERY if self._settings.continues else 1e9

    def _judge(self) -> Iterator[Answer]:
        """End the turn, or hold it open, by the silence so far."""
        quiet, settings = self._ear.quiet, self._settings
        is_whole = self._words[-1].said.text.endswith(TERMINAL)
        if quiet >= settings.max_silence:
            yield from self._end(1.0 if settings.is_pro and is_whole else self._confidence)
        elif quiet < settings.min_silence:
            return
        elif settings.is_pro and is_whole:
            yield from self._end(1.0)
        elif settings.is_pro and self._ear.position - self._partial_at >= SILENT_PARTIAL_EVERY:
            yield self._partial(quiet / settings.max_silence)
        elif not settings.is_pro and self._confidence >= settings.confidence:
            yield from self._end(self._confidence)
        elif not settings.is_pro and self._uttered < len(self._words):
            self._uttered = len(self._words)
            yield self._turn(utterance=_plain(self._words))

    @property
    def _confidence(self) -> float:
        return SURE if self._words[-1].said.text.endswith(TERMINAL) else UNSURE

    def _partial(self, confidence: float) -> Message:
        self._partial_at = self._ear.position
        return self._turn(confidence=confidence, unsettled=len(self._words))

    def _end(self, confidence: float) -> Iterator[Answer]:
        settings, utterance = self._settings, ""
        if settings.is_pro:
            utterance = _formatted(self._words)
        elif self._uttered < len(self._words):
            utterance = _plain(self._words)
        yield self._turn(confidence=confidence, is_end=True, utterance=utterance)
        if settings.formats and not settings.is_pro:
            yield self._turn(confidence=confidence, is_end=True, is_formatted=True)
        self._words, self._uttered = [], 0
        self._order += 1

    def _turn(
        self,
        *,
        confidence: float | None = None,
        unsettled: int = 0,
        utterance: str = "",
        is_end: bool = False,
        is_formatted: bool = False,
    ) -> Message:
        """Return a Turn message.

        Args:
            unsettled: How many of the newest words may still change.
        """
        settings, words = self._settings, self._words
        settled = words[: len(words) - unsettled]
        told: Message = {
            "turn_order": self._order,
            "turn_is_formatted": is_formatted or (is_end and settings.is_pro),
            "end_of_turn": is_end,
            "transcript": (_formatted(words) if settings.is_pro else (_formatted if is_formatted else _plain)(settled)),
            "end_of_turn_confidence": self._confidence if confidence is None else round(confidence, 4),
            "words": [
                self._word(word, number < len(settled), settings.is_pro or is_formatted)
                for number, word in enumerate(words)
            ],
            "utterance": utterance,
        }
        if settings.detects and (utterance or is_end):
            languages = [word.said.language for word in words]
            told |= {"language_code": max(languages, key=languages.count), "language_confidence": 0.97}
        if settings.diarizes:
            speakers = [word.said.speaker for word in words]
            told["speaker_label"] = _letter(max(speakers, key=speakers.count))
        return told | {"type": "Turn"}  # the vendor's last field

    def _word(self, word: HeardWord, is_final: bool, is_formatted: bool) -> dict[str, Any]:
        told: dict[str, Any] = {
            "start": round(word.start * 1000),
            "end": round(word.end * 1000),
            "text": word.said.text if is_formatted else _plain([word]),
            "confidence": word.said.confidence,
            "word_is_final": is_final,
        }
        if self._settings.diarizes and is_final:
            told["speaker"] = _letter(word.said.speaker)
        return told


def _formatted(words: list[HeardWord]) -> str:
    return " ".join(word.said.text for word in words)


def _plain(words: list[HeardWord]) -> str:
    return " ".join(word.said.text.strip(PUNCTUATION).casefold() for word in words)


def _letter(speaker: int) -> str:
    return chr(ord("A") + speaker)
