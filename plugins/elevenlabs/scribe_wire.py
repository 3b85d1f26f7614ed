"""The stream of the realtime recogniser, sans-I/O: audio and commits out, the service's messages in, events out.

* A commit settles the words so far. Each one is answered twice, the second time with times, and that message is read;
  of a commit without words the first one, since the second one may not come. The partial transcripts behind it have
  only the words behind it.
* A commit of less than 0.3 s of audio would end the session: silence is added to the audio that is too short. So the
  session's clock, from which its times count, is ahead of the stream's, and is put right.
* After a reconnect the service hears some audio twice, and words of that are dropped by their times.

Sources: https://elevenlabs.io/docs/api-reference/speech-to-text/v-1-speech-to-text-realtime; elevenlabs 2.78.0,
`realtime/connection.py`, `types/committed_transcript_with_timestamps_payload.py`; the 0.3 s:
livekit-plugins-elevenlabs 1.8.9, `stt.py`.
"""

from __future__ import annotations

import base64
import json
import logging
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vivavoce.pipelines.core.errors import ProviderProtocolError
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.sockets import Message
from vivavoce.pipelines.net.streams import json_object
from vivavoce.pipelines.stt.base import STTEvent, STTFinal, STTInterim, STTWord

logger = logging.getLogger(__name__)

LEAST_COMMIT = 0.32
"""Seconds of audio before a commit; the service wants 0.3."""

LAG = 0.2
"""Seconds by which the words of a partial transcript are behind the audio that was sent."""

PASSING = ("warning", "commit_throttled")
"""Kinds of messages that tell of something amiss, and end nothing."""

ERRORS = frozenset(
    "error auth_error quota_exceeded unaccepted_terms rate_limited input_error invalid_request queue_overflow "
    "resource_exhausted session_time_limit_exceeded chunk_size_exceeded insufficient_audio_activity "
    "transcriber_error".split()
)
"""Kinds of messages with which the service ends the session (elevenlabs 2.78.0, `realtime/connection.py`)."""


