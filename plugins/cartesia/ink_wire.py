"""The stream of a recogniser whose client ends utterances (`/stt/websocket`), sans-I/O.

* A final text is what follows the final text before it, and is joined to it as it is. The words of an utterance are the
  texts up to the answer to `finalize`.
* Words of ink-whisper have times, which count from the connection's beginning; ink-2 has none.

Sources: https://docs.cartesia.ai/api-reference/stt/websocket, https://docs.cartesia.ai/use-the-api/stt/troubleshooting,
and the fields in cartesia 4.2.0, `types/stt/stt_manual_finalize_*.py`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vivavoce.pipelines.core.errors import ProviderProtocolError
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.streams import json_object
from vivavoce.pipelines.stt.base import STTEvent, STTFinal, STTInterim, STTWord
from vivavoce.pipelines.stt.recognised import joined_words
from vivavoce.plugins.cartesia.wire import failure_in, is_time

logger = logging.getLogger(__name__)

FINALIZE = "finalize"
CLOSE = "close"


@dataclass(frozen=True, slots=True)
class _Flush:
    """A `finalize` without an answer."""

    position: float
    is_wanted: bool
    """Whether its words are; else it ends words that are to be forgotten."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A text, with the words of it that have times."""

    text: str = field(repr=False)
    words: tuple[STTWord, ...] = field(repr=False)


class InkWire:
    """One stream's utterances.

    Args:
        language: As asked for.
        position: Returns the stream's position: the seconds of audio so far.
        at: Returns the stream's position of a time of the present connection.
        settle: Called with the position up to which all words are known.
        report: Called with each event.
    """

    def __init__(
        self,
        language: str,
        *,
        position: Callable[[], float],
        at: Callable[[float], float],
        settle: Callable[[float], None],
        report: Callable[[STTEvent], None],
        failures: Failures,
    ) -> None:
        self._language = language
        self._position = position
        self._at = at
        self._settle = settle
        self._report = report
        self._failures = failures
        self._pieces: list[_Piece] = []
        self._shown = ""
        self._flushes: deque[_Flush] = deque()
        self._known_until = 0.0
        """Words up to there were heard by an earlier connection, or are not wanted."""
        self._last_word_end = 0.0
        self._shown_until = 0.0
        self._counted = 0.0

    @property
    def shown_until(self) -> float:
        """The position up to which words were settled or shown."""
        return self._shown_until

    def begin(self) -> None:
        """Read the messages of a new connection, which hears again the audio of all words without times."""
        self._pieces = [piece for piece in self._pieces if piece.words]
        self._known_until = max(self._known_until, self._last_word_end)
        self._flushes = deque(flush for flush in self._flushes if flush.is_wanted)

    def flush(self, position: float) -> None:
        """Note that the utterance is over at this position, where `FINALIZE` is sent."""
        self._flushes.append(_Flush(position, is_wanted=True))

    def discard(self, position: float) -> None:
        """Forget the words of the audio up to there, where `FINALIZE` is sent."""
        forgotten = [_Flush(flush.position, is_wanted=False) for flush in self._flushes]
        self._flushes = deque((*forgotten, _Flush(position, is_wanted=False)))
        self._pieces, self._shown = [], ""
        self._known_until = self._shown_until = self._counted = position

    def feed(self, message: str | bytes) -> None:
        """Take one frame.

        Raises:
            ProviderError: The service reports an error.
        """
        try:
            told = json_object(message, self._failures)
            kind = told.get("type")
            if kind == "transcript" and self._is_wanted:
                self._take(told)
            elif kind == "flush_done" and self._flushes:
                self._finish(self._flushes.popleft())
        except ProviderProtocolError as error:  # this message is lost, and the next one may be valid
            logger.warning("%s", error)
            return
        if kind == "error":
            raise failure_in(told, self._failures)

    @property
    def _is_wanted(self) -> bool:
        return not self._flushes or self._flushes[0].is_wanted

    def _take(self, told: Mapping[str, Any]) -> None:
        piece = self._piece(told)
        language = told.get("language")
        self._language = language if isinstance(language, str) and language else self._language
        pieces = [*self._pieces, piece]
        if told.get("is_final"):
            self._pieces = pieces
            if piece.words:
                self._last_word_end = piece.words[-1].end
                self._settle(self._last_word_end)
        fields = self._fields(pieces)
        if fields["text"] and fields["text"] != self._shown:
            self._shown = fields["text"]
            self._shown_until = piece.words[-1].end if piece.words else self._position()
            self._report(STTInterim(**fields))

    def _finish(self, flush: _Flush) -> None:
        """End the utterance: with a final, an empty one if nothing was heard, unless it is not wanted."""
        pieces, self._pieces, self._shown = self._pieces, [], ""
        if flush.is_wanted:
            self._settle(flush.position)
            self._shown_until = max(self._shown_until, flush.position)
            seconds, self._counted = max(0.0, flush.position - self._counted), flush.position
            self._report(STTFinal(**self._fields(pieces), audio_seconds=seconds))

    def _fields(self, pieces: list[_Piece]) -> dict[str, Any]:
        return {
            "text": "".join(piece.text for piece in pieces).strip(),
            "words": tuple(word for piece in pieces for word in piece.words),
            "language": self._language,
        }

    def _piece(self, told: Mapping[str, Any]) -> _Piece:
        text = told.get("text")
        if not isinstance(text, str):
            raise self._failures.malformed("a text in a transcript", type(text).__name__)
        all_words = self._words(told.get("words"))
        words = tuple(word for word in all_words if (word.start + word.end) / 2 > self._known_until)
        if len(words) < len(all_words):
            text = f" {joined_words(text.strip(), words)}" if words else ""
        return _Piece(text, words)

    def _words(self, told: object) -> list[STTWord]:
        words: list[STTWord] = []
        for one in told if isinstance(told, list) else ():
            word = one if isinstance(one, dict) else {}
            text, start, end = word.get("word"), word.get("start"), word.get("end")
            if not (isinstance(text, str) and is_time(start) and is_time(end)):
                raise self._failures.malformed("words with times", "something else")
            begin = max(0.0, self._at(start))
            words.append(STTWord(text=text.strip(), start=begin, end=max(begin, self._at(end))))
        return words
