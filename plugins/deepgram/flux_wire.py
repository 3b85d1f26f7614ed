"""The stream of a Flux recogniser, sans-I/O: the service's messages in, the port's events out.

* The service judges turns: `EagerEndOfTurn`, `TurnResumed`, `EndOfTurn`. The transcript is that of the turn so far.
* A turn that was ended by force (`ForceEndTurn`) was ended by the pipeline: its words are a final, and nothing else.
* Words are settled at the end of a turn only; after a reconnect the service hears the turn again, from its beginning.

Sources: https://developers.deepgram.com/docs/flux/state, and the fields in deepgram-sdk 7.17.0, `listen/v2/types`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from vivavoce.pipelines.core.errors import ProviderProtocolError
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.streams import json_object
from vivavoce.pipelines.stt.base import (
    STTEagerEndOfTurn,
    STTEndOfTurn,
    STTEvent,
    STTFinal,
    STTInterim,
    STTTurnResumed,
)
from vivavoce.pipelines.stt.recognised import joined_words
from vivavoce.plugins.deepgram.wire import number_of, share, words_of

logger = logging.getLogger(__name__)

FORCE_END_TURN = json.dumps({"type": "ForceEndTurn"})

EVENTS = ("StartOfTurn", "Update", "EagerEndOfTurn", "TurnResumed", "EndOfTurn")


class FluxWire:
    """One stream's turns.

    Args:
        language: Of a model that has one; empty if it detects them.
        at, settle, report: As for `NovaWire`.
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
        self._languages = (language,) if language else ()
        self._at = at
        self._tell_settled = settle
        self._report = report
        self._failures = failures
        self._shown = ""
        """The words of the turn that were shown last."""
        self._is_eager = False
        self._turn: object = None
        """The number of the newest turn."""
        self._ignored: object = None
        """The number of a turn that is not wanted."""
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
        self._turn = self._ignored = None
        self._resume()

    def flush(self, position: float) -> None:
        """Note that the turn is over by another judgement; the service answers with its words."""

    def discard(self, position: float) -> None:
        """Forget the words of the audio up to there; the service is asked to end the turn."""
        if self._shown:
            self._ignored = self._turn
        self._shown, self._is_eager = "", False
        self._known_until = self._counted = position

    def feed(self, message: str | bytes) -> None:
        """Take one frame.

        Raises:
            ProviderError: The service reports an error, and closes.
        """
        try:
            told = json_object(message, self._failures)
            kind = told.get("type")
            if kind == "TurnInfo" and told.get("event") in EVENTS:
                self._take_turn(told)
        except ProviderProtocolError as error:  # this message is lost, and the next one may be valid
            logger.warning("%s", error)
            return
        if kind == "Error":
            raise self._failures.in_answer(told.get("code"), told.get("description"))
        if kind in ("Warning", "ConfigureFailure"):
            logger.warning("deepgram: %s: %s", kind, self._failures.redact(told.get("description")))

    def _take_turn(self, told: Mapping[str, Any]) -> None:
        self._turn = told.get("turn_index")
        if self._turn is not None and self._turn == self._ignored:
            return
        event, end = told["event"], self._at(number_of(told, "audio_window_end", self._failures))
        fields = self._fields(told)
        text: str = fields["text"]
        if event == "TurnResumed":
            self._resume()
        if event == "EndOfTurn":
            self._end(fields, end, is_forced=told.get("trigger") == "manual")
        elif not text and not self._shown:
            self._tell_settled(end)  # silence between turns
        elif text != self._shown:
            self._shown, self._shown_until = text, end
            self._report(STTInterim(**fields))
        if event == "EagerEndOfTurn" and text:
            self._is_eager = True
            self._report(STTEagerEndOfTurn(text))

    def _resume(self) -> None:
        if self._is_eager:
            self._is_eager = False
            self._report(STTTurnResumed())

    def _end(self, fields: Mapping[str, Any], end: float, *, is_forced: bool) -> None:
        self._tell_settled(end)
        seconds, self._counted = max(0.0, end - self._counted), end
        had_words, self._shown, self._is_eager = bool(self._shown or fields["text"]), "", False
        words = fields["words"]
        self._known_until = max(self._known_until, words[-1].end if words else end)
        if had_words:
            self._report(STTFinal(**fields, audio_seconds=seconds))
        if fields["text"] and not is_forced:
            self._report(STTEndOfTurn())

    def _fields(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of an event with the words of the turn."""
        text, languages = told.get("transcript"), told.get("languages")
        if not isinstance(text, str):
            raise self._failures.malformed("a transcript in TurnInfo", type(text).__name__)
        all_words = words_of(told.get("words"), self._at, self._failures)
        words = tuple(word for word in all_words if (word.start + word.end) / 2 > self._known_until)
        if len(words) < len(all_words):
            text = joined_words(text, words)
        sure = [word.confidence for word in words if word.confidence is not None]
        return {
            "text": text.strip(),
            "words": words,
            "languages": tuple(map(str, languages)) if isinstance(languages, list) and languages else self._languages,
            "confidence": share(sum(sure) / len(sure)) if sure else None,
        }
