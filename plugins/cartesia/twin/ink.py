"""Connections to the recognisers (ink), sans-I/O: the client's frames in, the server's messages out.

Fields: cartesia 4.2.0, `types/stt/{manual,auto}_finalize_websocket_params.py`, `types/stt/stt_manual_finalize_*.py`,
`types/stt/stt_auto_finalize_*.py`, `types/stt_error_response.py`. Behaviour: below https://docs.cartesia.ai/,
`api-reference/stt/websocket`, `api-reference/stt/turns/websocket`, `use-the-api/stt/turns/turns` (the order of the
events; text is final once it is sent), `use-the-api/stt/troubleshooting` (text is joined as it is).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from vivavoce.pipelines.testing.ear import Ear, HeardWord, Lexicon
from vivavoce.pipelines.testing.twin_connection import Answer, Close, Message
from vivavoce.plugins.cartesia.models import INK_LANGUAGES
from vivavoce.plugins.cartesia.twin.requests import Refusal

RATES = range(8000, 48_001)
"""Hz."""

MOST_TERMS, MOST_TERM_CHARACTERS = 100, 1200

LONGEST_SILENCE = 0.5
"""Seconds of silence after which ink-whisper settles its words, unless the client says so."""

SURE_AFTER = 1.0
"""Seconds of silence after which the twin is certain that the turn is over; its likelihood falls up to there."""

THRESHOLDS = {
    "start_threshold": (0.8, 0.5, 0.9),
    "eager_end_threshold": (0.4, 0.3, 0.6),
    "end_threshold": (0.2, 0.05, 0.5),
    "end_timeout_ms": (5600, 640, 11200),
}
"""Name -> the value unless given, the least and the greatest one."""

Query = Mapping[str, list[str]]


class InkSession:
    """What both kinds of connections have.

    Args:
        query: The handshake's parameters; a name may have several values.
    """

    def __init__(self, query: Query, lexicon: Lexicon, request_id: str) -> None:
        self.key_terms = list(query.get("keyterm", ()))
        self._query = query
        self._request_id = request_id
        self._refusal = self._refused()
        rate = 16_000 if self._refusal is not None else int(self._one("sample_rate"))
        self._ear = Ear(lexicon, rate, 0.3)
        self._words: list[HeardWord] = []
        """The words that are not settled."""
        self._has_said = False
        """Whether text was sent before, so that the next one begins with a space."""

    def begin(self) -> Iterator[Answer]:
        """Refuse wrong settings."""
        if self._refusal is not None:
            yield self._error(self._refusal)
            yield Close(1000)

    def _refused(self) -> Refusal | None:
        model = self._one("model")
        if model not in self._models():
            return Refusal(
                400, "Invalid model", "The model is not valid, make sure it is a valid model ID.", "model_not_found"
            )
        if self._one("language", "en") not in INK_LANGUAGES[model]:
            return _bad("Invalid language", "The language is not supported by the model.")
        if self._one("encoding") != "pcm_s16le":
            return _bad("Invalid encoding", "This twin hears pcm_s16le only.")
        if not self._one("sample_rate").isdecimal() or int(self._one("sample_rate")) not in RATES:
            return _bad("Invalid sample rate", "The sample rate is not valid.")
        if len(self.key_terms) > MOST_TERMS or len("".join(self.key_terms)) > MOST_TERM_CHARACTERS:
            return _bad("Too many keyterms", f"At most {MOST_TERMS} of {MOST_TERM_CHARACTERS} characters in all.")
        if self.key_terms and not model.startswith("ink-2"):
            return _bad("Invalid keyterm", "The model does not support keyterms.")
        return None

    def _models(self) -> tuple[str, ...]:
        return tuple(INK_LANGUAGES)

    def _one(self, name: str, default: str = "") -> str:
        return self._query.get(name, [default])[0]

    def _text(self, words: list[HeardWord]) -> str:
        return (" " if self._has_said else "") + " ".join(word.said.text for word in words)

    def _message(self, kind: str, **fields: Any) -> Message:
        return {"type": kind, "request_id": self._request_id, **fields}

    def _error(self, refusal: Refusal) -> Message:
        fields = {"title": refusal.title, "message": refusal.message, "status_code": refusal.status}
        return self._message("error", **fields, **({"error_code": refusal.code} if refusal.code else {}))


class ManualSession(InkSession):
    """One connection to `/stt/websocket`, whose client says when words are to be settled.

    ink-2 settles each word as it is heard; ink-whisper shows the words so far, with times, and settles them at the
    client's word, or by itself in a silence.
    """

    def audio(self, pcm: bytes) -> Iterator[Answer]:
        """Take a binary frame."""
        for _ in self._ear.push(pcm):
            self._words += self._ear.words
            if self._ear.words and not self._is_whisper:
                yield self._settled()
            elif self._ear.words:
                yield self._transcript(is_final=False)
            elif self._words and self._ear.quiet >= float(self._one("max_silence_duration_secs", str(LONGEST_SILENCE))):
                yield self._settled()

    def text(self, message: str) -> Iterator[Answer]:
        """Take a text frame."""
        if message not in ("finalize", "close", "done"):
            yield self._error(_bad("Invalid command", "The message must be finalize or close."))
            return
        self._words += self._ear.cut()
        if self._words:
            yield self._settled()
        yield self._message("flush_done" if message == "finalize" else "done")
        if message != "finalize":
            yield Close(1000)

    @property
    def _is_whisper(self) -> bool:
        return self._one("model").startswith("ink-whisper")

    def _settled(self) -> Message:
        message = self._transcript(is_final=True)
        self._words, self._has_said = [], True
        return message

    def _transcript(self, *, is_final: bool) -> Message:
        fields: Message = {
            "text": self._text(self._words),
            "is_final": is_final,
            "language": self._one("language", "en"),
        }
        if self._is_whisper:
            fields["duration"] = round(self._words[-1].end - self._words[0].start, 6)
            fields["words"] = [{"word": word.said.text, "start": word.start, "end": word.end} for word in self._words]
        return self._message("transcript", **fields)


class TurnsSession(InkSession):
    """One connection to `/stt/turns/websocket`, whose model decides turns. Its messages have no times."""

    def __init__(self, query: Query, lexicon: Lexicon, request_id: str) -> None:
        self._turn = {name: float(query.get(f"turn_{name}", [str(value[0])])[0]) for name, value in THRESHOLDS.items()}
        super().__init__(query, lexicon, request_id)
        self._is_turn = False
        self._is_eager = False

    def begin(self) -> Iterator[Answer]:
        """Greet the client."""
        yield from super().begin()
        if self._refusal is None:
            yield self._message("connected")

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
        if kind == "close":
            self._words += self._ear.cut()
            if self._words:
                yield from self._end()
            yield Close(1000)
        elif kind == "config":
            asked = {**self._turn, **(told.get("turn") or {})}
            refusal = _bad_turn(asked)
            if refusal is not None:
                yield self._error(refusal)
            else:
                self._turn = asked
        else:
            yield self._error(_bad("Invalid command", "The message must be a config or close command."))

    def _models(self) -> tuple[str, ...]:
        return ("ink-2",)

    def _refused(self) -> Refusal | None:
        return super()._refused() or _bad_turn(self._turn)

    def _step(self) -> Iterator[Answer]:
        ear = self._ear
        if self._is_eager and (ear.is_onset or ear.words):
            self._is_eager = False
            yield self._message("turn.resume")
        self._words += ear.words
        if ear.words and not self._is_turn:
            self._is_turn = True
            yield self._message("turn.start")
        if ear.words:
            yield self._message("turn.update", transcript=self._text(self._words))
        if self._is_turn and not ear.is_sound:
            yield from self._judge()

    def _judge(self) -> Iterator[Answer]:
        likelihood = round(max(0.0, 1 - self._ear.quiet / SURE_AFTER), 4)
        if likelihood <= self._turn["end_threshold"] or self._ear.quiet >= self._turn["end_timeout_ms"] / 1000:
            yield from self._end()
        elif likelihood <= self._turn["eager_end_threshold"] and not self._is_eager:
            self._is_eager = True
            yield self._message("turn.eager_end", transcript=self._text(self._words))

    def _end(self) -> Iterator[Answer]:
        if not self._is_turn:
            yield self._message("turn.start")
        yield self._message("turn.end", transcript=self._text(self._words))
        self._words, self._is_turn, self._is_eager, self._has_said = [], False, False, True


def _bad(title: str, text: str) -> Refusal:
    return Refusal(400, title, text, "invalid_request")


def _bad_turn(turn: Mapping[str, float]) -> Refusal | None:
    """Return the refusal of settings of turns, if they are wrong."""
    for name, (_, least, most) in THRESHOLDS.items():
        if not least <= turn[name] <= most:
            return _bad("Invalid turn settings", f"{name} must be between {least:g} and {most:g}.")
    if not turn["end_threshold"] < turn["eager_end_threshold"] < turn["start_threshold"]:
        return _bad("Invalid turn settings", "Need end_threshold < eager_end_threshold < start_threshold.")
    return None
