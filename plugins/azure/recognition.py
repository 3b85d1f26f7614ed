"""Recognition: one stream's phrases, sans-I/O: the service's messages in, the port's events out.

* `speech.hypothesis` is the open phrase so far, and has no words with times. `speech.phrase` settles it: the display
  text has punctuation and digits, the words with times are the spoken ones. Each piece of the text gets the times of
  its words.
* Times count from the turn's beginning; `at()` makes them the stream's. After a reconnect the service hears some audio
  twice, and words of that are dropped.

Sources: azure-cognitiveservices-speech 1.53.0, captured on loopback; npm microsoft-cognitiveservices-speech-sdk 1.52.0,
`common.speech/ServiceMessages` and `EnumTranslation.js`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from vivavoce.pipelines.core.errors import ProviderProtocolError
from vivavoce.pipelines.core.words import letters_of
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.stt.base import STTEvent, STTFinal, STTInterim, STTWord
from vivavoce.plugins.azure.wire import Frame, ticks_of

logger = logging.getLogger(__name__)

STATUSES = {"Error": 500, "TooManyRequests": 429, "BadRequest": 400, "Forbidden": 403}
"""Of a phrase that is an error, in place of words."""


class Recognition:
    """One stream's phrases.

    Args:
        languages: As asked for; the service tells which one it hears if there are several.
        at: Returns the stream's position of a time of the present turn.
        settle: Called with the position up to which all words are known.
        report: Called with each event.
    """

    def __init__(
        self,
        languages: tuple[str, ...],
        *,
        at: Callable[[float], float],
        settle: Callable[[float], None],
        report: Callable[[STTEvent], None],
    ) -> None:
        self._languages = languages if len(languages) == 1 else ()
        self._at = at
        self._tell_settled = settle
        self._report = report
        self._is_shown = False
        """Whether words were shown that no final has settled."""
        self._has_final = False
        """Whether the open utterance has had a final with words."""
        self._owes_final = False
        """Whether an utterance was flushed of which there was no final."""
        self._known_until = 0.0
        """Words up to there were heard by an earlier connection, or are not wanted."""
        self._last_word_end = 0.0
        self._shown_until = 0.0
        self._settled = 0.0
        self._counted = 0.0

    @property
    def shown_until(self) -> float:
        """The position up to which words were settled or shown."""
        return max(self._settled, self._shown_until)

    def begin(self) -> None:
        """Read the messages of a new connection, which hears unsettled audio again."""
        self._known_until = max(self._known_until, self._last_word_end)

    def discard(self, position: float) -> None:
        """Forget the words of the audio up to there."""
        self._is_shown = self._has_final = self._owes_final = False
        self._known_until = self._settled = self._counted = position

    def flush(self) -> None:
        """Note that the utterance is over."""
        self._owes_final, self._has_final = not self._has_final, False

    def finish(self, position: float) -> None:
        """Note that all words up to there have come: the turn of a flush is over.

        An utterance without a final gets an empty one.
        """
        self._settle(position)
        if self._is_shown or self._owes_final:
            self._finish("", ())
        self._has_final = self._owes_final = False

    def take(self, frame: Frame, failures: Failures) -> None:
        """Take one frame.

        Raises:
            ProviderError: The service reports an error in place of words.
        """
        try:
            if frame.path == "speech.hypothesis":
                self._take_hypothesis(frame.fields(failures), failures)
            elif frame.path == "speech.phrase":
                self._take_phrase(frame.fields(failures), failures)
        except ProviderProtocolError as error:  # this message is lost, and the next one may be valid
            logger.warning("%s", error)

    def _take_hypothesis(self, told: Mapping[str, Any], failures: Failures) -> None:
        start, end = self._span(told, failures)
        text = told.get("Text")
        if not isinstance(text, str):
            raise failures.malformed("a text in speech.hypothesis", type(text).__name__)
        if start < self._known_until and end > start:  # it has no times of words
            words = text.split()
            text = " ".join(words[round(len(words) * (self._known_until - start) / (end - start)) :])
        if text.strip() and end >= self._known_until:
            self._is_shown, self._shown_until = True, end
            self._report(STTInterim(text=text.strip(), speaker=_speaker(told), languages=self._heard(told)))

    def _take_phrase(self, told: Mapping[str, Any], failures: Failures) -> None:
        status = told.get("RecognitionStatus")
        if isinstance(status, str) and status in STATUSES:
            raise failures.in_answer(STATUSES[status], f"RecognitionStatus {status}")
        _, end = self._span(told, failures)
        rows = told.get("NBest")
        best = rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], dict) else {}
        text = told.get("DisplayText") or best.get("Display") or ""
        if status != "Success" or not isinstance(text, str):
            text = ""
        words = self._words(text, best.get("Words"), failures, _speaker(told)) if text else ()
        kept = tuple(word for word in words if (word.start + word.end) / 2 > self._known_until)
        if len(kept) < len(words):
            text = (" " if " " in text else "").join(word.text for word in kept)
        if text and not words and end <= self._known_until:
            text = ""
        if kept or text:
            self._last_word_end = kept[-1].end if kept else end
        self._settle(end)
        if text.strip():
            self._has_final, self._owes_final = True, False
            confidence = best.get("Confidence")
            is_number = isinstance(confidence, int | float) and not isinstance(confidence, bool)
            self._finish(
                text.strip(),
                kept,
                speaker=_speaker(told),
                languages=self._heard(told),
                confidence=_share(confidence) if is_number else None,
            )
        elif self._is_shown and end >= self._shown_until:
            self._finish("", ())

    def _finish(self, text: str, words: tuple[STTWord, ...], **known: Any) -> None:
        seconds, self._counted = self._settled - self._counted, self._settled
        self._is_shown = False
        self._report(STTFinal(text=text, words=words, audio_seconds=max(0.0, seconds), **known))

    def _settle(self, end: float) -> None:
        self._settled = max(self._settled, end)
        self._tell_settled(end)

    def _span(self, told: Mapping[str, Any], failures: Failures) -> tuple[float, float]:
        start = ticks_of(told, "Offset", failures)
        return self._at(start), self._at(start + ticks_of(told, "Duration", failures))

    def _heard(self, told: Mapping[str, Any]) -> tuple[str, ...]:
        primary = told.get("PrimaryLanguage")
        language = primary.get("Language") if isinstance(primary, dict) else None
        return (language,) if isinstance(language, str) and language else self._languages

    def _words(self, text: str, rows: object, failures: Failures, speaker: str) -> tuple[STTWord, ...]:
        spoken: list[STTWord] = []
        for row in rows if isinstance(rows, list) else ():
            word = row if isinstance(row, dict) else {}
            name, sure = word.get("Word"), word.get("Confidence")
            if not isinstance(name, str):
                raise failures.malformed("a text for each word", type(name).__name__)
            start, end = self._span(word, failures)
            is_number = isinstance(sure, int | float) and not isinstance(sure, bool)
            confidence = _share(sure) if is_number else None
            start = max(0.0, start)
            spoken.append(STTWord(text=name, start=start, end=max(start, end), confidence=confidence, speaker=speaker))
        return shown_words(text, spoken)


def shown_words(text: str, spoken: Sequence[STTWord]) -> tuple[STTWord, ...]:
    """Return the pieces of a display text as words, with the times of the spoken words that they stand for.

    A language without spaces keeps its spoken words. Pieces in another form, such as digits, share the time of the
    words in whose place they stand.
    """
    pieces = text.split()
    if not spoken or letters_of(text) == letters_of("".join(word.text for word in spoken)) and len(pieces) == 1:
        return tuple(spoken)
    before, after = [letters_of(word.text) for word in spoken], [letters_of(piece) for piece in pieces]
    words: list[STTWord] = []
    for _, first, last, begin, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        place = spoken[first:last]
        last_end = words[-1].end if words else spoken[0].start
        start, stop = (place[0].start, place[-1].end) if place else (last_end, last_end)
        count = end - begin
        known = [word.confidence for word in place if word.confidence is not None]
        for number, piece in enumerate(pieces[begin:end]):
            same = place[number] if len(place) == count else None
            words.append(
                STTWord(
                    text=piece,
                    start=same.start if same else start + (stop - start) * number / count,
                    end=same.end if same else start + (stop - start) * (number + 1) / count,
                    confidence=same.confidence if same else min(known, default=None),
                    speaker=spoken[0].speaker,
                )
            )
    return tuple(words)


def _speaker(told: Mapping[str, Any]) -> str:
    speaker = told.get("SpeakerId")
    return speaker if isinstance(speaker, str) and speaker != "Unknown" else ""


def _share(value: Any) -> float:
    return min(1.0, max(0.0, float(value)))
