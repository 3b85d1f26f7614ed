"""The stream of a Nova recogniser, sans-I/O: the service's messages in, the port's events out.

* Results with `is_final` settle a piece of the utterance, and the next interims have only the words behind it. Pieces
  are joined until the utterance is over: `speech_final`, an answer to `Finalize`, or `UtteranceEnd`.
* Times count from the connection's beginning; `at()` makes them the stream's. After a reconnect the service hears some
  audio twice, and words of that are dropped.
* `Finalize` is not always answered: https://developers.deepgram.com/docs/finalize. Nothing here waits for it.

Sources: https://developers.deepgram.com/docs/understand-endpointing-interim-results, and the fields in deepgram-sdk
7.17.0, `listen/v1/types`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vivavoce.pipelines.core.errors import ProviderProtocolError
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.streams import json_object
from vivavoce.pipelines.stt.base import STTEvent, STTFinal, STTInterim, STTWord
from vivavoce.pipelines.stt.recognised import joined_words

logger = logging.getLogger(__name__)

FINALIZE = json.dumps({"type": "Finalize"})
KEEP_ALIVE = json.dumps({"type": "KeepAlive"})
CLOSE_STREAM = json.dumps({"type": "CloseStream"})

KEEP_ALIVE_AFTER = 4.0
"""Seconds without audio after which to say that the stream goes on; the service closes after 10."""

ROUNDING = 0.1
"""Seconds by which the end of an answer to `Finalize` may lie before the audio that it answers."""

MULTI = "multi"
"""The language of the models that detect it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Words of one message, at the stream's times."""

    text: str = field(repr=False)
    words: tuple[STTWord, ...] = field(repr=False)
    languages: tuple[str, ...]
    confidence: float
    end: float
    """Seconds of the stream up to which it is about."""


class NovaWire:
    """One stream's utterances.

    Args:
        language: As asked for.
        at: Returns the stream's position of a time of the present connection.
        settle: Called with the position up to which all words are known.
        report: Called with each event.
    """

    def __init__(
        self,
        language: str,
        *,
        at: Callable[[float], float],
        settle: Callable[[float], None],
        report: Callable[[STTEvent], None],
        failures: Failures,
    ) -> None:
        self._languages = () if language == MULTI else (language,)
        self._at = at
        self._tell_settled = settle
        self._report = report
        self._failures = failures
        self._pieces: list[Piece] = []
        self._is_shown = False
        """Whether words were shown that no final has settled."""
        self._known_until = 0.0
        """Words up to there were heard by an earlier connection, or are not wanted."""
        self._last_word_end = 0.0
        """The end of the last settled word."""
        self._settled = 0.0
        """The position up to which all words are known."""
        self._shown_until = 0.0
        self._counted = 0.0
        self._flushes: list[float] = []
        """Positions of the flushes without an answer."""
        self._owes_final = False
        """Whether an utterance was flushed of which there was no final."""
        self._has_final = False
        """Whether the open utterance has had a final."""

    @property
    def shown_until(self) -> float:
        """The position up to which words were settled or shown."""
        return max(self._settled, self._shown_until)

    def begin(self) -> None:
        """Read the messages of a new connection, which hears unsettled audio again."""
        self._known_until = max(self._known_until, self._last_word_end)

    def flush(self, position: float) -> None:
        """Note that the utterance is over at this position, where `FINALIZE` is sent."""
        self._flushes.append(position)
        self._owes_final, self._has_final = not self._has_final, False

    def discard(self, position: float) -> None:
        """Forget the words of the audio up to there."""
        self._pieces, self._flushes = [], []
        self._is_shown = self._owes_final = self._has_final = False
        self._known_until = self._settled = self._counted = position

    def feed(self, message: str | bytes) -> None:
        """Take one frame.

        Raises:
            ProviderError: The service reports an error, and closes.
        """
        try:
            told = json_object(message, self._failures)
            kind = told.get("type")
            if kind == "Results":
                self._take_results(told)
            elif kind == "UtteranceEnd" and self._pieces:
                self._finish()
        except ProviderProtocolError as error:  # this message is lost, and the next one may be valid
            logger.warning("%s", error)
            return
        if kind == "Error":
            raise self._failures.in_answer(told.get("variant"), told.get("description") or told.get("message"))
        if kind == "ConfigureFailure":
            logger.warning("deepgram: settings were refused: %s", self._failures.redact(told.get("description")))

    def _take_results(self, told: Mapping[str, Any]) -> None:
        piece = self._piece(told)
        if not told.get("is_final"):
            if piece.text:
                self._show(*self._pieces, piece)
            return
        if piece.text:
            self._pieces.append(piece)
            self._last_word_end = piece.words[-1].end if piece.words else piece.end
        is_answer = bool(told.get("from_finalize"))
        self._settle(piece.end, is_answer=is_answer)
        if told.get("speech_final") or is_answer:
            self._finish(is_answer=is_answer)
        elif piece.text:
            self._show(*self._pieces)

    def _settle(self, end: float, *, is_answer: bool) -> None:
        if is_answer:
            end = max([end, *(at for at in self._flushes if at <= end + ROUNDING)])
        self._flushes = [at for at in self._flushes if at > end]
        self._settled = max(self._settled, end)
        self._tell_settled(end)

    def _show(self, *pieces: Piece) -> None:
        self._is_shown, self._shown_until = True, pieces[-1].end
        self._report(STTInterim(**_joined(pieces)))

    def _finish(self, *, is_answer: bool = False) -> None:
        """Report the final of the utterance; an empty one if words were shown in vain, or if it was flushed."""
        in_vain = self._is_shown and self._settled >= self._shown_until - ROUNDING
        if self._pieces or in_vain or (is_answer and self._owes_final):
            seconds, self._counted = self._settled - self._counted, self._settled
            final = STTFinal(**_joined(self._pieces), audio_seconds=max(0.0, seconds))
            self._has_final = bool(self._pieces) and not self._owes_final
            self._pieces, self._is_shown, self._owes_final = [], False, False
            self._report(final)

    def _piece(self, told: Mapping[str, Any]) -> Piece:
        end = self._at(number_of(told, "start", self._failures) + number_of(told, "duration", self._failures))
        channel = told.get("channel")
        alternatives = channel.get("alternatives") if isinstance(channel, dict) else None
        if not isinstance(alternatives, list):
            raise self._failures.malformed("channel.alternatives in Results", type(alternatives).__name__)
        best = alternatives[0] if alternatives and isinstance(alternatives[0], dict) else {}
        text, told_words, languages = best.get("transcript"), best.get("words"), best.get("languages")
        all_words = words_of(told_words, self._at, self._failures)
        words = tuple(word for word in all_words if (word.start + word.end) / 2 > self._known_until)
        if not isinstance(text, str):
            raise self._failures.malformed("a transcript in Results", type(text).__name__)
        if len(words) < len(all_words):
            text = joined_words(text, words)
        if not all_words and end <= self._known_until:
            text = ""
        found = tuple(map(str, languages)) if isinstance(languages, list) else ()
        return Piece(text.strip(), words, found or self._languages, number_of(best, "confidence", self._failures), end)