def chunk(pcm: bytes, rate: int, *, commit: bool = False) -> str:
    """Return the message of a piece of audio, behind which words may be settled."""
    data = base64.b64encode(pcm).decode()
    return json.dumps(
        {"message_type": "input_audio_chunk", "audio_base_64": data, "commit": commit, "sample_rate": rate}
    )


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that was sent.

    Args:
        position: Seconds of the stream's audio before it.
        is_wanted: Whether its words are to be reported.
    """

    position: float
    is_wanted: bool


class ScribeWire:
    """One stream's utterances. Positions are seconds of the stream's audio.

    Args:
        language: As asked for; "": the service detects it.
        rate: Hz of the audio.
        silence: Seconds of a pause after which the service commits by itself; None: it does not.
        at, settle, report: As for `MakeWire`.
    """

    def __init__(
        self,
        language: str,
        rate: int,
        *,
        silence: float | None,
        at: Callable[[float], float],
        settle: Callable[[float], None],
        report: Callable[[STTEvent], None],
        failures: Failures,
    ) -> None:
        self._language = language
        self._rate = rate
        self._silence = silence
        self._at = at
        self._tell_settled = settle
        self._report = report
        self._failures = failures
        self.is_started = False
        """Whether the present session has begun."""
        self._heard = 0.0
        """Seconds of the stream's audio in the present session."""
        self._uncommitted = 0.0
        """Seconds of audio in it since the last commit."""
        self._pads: list[tuple[float, float]] = []
        """Session time and length of each silence that was added."""
        self._commits: deque[Commit] = deque()
        """Those without an answer, oldest first."""
        self._waiting: deque[str] = deque()
        """The texts of answers whose times have not come, oldest first."""
        self._is_shown = False
        """Whether words were shown that no final has settled."""
        self._has_final = False
        """Whether the service's own commit has settled words since the last flush."""
        self._known_until = 0.0
        """Words up to there were settled, or are not wanted."""
        self._settled = 0.0
        self._shown_until = 0.0
        self._counted = 0.0

    @property
    def shown_until(self) -> float:
        """The position up to which words were settled or shown."""
        return max(self._settled, self._shown_until)

    def begin(self) -> None:
        """Read the messages of a new connection, which hears unsettled audio again."""
        self.is_started = False
        self._heard = self._uncommitted = 0.0
        self._pads, self._commits, self._waiting = [], deque(), deque()

    # --- out

    def encode(self, item: Message) -> Message:
        """Return the message of a piece of audio, or, of any text, the commit."""
        if isinstance(item, str):
            return self._commit(is_wanted=True)
        seconds = len(item) / BYTES_PER_SAMPLE / self._rate
        self._heard += seconds
        self._uncommitted += seconds
        return chunk(item, self._rate)

    def flush(self, position: float) -> None:
        """Note that the utterance is over at this position; the commit is made by `encode()`."""

    def discard(self, position: float) -> None:
        """Forget the words of the audio up to there."""
        self._commits = deque(Commit(commit.position, False) for commit in self._commits)
        self._is_shown = self._has_final = False
        self._known_until = self._settled = self._counted = position

    def unwanted(self) -> str | None:
        """Return the commit behind which no discarded word is in a transcript; None if there is none."""
        return self._commit(is_wanted=False) if self._uncommitted else None

    def _commit(self, *, is_wanted: bool) -> str:
        pad = max(0.0, LEAST_COMMIT - self._uncommitted)
        if pad:
            self._pads.append((self._heard + sum(length for _, length in self._pads), pad))
        self._commits.append(Commit(self._at(self._heard), is_wanted))
        self._uncommitted = 0.0
        return chunk(bytes(round(pad * self._rate) * BYTES_PER_SAMPLE), self._rate, commit=True)

    # --- in

    def feed(self, message: Message) -> None:
        """Take one frame.

        Raises:
            ProviderError: The service reports an error, and closes.
        """
        try:
            told = json_object(message, self._failures)
            kind = told.get("message_type")
            if kind == "session_started":
                self.is_started = True
            elif kind == "partial_transcript":
                self._take_partial(told)
            elif kind == "committed_transcript":
                self._waiting.append(self._text(told))
                self._take_empty()
            elif kind == "committed_transcript_with_timestamps":
                self._take_timed(told)
        except ProviderProtocolError as error:  # this message is lost, and the next one may be valid
            logger.warning("%s", error)
            return
        text = self._failures.redact(told.get("error") or told.get("warning") or told.get("message"))
        if kind in PASSING:
            logger.warning("elevenlabs: %s: %s", kind, text)
        elif isinstance(kind, str) and kind in ERRORS:
            raise self._failures.in_answer(None if kind == "error" else kind, text)

    def _take_partial(self, told: Mapping[str, Any]) -> None:
        text = self._text(told)
        if text and all(commit.is_wanted for commit in self._commits):
            self._is_shown, self._shown_until = True, max(0.0, self._at(self._heard) - LAG)
            self._report(STTInterim(text=text, language=self._language))

    def _take_empty(self) -> None:
        while self._waiting and not self._waiting[0]:
            self._waiting.popleft()
            self._take_committed("", (), "")

    def _take_timed(self, told: Mapping[str, Any]) -> None:
        text, words, language = self._text(told), self._words(told.get("words")), told.get("language_code")
        if not text:
            return
        if text in self._waiting:
            while (earlier := self._waiting.popleft()) != text:
                self._take_committed(earlier, (), "")
        self._take_committed(text, words, language if isinstance(language, str) else "")
        self._take_empty()

    def _take_committed(self, text: str, words: tuple[STTWord, ...], language: str) -> None:
        commit = self._commits.popleft() if self._commits else None
        wanted = tuple(word for word in words if (word.start + word.end) / 2 > self._known_until)
        if len(wanted) < len(words):
            text = (" " if " " in text else "").join(word.text for word in wanted)
        if commit is not None:
            self._settle(commit.position)
        elif words and self._silence is not None:
            # its times grow by 0.1 s with each such commit: https://github.com/elevenlabs/elevenlabs-python/issues/849
            self._settle(min(words[-1].end, self._at(self._heard) - self._silence))
        if commit is not None and not commit.is_wanted:
            return
        is_answer = commit is not None and not (self._silence is not None and self._has_final)
        self._has_final = commit is None and bool(text)
        if text or is_answer or self._is_shown:
            self._is_shown = False
            self._finish(text, wanted, language)

    def _finish(self, text: str, words: tuple[STTWord, ...], language: str) -> None:
        seconds, self._counted = self._settled - self._counted, self._settled
        scores = [word.confidence for word in words if word.confidence]
        self._report(
            STTFinal(
                text=text,
                words=words,
                language=language or self._language,
                confidence=math.exp(sum(map(math.log, scores)) / len(scores)) if scores else None,
                audio_seconds=max(0.0, seconds),
            )
        )

    def _settle(self, position: float) -> None:
        self._settled = max(self._settled, position)
        self._known_until = max(self._known_until, position)
        self._tell_settled(position)

    def _text(self, told: Mapping[str, Any]) -> str:
        text = told.get("text")
        if not isinstance(text, str):
            raise self._failures.malformed("a text in a transcript", type(text).__name__)
        return text.strip()

    def _words(self, told: object) -> tuple[STTWord, ...]:
        words: list[STTWord] = []
        for one in told if isinstance(told, list) else ():
            fields = one if isinstance(one, dict) else {}
            text, logprob = fields.get("text"), fields.get("logprob")
            if fields.get("type") != "word" or not isinstance(text, str):
                continue
            start = self._position(self._seconds(fields.get("start")))
            words.append(
                STTWord(
                    text=text.strip(),
                    start=start,
                    end=max(start, self._position(self._seconds(fields.get("end")))),
                    confidence=math.exp(min(0.0, logprob)) if isinstance(logprob, int | float) else None,
                )
            )
        return tuple(words)

    def _seconds(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
            raise self._failures.malformed("words with times", type(value).__name__)
        return float(value)

    def _position(self, time: float) -> float:
        """Return the stream's position of a time of the session, which has the added silences in it."""
        added = sum(min(length, time - start) for start, length in self._pads if start < time)
        return max(0.0, self._at(time - added))
