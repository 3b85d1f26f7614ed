"""UnsettledAudio: the caller's audio whose words are not known yet, with the calls between, for the next recogniser."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from vivavoce.pipelines.media.frame import AudioFrame

PRE_ROLL = 1.0
"""Seconds of audio before the onset of speech that are kept, where a VAD reports the onset."""


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
        began_at: When speech began.
        shown: Words of its newest interim, while no final has settled them.
        ended_at: When it ended, or was heard again; None while it is open.
        is_excused: Whether every recogniser was asked for its words in vain, so that none owes them any more.
    """

    items: deque[AudioFrame | SpeechStarted] = field(default_factory=deque)
    seconds: float = 0.0
    voiced: float = 0.0
    is_speech: bool = False
    began_at: float = 0.0
    shown: str = ""
    ended_at: float | None = None
    is_excused: bool = False

    @property
    def has_words(self) -> bool:
        """Whether interims came that no final has settled."""
        return bool(self.shown)


class UnsettledAudio:
    """Keeps utterances until a final settles them, at most `seconds` of audio."""

    def __init__(self, seconds: float) -> None:
        self._limit = seconds
        self.has_vad = False
        """Whether a VAD reports speech."""
        self.ended: deque[Utterance] = deque()
        """Utterances that have ended, oldest first."""
        self.open = Utterance()
        """The present one."""
        self._dropped = 0

    @property
    def is_quiet(self) -> bool:
        """Whether no words are known to be on their way."""
        return not (self.ended or self.open.is_speech or self.open.has_words)

    # --- calls of the pipeline

    def push(self, frame: AudioFrame) -> None:
        """Keep a frame."""
        utterance = self.open
        seconds = frame.duration
        utterance.items.append(frame)
        utterance.seconds += seconds
        if utterance.is_speech:
            utterance.voiced += seconds
        elif self.has_vad and not utterance.has_words:
            if utterance.seconds > PRE_ROLL:
                _trim(utterance, PRE_ROLL)
            return
        if utterance.seconds > self._limit:
            before = len(utterance.items)
            _trim(utterance, self._limit)
            self._dropped += before - len(utterance.items)

    def speech_started(self, ago: float, now: float) -> None:
        """Note the onset of speech."""
        self.has_vad = True
        if not self.open.is_speech:
            self.open.is_speech = True
            self.open.began_at = now - ago
        self.open.voiced = max(self.open.voiced, ago)
        self.open.items.append(SpeechStarted(ago))

    def flush(self, now: float) -> None:
        """End the open utterance."""
        over, self.open = self.open, Utterance()
        over.ended_at = now
        if over.is_speech or over.has_words or not self.has_vad:
            self.ended.append(over)
        while sum(one.seconds for one in self.ended) > self._limit:
            self._dropped += len(self.ended.popleft().items)

    def discard(self) -> None:
        """Forget all of it."""
        self.ended.clear()
        self.open = Utterance()

    # --- events of the recogniser

    def interim(self, text: str, overdue: float, *, one_each: bool, at_most: int | None = None) -> None:
        """These words are on their way: of the utterance that is spoken, else of one that has ended.

        Args:
            one_each: Whether the recogniser reports one final for each flush, so that these are of the oldest one.
            at_most: As for `final()`.
            overdue: Sounds that ended before then were noise, since a recogniser that hears words reported nothing of
                them; one that reports on each has yet to do so.
        """
        heard = list(self.ended)[:at_most]
        if not heard or (at_most is None and self.open.is_speech):
            if not one_each:
                self.ended = deque(one for one in self.ended if one.has_words or (one.ended_at or 0.0) > overdue)
            self.open.shown = text
        else:
            heard[0 if one_each else -1].shown = text

    def final(self, *, has_text: bool, one_each: bool, at_most: int | None = None) -> None:
        """A final settles the utterances to which it belongs.

        Args:
            one_each: Whether the recogniser reports one final for each flush. Others may settle several by one.
            at_most: The number of ended utterances that it has heard; None: all.
        """
        if not self.ended:
            self._begin_rest()
            return
        self.open.shown = ""
        if one_each or not has_text:
            self.ended.popleft()
        else:
            self.settle(len(self.ended) if at_most is None else at_most)

    def _begin_rest(self) -> None:
        """The words of the open utterance so far are known; if its speech goes on, the rest is another utterance."""
        self.open = Utterance(is_speech=self.open.is_speech, began_at=self.open.began_at)
        if self.open.is_speech:
            self.open.items.append(SpeechStarted(0.0))

    def take_shown(self, before: str, *, goes_on: bool) -> list[str]:
        """Return the words that were shown and not settled, oldest first; their audio is kept no more.

        Args:
            before: Words that an earlier recogniser has shown of this audio, perhaps more of them.
            goes_on: Whether those of the open utterance are left.
        """
        shown = [one.shown for one in (*self.ended, *([] if goes_on else [self.open])) if one.shown]
        if before and before not in shown:
            shown[-1:] = [max([*shown[-1:], before], key=len)]
        # An utterance that is heard again may show its words as those of a later one.
        shown = [text for at, text in enumerate(shown) if not any(one.startswith(text) for one in shown[at + 1 :])]
        self.ended = deque(one for one in self.ended if not one.shown)
        if self.open.shown and not goes_on:
            self._begin_rest()
        return shown

    def settle(self, number: int) -> None:
        """The oldest ones, so many, hold no words."""
        for _ in range(min(number, len(self.ended))):
            self.ended.popleft()

    def forget_noise(self, now: float, number: int | None) -> None:
        """No recogniser hears words in the oldest utterances, so many; None: in all, nor so far in the open one."""
        self.settle(len(self.ended) if number is None else number)
        if number is None:
            self.open.began_at, self.open.voiced = now, 0.0
        if not self.open.is_speech:
            self.open.shown = ""

    def excuse(self, now: float) -> None:
        """No recogniser owes words of these utterances any more; the next one hears them all the same."""
        for one in self.ended:
            one.is_excused = True
        self.open.began_at = now

    # --- the next recogniser

    def replay(
        self,
        push: Callable[[AudioFrame], None],
        speech_started: Callable[[float], None],
        flush: Callable[[], None],
        *,
        begin: int = 0,
        end: int | None = None,
    ) -> None:
        """Make the kept calls again, in their order: those of the utterances from `begin` on, up to `end`."""
        for utterance in [*self.ended, self.open][begin:end]:
            for item in list(utterance.items):
                if isinstance(item, SpeechStarted):
                    speech_started(item.ago)
                else:
                    push(item)
            if utterance.ended_at is not None:
                flush()

    def take_dropped(self) -> int:
        """Return the number of frames beyond the limit, which the next recogniser does not hear, and count anew."""
        dropped, self._dropped = self._dropped, 0
        return dropped


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
