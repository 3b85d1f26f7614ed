"""One connection to `/v1/listen` (Nova), sans-I/O: the client's frames in, the server's messages out.

Fields: deepgram-sdk 7.17.0, `listen/v1/types/listen_v1{results,results_channel_alternatives_item,
results_channel_alternatives_item_words_item,results_metadata,speech_started,utterance_end,metadata,error,
configure_success,configure_failure}.py`; the parameters: `listen/v1/client.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

from vivavoce.pipelines.testing.ear import Ear, HeardWord, Lexicon
from vivavoce.pipelines.testing.twin_connection import Answer, Close, Message

SEGMENT = 3.0
"""Seconds after which words are settled without a pause."""

LEAST_FINALIZED = 0.1
"""Seconds of unsettled audio from which on a `Finalize` is answered (docs/finalize: "a noticeable amount")."""

KEYTERM_LIMIT = 500
"""Tokens of all key terms (listen_v1configure_failure.py)."""


class NovaSession:
    """Recognises one connection's audio.

    Args:
        query: The handshake's parameters; a name may have several values.
    """

    def __init__(self, query: Mapping[str, list[str]], lexicon: Lexicon, request_id: str) -> None:
        self._query = query
        self._request_id = request_id
        endpointing = self._one("endpointing", "10")
        self._endpointing = None if endpointing == "false" else float(endpointing) / 1000
        self._utterance_end = float(self._one("utterance_end_ms", "0")) / 1000
        self._ear = Ear(lexicon, int(self._one("sample_rate")), self._endpointing or 0.5)
        self._start = 0.0
        self._words: list[HeardWord] = []
        self._is_open = False
        """Whether an utterance has begun that no `speech_final` has ended."""
        self._last_word_end: float | None = None
        self.key_terms = list(query.get("keyterm", ()))

    def begin(self) -> Iterator[Answer]:
        """Say nothing: the client speaks first."""
        return iter(())

    def audio(self, pcm: bytes) -> Iterator[Answer]:
        """Take a binary frame; an empty one closes, as `CloseStream` does (docs/close-stream)."""
        if not pcm:
            yield from self._close()
        for _ in self._ear.push(pcm):
            yield from self._step()

    def text(self, message: str) -> Iterator[Answer]:
        """Take a text frame."""
        try:
            told = json.loads(message)
            kind = told["type"]
        except (ValueError, TypeError, KeyError):
            yield _error("DATA-0000", "Could not deserialize the message: it is no control message.")
            yield Close(1008, "DATA-0000")
            return
        if kind == "Finalize":
            yield from self._finalize()
        elif kind == "CloseStream":
            yield from self._close()
        elif kind == "Configure":
            yield self._configured(told)
        elif kind != "KeepAlive":
            yield _error("UNPARSABLE_CLIENT_MESSAGE", f"unknown message type {kind!r}")

    def _step(self) -> Iterator[Answer]:
        ear = self._ear
        if ear.is_onset and not self._is_open:
            self._is_open = True
            if self._is_on("vad_events"):
                yield {"type": "SpeechStarted", "channel": [0, 1], "timestamp": ear.word_began}
        if ear.words:
            self._words += ear.words
            if self._is_on("interim_results"):
                yield self._results(ear.position)
        if self._is_open and self._endpointing is not None and ear.quiet >= self._endpointing:
            self._is_open = False
            yield self._settled(ear.position, speech_final=True)
        elif ear.word_began - self._start >= SEGMENT:
            yield self._settled(ear.word_began)
        last = self._last_word_end
        is_gap = last is not None and not self._words and ear.position - last >= self._utterance_end
        if self._utterance_end and is_gap:
            self._last_word_end = None
            yield {"type": "UtteranceEnd", "channel": [0, 1], "last_word_end": last}

    def _finalize(self) -> Iterator[Answer]:
        self._words += self._ear.cut()
        if self._words or self._ear.position - self._start >= LEAST_FINALIZED:
            self._is_open = False
            yield self._settled(self._ear.position, speech_final=True, from_finalize=True)

    def _close(self) -> Iterator[Answer]:
        self._words += self._ear.cut()
        if self._words:
            yield self._settled(self._ear.position, from_finalize=True)
        yield {
            "type": "Metadata",
            "transaction_key": "deprecated",
            "request_id": self._request_id,
            "sha256": "0" * 64,
            "created": "2026-01-01T00:00:00.000Z",
            "duration": self._ear.position,
            "channels": 1,
        }
        yield Close(1000)

    def _configured(self, told: Mapping[str, Any]) -> Message:
        terms = told.get("keyterms")
        code = ""
        if terms is not None and not self._one("model").startswith("nova-3"):
            code, text = "CONFIGURE_KEYTERMS_NOT_SUPPORTED", "Only Nova-3 models take key terms."
        elif terms is not None and sum(len(term.split()) for term in terms) > KEYTERM_LIMIT:
            code, text = "CONFIGURE_KEYTERM_LIMIT_EXCEEDED", f"More than {KEYTERM_LIMIT} tokens."
        if code:
            return {"type": "ConfigureFailure", "request_id": self._request_id, "code": code, "description": text}
        if terms is not None:
            self.key_terms = list(terms)
        return {"type": "ConfigureSuccess", "request_id": self._request_id, "keyterms": self.key_terms}

    def _settled(self, end: float, *, speech_final: bool = False, from_finalize: bool = False) -> Message:
        message = self._results(end, is_final=True, speech_final=speech_final, from_finalize=from_finalize)
        if self._words:
            self._last_word_end = self._words[-1].end  # the gap counts behind settled words (docs/utterance-end)
        self._start, self._words = end, []
        return message

    def _results(
        self, end: float, *, is_final: bool = False, speech_final: bool = False, from_finalize: bool = False
    ) -> Message:
        words = [self._word(word) for word in self._words]
        alternative: Message = {
            "transcript": " ".join(str(word.get("punctuated_word", word["word"])) for word in words),
            "confidence": min((word["confidence"] for word in words), default=0.0),
            "words": words,
        }
        if self._one("language", "en") == "multi" and words:
            languages = [word.said.language for word in self._words]
            alternative["languages"] = sorted(dict.fromkeys(languages), key=languages.count, reverse=True)
        return {
            "type": "Results",
            "channel_index": [0, 1],
            "duration": round(end - self._start, 6),
            "start": self._start,
            "is_final": is_final,
            "speech_final": speech_final,
            "channel": {"alternatives": [alternative]},
            "metadata": {
                "request_id": self._request_id,
                "model_info": {"name": self._one("model"), "version": "twin", "arch": self._one("model")},
                "model_uuid": str(uuid4()),
            },
            "from_finalize": from_finalize,
        }

    def _word(self, word: HeardWord) -> Message:
        text = word.said.text
        told: Message = {
            "word": text.strip(".,;:!?").casefold(),
            "start": word.start,
            "end": word.end,
            "confidence": word.said.confidence,
        }
        if self._is_on("punctuate") or self._is_on("smart_format"):
            told["punctuated_word"] = text
        if self._is_on("diarize") or "diarize_model" in self._query:
            told["speaker"] = word.said.speaker
        if self._one("language", "en") == "multi":
            told["language"] = word.said.language
        return told

    def _one(self, name: str, default: str = "") -> str:
        return self._query.get(name, [default])[0]

    def _is_on(self, name: str) -> bool:
        return self._one(name) == "true"


def _error(variant: str, description: str) -> Message:
    return {"type": "Error", "variant": variant, "description": description, "message": description}
