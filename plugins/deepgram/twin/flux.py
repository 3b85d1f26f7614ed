"""One connection to `/v2/listen` (Flux), sans-I/O: the client's frames in, the server's messages out.

Fields: deepgram-sdk 7.17.0, `listen/v2/types/listen_v2{connected,turn_info,turn_info_words_item,configure,
configure_success,configure_failure,warning,fatal_error}.py`. The order of the events:
https://developers.deepgram.com/docs/flux/state. The thresholds: /docs/flux/configuration.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from vivavoce.pipelines.testing.ear import Ear, HeardWord, Lexicon
from vivavoce.pipelines.testing.twin_connection import Answer, Close, Message

UPDATE_EVERY = 0.25
"""Seconds of audio between two updates."""

SURE_AFTER = 1.0
"""Seconds of silence after which the twin is certain that the turn is over; its confidence grows up to there."""


class FluxSession:
    """Recognises one connection's turns.

    Args:
        query: The handshake's parameters; a name may have several values.
    """

    def __init__(self, query: Mapping[str, list[str]], lexicon: Lexicon, request_id: str) -> None:
        self._request_id = request_id
        self._is_multi = _one(query, "model", "") == "flux-general-multi"
        self._ear = Ear(lexicon, int(_one(query, "sample_rate", "16000")), 0.3)
        eager = _one(query, "eager_eot_threshold", "")
        self._thresholds: dict[str, float | None] = {
            "eager_eot_threshold": float(eager) if eager else None,
            "eot_threshold": float(_one(query, "eot_threshold", "0.7")),
            "eot_timeout_ms": float(_one(query, "eot_timeout_ms", "5000")),
        }
        self.key_terms = list(query.get("keyterm", ()))
        self._hints = list(query.get("language_hint", ()))
        self._sequence = 0
        self._turn = 0
        self._words: list[HeardWord] = []
        self._is_turn = False
        self._is_eager = False
        self._window_start = 0.0
        self._updated = 0.0

    def begin(self) -> Iterator[Answer]:
        """Greet the client."""
        yield self._message("Connected")

    def audio(self, pcm: bytes) -> Iterator[Answer]:
        """Take a binary frame."""
        for _ in self._ear.push(pcm):
            yield from self._step()

    def text(self, message: str) -> Iterator[Answer]:
        """Take a text frame."""
        try:
            told = json.loads(message)
            kind = told["type"]
        except (ValueError, TypeError, KeyError):
            kind = None
        if kind == "CloseStream":
            yield Close(1005)
        elif kind == "ForceEndTurn":
            self._words += self._ear.cut()
            if self._words:
                yield from self._end("manual")
        elif kind == "Configure":
            yield self._configured(told)
        else:
            yield self._message("Error", code="UNPARSABLE_CLIENT_MESSAGE", description="It is no control message.")
            yield Close(1008, "UNPARSABLE_CLIENT_MESSAGE")

    def _step(self) -> Iterator[Answer]:
        ear = self._ear
        if self._is_eager and (ear.is_onset or ear.words):
            self._is_eager = False
            yield self._info("TurnResumed")
        self._words += ear.words
        if ear.words and not self._is_turn:
            self._is_turn = True
            yield self._info("StartOfTurn")
        if self._is_turn and not ear.is_sound:
            yield from self._judge()
        if ear.position - self._updated >= UPDATE_EVERY - 1e-6:
            yield self._info("Update")

    def _judge(self) -> Iterator[Answer]:
        """End the turn, perhaps or for good, by the silence so far."""
        eager, sure = self._thresholds["eager_eot_threshold"], self._thresholds["eot_threshold"]
        timeout = self._thresholds["eot_timeout_ms"]
        assert sure is not None
        assert timeout is not None
        if sure < 1 and self._confidence >= sure:
            yield from self._end("model")
        elif self._ear.quiet >= timeout / 1000:
            yield from self._end("timeout")
        elif eager is not None and not self._is_eager and self._confidence >= eager:
            self._is_eager = True
            yield self._info("EagerEndOfTurn")

    def _end(self, trigger: str) -> Iterator[Answer]:
        if not self._is_turn:
            yield self._info("StartOfTurn")
        yield self._info("EndOfTurn", trigger=trigger)
        self._words, self._is_turn, self._is_eager = [], False, False
        self._turn += 1
        self._window_start = self._ear.position

    @property
    def _confidence(self) -> float:
        return round(min(1.0, self._ear.quiet / SURE_AFTER), 4) if self._words else 0.0

    def _info(self, event: str, **more: Any) -> Message:
        self._updated = self._ear.position
        if self._is_multi:
            languages = [word.said.language for word in self._words]
            more["languages"] = sorted(dict.fromkeys(languages), key=languages.count, reverse=True)
            if self._hints:
                more["languages_hinted"] = self._hints
        return self._message(
            "TurnInfo",
            event=event,
            turn_index=self._turn,
            audio_window_start=self._window_start,
            audio_window_end=self._ear.position,
            transcript=" ".join(word.said.text for word in self._words),
            words=[
                {"word": word.said.text, "confidence": word.said.confidence, "start": word.start, "end": word.end}
                for word in self._words
            ],
            end_of_turn_confidence=self._confidence,
            **more,
        )

    def _configured(self, told: Mapping[str, Any]) -> Message:
        thresholds = {**self._thresholds, **(told.get("thresholds") or {})}
        eager, sure = thresholds["eager_eot_threshold"], thresholds["eot_threshold"]
        if eager is not None and sure is not None and eager > sure:
            text = "eager_eot_threshold must not be above eot_threshold."
            return self._message("ConfigureFailure", code="INVALID_THRESHOLDS", description=text)
        self._thresholds = thresholds
        self.key_terms = list(told.get("keyterms", self.key_terms))
        self._hints = list(told.get("language_hints", self._hints))
        active = {name: value for name, value in thresholds.items() if value is not None}
        return self._message("ConfigureSuccess", thresholds=active, keyterms=self.key_terms, language_hints=self._hints)

    def _message(self, kind: str, **fields: Any) -> Message:
        message = {"type": kind, "request_id": self._request_id, "sequence_id": self._sequence, **fields}
        self._sequence += 1
        return message


def _one(query: Mapping[str, list[str]], name: str, default: str) -> str:
    return query.get(name, [default])[0]
