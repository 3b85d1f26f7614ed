"""The stream of a recogniser that judges turns, sans-I/O: the service's messages in, the port's events out.

* A transcript is that of the turn so far. The words have those too that may still change.
* Where a turn is formatted after its end, the end comes twice: the first one shows that the turn is over, so that an
  answer may begin, and the second one has the words.
* A turn that was ended by force (`ForceEndpoint`) was ended by the pipeline: its words are a final, and nothing else.
  No message says so: it is known by the position of its words.
* Words are settled at the end of a turn only; after a reconnect the service hears the turn again, from its beginning.
* `SpeakerRevision` is passed over: it is about turns that are in the history already.

Sources: https://www.assemblyai.com/docs/streaming/message-sequence, and the fields in assemblyai 1.8.2,
`streaming/v3/models.py`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vivavoce.pipelines.core.errors import ProviderError, ProviderProtocolError
from vivavoce.pipelines.core.words import is_spaceless, letters_of
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.streams import json_object
from vivavoce.pipelines.stt.base import (
    STTEagerEndOfTurn,
    STTEndOfTurn,
    STTEvent,
    STTFinal,
    STTInterim,
    STTTurnResumed,
    STTWord,
)

logger = logging.getLogger(__name__)

FORCE_ENDPOINT = json.dumps({"type": "ForceEndpoint"})
TERMINATE = json.dumps({"type": "Terminate"})

TOLD_WITHIN = 3.0
"""Seconds of audio after which speech that has begun is known to have; older audio between turns holds no words."""

NO_TURN = -1
"""In place of the number of a turn."""

UNKNOWN_SPEAKER = "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRules:
    """How messages about turns are taken.

    Args:
        decides_turns: Whether the ends of turns are judgements; else they settle words, and nothing more.
        eager_threshold: Confidence in the end of a turn from which on an answer may begin; None: there is none.
        formats_later: Whether each end of a turn comes again, formatted.
        languages: Of words whose message names none.
    """

    decides_turns: bool = True
    eager_threshold: float | None = None
    formats_later: bool = False
    languages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Heard:
    """The words of a turn, at the stream's times."""

    order: int
    text: str = field(repr=False)
    words: tuple[STTWord, ...] = field(repr=False)
    languages: tuple[str, ...]

    def fields(self) -> dict[str, Any]:
        """Return the fields of an event."""
        sure = [word.confidence for word in self.words if word.confidence is not None]
        return {
            "text": self.text,
            "words": self.words,
            "languages": self.languages,
            "confidence": sum(sure) / len(sure) if sure else None,
        }