def words_of(told: object, at: Callable[[float], float], failures: Failures) -> list[STTWord]:
    """Return the words of a message, at the stream's times; those without times are left out.

    Raises:
        ProviderProtocolError: They break the protocol.
    """
    words: list[STTWord] = []
    for one in told if isinstance(told, list) else ():
        word = one if isinstance(one, dict) else {}
        text, speaker, language = (
            word.get("punctuated_word") or word.get("word"),
            word.get("speaker"),
            word.get("language"),
        )
        if not isinstance(text, str):
            raise failures.malformed("a text for each word", type(text).__name__)
        if word.get("start") is None or word.get("end") is None:
            continue
        start = max(0.0, at(number_of(word, "start", failures)))
        words.append(
            STTWord(
                text=text,
                start=start,
                end=max(start, at(number_of(word, "end", failures))),
                confidence=share(number_of(word, "confidence", failures)),
                speaker="" if speaker is None else str(speaker),
                language=language if isinstance(language, str) else "",
            )
        )
    return words


def number_of(told: Mapping[str, Any], name: str, failures: Failures) -> float:
    """Return a number of a message; 0 if it has none.

    Raises:
        ProviderProtocolError: It is something else.
    """
    value = told.get(name, 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e9:
        raise failures.malformed(f"a number as {name}", type(value).__name__)
    return float(value)


def share(value: float) -> float:
    """Return a value from 0 to 1."""
    return min(1.0, max(0.0, value))


def _joined(pieces: tuple[Piece, ...] | list[Piece]) -> dict[str, Any]:
    """Return the fields of an event for these pieces of one utterance."""
    if not pieces:
        return {"text": ""}
    sizes = [max(1, len(piece.words)) for piece in pieces]
    confidence = sum(piece.confidence * size for piece, size in zip(pieces, sizes, strict=True)) / sum(sizes)
    languages = [language for piece, size in zip(pieces, sizes, strict=True) for language in piece.languages * size]
    return {
        "text": " ".join(piece.text for piece in pieces),
        "words": tuple(word for piece in pieces for word in piece.words),
        "languages": tuple(sorted(dict.fromkeys(languages), key=languages.count, reverse=True)),
        "confidence": share(confidence),
    }
