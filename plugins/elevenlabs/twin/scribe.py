"""ScribeSession: one connection to the realtime recogniser, sans-I/O.

Fields: elevenlabs 2.78.0, `types/session_started_payload.py`, `partial_transcript_payload.py`,
`committed_transcript_payload.py`, `committed_transcript_with_timestamps_payload.py`, `transcription_word.py`.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from vivavoce.pipelines.testing.ear import Ear, HeardWord, Lexicon
from vivavoce.pipelines.testing.twin_connection import Answer, Close, Message
from vivavoce.plugins.elevenlabs.twin.handshake import Query, one

LEAST_COMMIT = 0.3
"""Seconds of audio without which a commit ends the session (livekit-plugins-elevenlabs 1.8.9, `stt.py`)."""

MAX_CHUNK = 10 * 1024 * 1024


class ScribeSession:
    """One connection.

    Args:
        is_key_right: Whether the client has the right key.
    """

    def __init__(self, query: Query, lexicon: Lexicon, *, is_key_right: bool) -> None:
        self.key_terms = list(query.get("keyterms", ()))
        self._query = query
        self._is_key_right = is_key_right
        self._rate = int(one(query, "audio_format", "pcm_16000").removeprefix("pcm_"))
        self._by_vad = one(query, "commit_strategy", "manual") == "vad"
        self._silence = float(one(query, "vad_silence_threshold_secs", "1.5"))
        self._ear = Ear(lexicon, self._rate, 0.5)
        self._words: list[HeardWord] = []
        self._committed = 0.0
        """Seconds of audio up to the last commit."""
        self._chunks = 0

    def begin(self) -> Iterator[Answer]:
        if not self._is_key_right:
            yield from _error("auth_error", "Invalid API key")
            return
        languages = {name: values[0] for name, values in self._query.items() if name == "language_code"}
        yield {
            "message_type": "session_started",
            "session_id": uuid4().hex,
            "config": {
                "sample_rate": self._rate,
                "audio_format": f"pcm_{self._rate}",
                "commit_strategy": "vad" if self._by_vad else "manual",
                "model_id": one(self._query, "model_id"),
                "include_timestamps": self._is_on("include_timestamps"),
                "include_language_detection": self._is_on("include_language_detection"),
                "keyterms": self.key_terms,
                **languages,
            },
        }

    def audio(self, pcm: bytes) -> Iterator[Answer]:
        yield from _error("input_error", "Binary messages are not supported.")

    def text(self, message: str) -> Iterator[Answer]:
        try:
            told = json.loads(message)
            kind, pcm = told["message_type"], base64.b64decode(told["audio_base_64"], validate=True)
        except (ValueError, TypeError, KeyError, binascii.Error):
            yield from _error("input_error", "The message is not valid.")
            return
        if kind != "input_audio_chunk":
            yield from _error("invalid_request", f"Unknown message type {kind}.")
        elif len(pcm) > MAX_CHUNK:
            yield from _error("chunk_size_exceeded", "The chunk is too large.")
        elif told.get("previous_text") and self._chunks:
            yield from _error("input_error", "previous_text can only be set on the first audio chunk")
        else:
            self._chunks += 1
            yield from self._hear(pcm)
            if told.get("commit"):
                yield from self._commit()

    def _hear(self, pcm: bytes) -> Iterator[Answer]:
        ear = self._ear
        for _ in ear.push(pcm):
            if ear.words:
                self._words += ear.words
                yield {"message_type": "partial_transcript", "text": _joined(self._words)}
            if self._by_vad and self._words and ear.quiet >= self._silence:
                yield from self._transcript()

    def _commit(self) -> Iterator[Answer]:
        self._words += self._ear.cut()
        uncommitted = self._ear.position - self._committed
        if uncommitted < LEAST_COMMIT - 0.02:
            text = f"Commit request ignored: only {uncommitted:.2f}s of uncommitted audio. You need at least 0.3s."
            yield from _error("commit_throttled", text)
            return
        yield from self._transcript()

    def _transcript(self) -> Iterator[Answer]:
        words, self._words, self._committed = self._words, [], self._ear.position
        text = _joined(words)
        yield {"message_type": "committed_transcript", "text": text}
        has_times, detects = self._is_on("include_timestamps"), self._is_on("include_language_detection")
        if has_times or detects:
            yield {
                "message_type": "committed_transcript_with_timestamps",
                "text": text,
                "language_code": self._language(words) if detects else one(self._query, "language_code") or None,
                "words": list(_timed(words)) if has_times else None,
            }

    def _language(self, words: list[HeardWord]) -> str | None:
        languages = [word.said.language for word in words]
        return max(languages, key=languages.count) if languages else None

    def _is_on(self, name: str) -> bool:
        return one(self._query, name) == "true"


def _timed(words: list[HeardWord]) -> Iterator[dict[str, Any]]:
    """Yield the words, and the spaces between them, which have times too."""
    for number, word in enumerate(words):
        if number:
            yield {"text": " ", "start": words[number - 1].end, "end": word.start, "type": "spacing", "logprob": 0.0}
        logprob = math.log(word.said.confidence)
        yield {"text": word.said.text, "start": word.start, "end": word.end, "type": "word", "logprob": logprob}


def _joined(words: list[HeardWord]) -> str:
    return " ".join(word.said.text for word in words)


def _error(kind: str, text: str) -> Iterator[Answer]:
    message: Message = {"message_type": kind, "error": text}
    yield message
    yield Close(1008, kind)