class TurnWire:
    """One stream's turns.

    Args:
        at: Returns the stream's position of a time of the present connection.
        settle: Called with the position up to which all words are known.
        report: Called with each event.
    """

    def __init__(
        self,
        rules: TurnRules,
        *,
        at: Callable[[float], float],
        settle: Callable[[float], None],
        report: Callable[[STTEvent], None],
        failures: Failures,
    ) -> None:
        self._rules = rules
        self._at = at
        self._tell_settled = settle
        self._report = report
        self._failures = failures
        self.is_ready = False
        """Whether the service has accepted key and settings."""
        self._is_turn = False
        """Whether speech has begun whose turn has not ended."""
        self._shown = ""
        """The words of the turn that were shown last."""
        self._is_eager = False
        self._unformatted: Heard | None = None
        """A turn that has ended, and whose formatted words are still to come."""
        self._done: set[int] = set()
        """The numbers of turns of this connection that have ended, or are not wanted."""
        self._turn = NO_TURN
        """The number of the newest turn of this connection."""
        self._forced_until = 0.0
        """The position where a turn was ended by force last."""
        self._known_until = 0.0
        """Words up to there were settled, or are not wanted."""
        self._shown_until = 0.0
        self._counted = 0.0

    @property
    def shown_until(self) -> float:
        """The position up to which words were settled or shown."""
        return max(self._known_until, self._shown_until)

    def begin(self) -> None:
        """Read the messages of a new connection, which hears the turn again: an eager end is no longer true."""
        self.is_ready = False
        if self._unformatted is not None:
            self._finish(self._unformatted)
        self._done, self._turn = set(), NO_TURN
        if self._is_eager:
            self._is_eager = False
            self._report(STTTurnResumed())

    def pushed(self, position: float) -> None:
        """Note the position of the newest audio: between turns, older audio is settled."""
        if not self._is_turn:
            self._tell_settled(position - TOLD_WITHIN)

    def flush(self, position: float) -> None:
        """Note that the turn is over by another judgement; the service answers with its words."""
        self._forced_until = position

    def discard(self, position: float) -> None:
        """Forget the words of the audio up to there; the service is asked to end the turn."""
        if self._shown or self._unformatted is not None:
            self._done.add(self._turn)
        self._is_turn = self._is_eager = False
        self._shown, self._unformatted = "", None
        self._known_until = self._counted = position

    def feed(self, message: str | bytes) -> None:
        """Take one frame.

        Raises:
            ProviderError: The service reports an error, and closes.
        """
        try:
            told = json_object(message, self._failures)
            kind = told.get("type")
            if kind == "Turn":
                self._take_turn(told)
        except ProviderProtocolError as error:  # this message is lost, and the next one may be valid
            logger.warning("%s", error)
            return
        if kind == "Begin":
            self.is_ready = True
        elif kind == "SpeechStarted":
            self._is_turn = True
        elif kind == "Error":
            raise self._failure(told)
        elif kind == "Warning":
            logger.warning("assemblyai: %s", self._failures.redact(told.get("warning")))

    def _failure(self, told: Mapping[str, Any]) -> ProviderError:
        """Return the error of a message: the close that follows has its code, and often not its text."""
        code, text = told.get("error_code"), told.get("error")
        if isinstance(code, int) and isinstance(text, str):
            return self._failures.closed(code, text)
        return self._failures.in_answer(None, text)

    def _take_turn(self, told: Mapping[str, Any]) -> None:
        order = told.get("turn_order")
        if not isinstance(order, int):
            raise self._failures.malformed("a number as turn_order", type(order).__name__)
        heard = self._heard(told, order)
        if self._unformatted is not None and self._unformatted.order != order:
            self._finish(self._unformatted)  # its formatted words do not come any more
        self._turn = order
        if order in self._done:
            return
        if heard is None:
            if told.get("end_of_turn") and not self._shown:
                self._is_turn = False
        elif not told.get("end_of_turn"):
            self._show(heard, number_of(told, "end_of_turn_confidence", self._failures))
        elif self._rules.formats_later and heard.text and not told.get("turn_is_formatted"):
            self._unformatted = heard
            self._show(heard, 1.0, is_sure=True)
        else:
            self._finish(heard)

    def _show(self, heard: Heard, confidence: float, *, is_sure: bool = False) -> None:
        """Report the words of a turn that goes on.

        Args:
            confidence: That no more words will come.
            is_sure: Whether the turn is over.
        """
        if heard.text != self._shown:
            self._is_turn, self._is_eager = True, False
            self._shown, self._shown_until = heard.text, heard.words[-1].end if heard.words else self._shown_until
            self._report(STTInterim(**heard.fields()))
        rules = self._rules
        is_eager = is_sure or (rules.eager_threshold is not None and confidence >= rules.eager_threshold)
        if rules.decides_turns and is_eager and heard.text and not self._is_eager and not self._is_forced(heard):
            self._is_eager = True
            self._report(STTEagerEndOfTurn(heard.text))

    def _finish(self, heard: Heard) -> None:
        """Report the final of a turn that has ended."""
        if heard.text:  # an empty turn may be the answer to a `ForceEndpoint` before the first word
            self._done.add(heard.order)
        end = heard.words[-1].end if heard.words else self._known_until
        self._tell_settled(end)
        self._known_until, seconds, self._counted = max(self._known_until, end), end - self._counted, end
        had_words, self._shown = bool(self._shown or heard.text), ""
        self._is_turn, self._is_eager, self._unformatted = False, False, None
        if had_words:
            self._report(STTFinal(**heard.fields(), audio_seconds=max(0.0, seconds)))
        if heard.text and self._rules.decides_turns and not self._is_forced(heard):
            self._report(STTEndOfTurn())

    def _is_forced(self, heard: Heard) -> bool:
        """Return whether a turn began before the pipeline ended one: then no judgement of it is wanted."""
        return bool(heard.words) and _middle(heard.words[0]) < self._forced_until

    def _heard(self, told: Mapping[str, Any], order: int) -> Heard | None:
        """Return the words of a message that are not settled; None if all of them are.

        Raises:
            ProviderProtocolError: It breaks the protocol.
        """
        text, language = told.get("transcript"), told.get("language_code")
        if not isinstance(text, str):
            raise self._failures.malformed("a transcript in Turn", type(text).__name__)
        all_words = self._words(told.get("words"), told.get("speaker_label"))
        words = tuple(word for word in all_words if _middle(word) > self._known_until)
        if all_words and not words:
            return None
        spelt = joined(words)
        if len(words) < len(all_words) or len(letters_of(spelt)) > len(letters_of(text)):
            text = spelt  # words that may still change are in no transcript of a Universal-Streaming model
        languages = (language,) if isinstance(language, str) and language else self._rules.languages
        return Heard(order, text.strip(), words, languages)

    def _words(self, told: object, speaker: object) -> list[STTWord]:
        words: list[STTWord] = []
        for one in told if isinstance(told, list) else ():
            word = one if isinstance(one, dict) else {}
            text, by = word.get("text"), word.get("speaker") or speaker
            if not isinstance(text, str):
                raise self._failures.malformed("a text for each word", type(text).__name__)
            start = max(0.0, self._at(number_of(word, "start", self._failures) / 1000))
            end = self._at(number_of(word, "end", self._failures) / 1000)
            confidence = number_of(word, "confidence", self._failures)
            words.append(
                STTWord(
                    text=text,
                    start=start,
                    end=max(start, end),
                    confidence=min(1.0, max(0.0, confidence)),
                    speaker=by if isinstance(by, str) and by != UNKNOWN_SPEAKER else "",
                )
            )
        return words


def joined(words: tuple[STTWord, ...]) -> str:
    """Return the text of words, as their language joins them."""
    return ("" if is_spaceless("".join(word.text for word in words)) else " ").join(word.text for word in words)


def number_of(told: Mapping[str, Any], name: str, failures: Failures) -> float:
    """Return a number of a message; 0 if it has none.

    Raises:
        ProviderProtocolError: It is something else.
    """
    value = told.get(name) or 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e9:
        raise failures.malformed(f"a number as {name}", type(value).__name__)
    return float(value)


def _middle(word: STTWord) -> float:
    return (word.start + word.end) / 2
