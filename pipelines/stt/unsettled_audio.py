"""UnsettledAudio: the caller's audio whose words are not known yet, with the calls between, for the next recogniser."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from vivavoce.pipelines.media.frame import AudioFrame

PRE_ROLL = 1.0
"""Seconds of audio before the onset of speech that are kept, where a VAD reports the onset."""
CLEAR_SPEECH = 1.0
"""Seconds of speech, by the VAD, in which a recogniser should hear words."""


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """`speech_started(ago)` was called."""

    ago: float


@dataclass(slots=True)
class Utterance:
    """Audio between two calls of `flush()`.

    Args:
        items: Frames, and calls of `speech_started()` between them.
        voiced: Seconds since speech began; 0 without a VAD's report.
        has_words: Whether interims came that no final has settled.
        flushed_at: When it ended; None while it is open.
    """

    items: deque[AudioFrame | SpeechStarted] = field(default_factory=deque)
    seconds: float = 0.0
    voiced: float = 0.0
    is_speech: bool = False
    has_words: bool = False
    flushed_at: float | None = None

    @property
    def is_owed(self) -> bool:
        """Whether a recogniser should report words of it."""
        return self.has_words or self.voiced >= CLEAR_SPEECH


class UnsettledAudio:
    """Keeps utterances until a final settles them, at most `seconds` of audio.

    Args:
        needs_flush: Whether the recognisers report one final for each flush. Others may settle several utterances by
            one final.
    """

    def __init__(self, seconds: float, *, needs_flush: bool) -> None:
        self._limit = seconds
        self._needs_flush = needs_flush
        self._has_vad = False
        self._closed: deque[Utterance] = deque()
        self._open = Utterance()
        self._dropped = 0

    @property
    def is_quiet(self) -> bool:
        """Whether no words are known to be on their way."""
        return not (self._closed or self._open.is_speech or self._open.has_words)

    @property
    def has_audio(self) -> bool:
        """Whether the words of an interim can be heard again."""
        return self._open.seconds > 0 or any(one.seconds > 0 for one in self._closed)

    @property
    def oldest_owed(self) -> Utterance | None:
        """The oldest utterance that has ended and whose words are owed."""
        return next((one for one in self._closed if one.is_owed), None)

    # --- calls of the pipeline

    def push(self, frame: AudioFrame) -> None:
        """Keep a frame."""
        utterance = self._open
        utterance.items.append(frame)
        utterance.seconds += frame.duration
        if utterance.is_speech:
            utterance.voiced += frame.duration
        if self._has_vad and not utterance.is_speech and not utterance.has_words:
            self._trim(utterance, PRE_ROLL)
        elif utterance.seconds > self._limit:
            before = len(utterance.items)
            self._trim(utterance, self._limit)
            self._dropped += before - len(utterance.items)

    def speech_started(self, ago: float) -> None:
        """Note the onset of speech."""
        self._has_vad = True
        self._open.is_speech = True
        self._open.voiced = max(self._open.voiced, ago)
        self._open.items.append(SpeechStarted(ago))

    def flush(self, now: float) -> Utterance:
        """End the open utterance, and return it."""
        ended, self._open = self._open, Utterance()
        ended.flushed_at = now
        if ended.is_speech or ended.has_words or not self._has_vad:
            self._closed.append(ended)
        while sum(one.seconds for one in self._closed) > self._limit:
            self._dropped += len(self._closed.popleft().items)
        return ended

    def discard(self) -> None:
        """Forget all of it."""
        self._closed.clear()
        self._open = Utterance()

    # --- events of the recogniser

    def interim(self) -> None:
        """Words are on their way."""
        if self._open.is_speech or not self._closed:
            self._closed = deque(one for one in self._closed if one.is_owed)
            self._open.has_words = True
        else:
            self._closed[0].has_words = True

    def final(self, *, has_text: bool) -> None:
        """A final settles the utterances to which it belongs."""
        if not self._closed:
            self._settle_open()
        elif not self._needs_flush:
            self._closed.clear()
        else:
            first_owed = next((number for number, one in enumerate(self._closed) if one.is_owed), 0)
            for _ in range(first_owed + 1 if has_text else 1):
                self._closed.popleft()

    def _settle_open(self) -> None:
        is_speech = self._open.is_speech
        self._open = Utterance(is_speech=is_speech)
        if is_speech:  # it goes on, as another utterance
            self._open.items.append(SpeechStarted(0.0))

    def forget_ended(self) -> None:
        """No recogniser hears words in the utterances that have ended."""
        self._closed.clear()

    # --- the next recogniser

    def replay(
        self, push: Callable[[AudioFrame], None], speech_started: Callable[[float], None], flush: Callable[[], None]
    ) -> None:
        """Make the kept calls again, in their order."""
        for utterance in [*self._closed, self._open]:
            utterance.has_words = False
            for item in list(utterance.items):
                if isinstance(item, SpeechStarted):
                    speech_started(item.ago)
                else:
                    push(item)
            if utterance.flushed_at is not None:
                flush()

    def take_dropped(self) -> int:
        """Return the number of frames beyond the limit, which the next recogniser does not hear, and count anew."""
        dropped, self._dropped = self._dropped, 0
        return dropped

    def restart(self, now: float) -> None:
        """The utterances that have ended are heard again from `now` on."""
        for utterance in self._closed:
            utterance.flushed_at = now

    @staticmethod
    def _trim(utterance: Utterance, seconds: float) -> None:
        while utterance.seconds > seconds + 1e-9 and len(utterance.items) > 1:
            item = utterance.items.popleft()
            if isinstance(item, AudioFrame):
                utterance.seconds -= item.duration
            elif isinstance(utterance.items[0], AudioFrame):  # its speech goes on
                frame = utterance.items.popleft()
                assert isinstance(frame, AudioFrame)
                utterance.seconds -= frame.duration
                utterance.items.appendleft(SpeechStarted(0.0))
