"""UnsettledAudio: the caller's audio whose words are not known yet, with the calls between, for the next recogniser.

A final settles the utterances up to the newest one of which it has the words; all, if it has the words of none. Later
utterances stay if they have an interim, or if no words of them can have been reported: there was no interim since they
began, and the final has no more words than were shown before. A recogniser that reports on each utterance settles the
utterances in their order, including those that are no longer kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher

from vivavoce.pipelines.core.words import words_of
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.kept_audio import KeptAudio
from vivavoce.pipelines.stt.base import STTFinal, STTInterim
from vivavoce.pipelines.stt.passed_on_words import SURE_WORDS, PassedOnWords
from vivavoce.pipelines.stt.recognised import last_words

ALIKE = 0.5
"""Share of shown words above which a final may belong to them."""
SURELY_ALIKE = 0.75
"""Share of words above which an interim belongs to words that were shown before, even if others may have been said
since."""
PRE_ROLL = 1.0
"""Seconds of audio that are kept before the onset of speech, if a VAD reports the onset."""

NOTHING = STTInterim(text="")


@dataclass(slots=True)
class Utterance:
    """Audio between two calls of `flush()`.

    Args:
        begin: The position of its oldest audio.
        end: The position behind its newest audio, once it has ended.
        starts: The positions of the calls of `speech_started()`, with the `ago` of each.
        voiced: Seconds since speech began; 0 without a VAD's report.
        began_at: When speech began.
        spoken_until: When it ended.
        shown: Its newest interim, while no final has settled it.
        carried: The interim with the most words of it by an earlier recogniser.
        ended_at: When it ended, or was heard again; None while it is open.
        is_excused: Whether every recogniser was asked for its words in vain: none owes them any more.
        is_covered: Whether an interim that came since it began belonged to an earlier utterance, and may have its words
            too.
    """

    begin: float = 0.0
    end: float = float("inf")
    starts: list[tuple[float, float]] = field(default_factory=list)
    voiced: float = 0.0
    is_speech: bool = False
    began_at: float = 0.0
    spoken_until: float = 0.0
    shown: STTInterim = NOTHING
    carried: STTInterim = NOTHING
    ended_at: float | None = None
    is_excused: bool = False
    is_covered: bool = False

    def show(self, interim: STTInterim) -> None:
        """Set the interim; if it is only the beginning of words that were shown already, the utterance is being heard
        again."""
        if not self.shown.text.startswith(interim.text):
            self.shown = interim

    @property
    def has_words(self) -> bool:
        """Whether interims came that no final has settled."""
        return bool(self.shown.text or self.carried.text)

    @property
    def most_shown(self) -> STTInterim:
        """The interim with the most words."""
        return max(self.carried, self.shown, key=lambda interim: len(interim.text))

    def carry(self, interim: STTInterim) -> None:
        """Note that an earlier recogniser has shown these words, which may be of this utterance."""
        self.carried = max(self.carried, interim, key=lambda one: len(one.text))

    def forget_words(self) -> None:
        """Note that its interims were of another utterance, or of none."""
        self.shown = self.carried = NOTHING


class UnsettledAudio:
    """Keeps utterances until a final settles them, at most `seconds` of audio."""

    def __init__(self, seconds: float) -> None:
        self._kept: KeptAudio[AudioFrame] = KeptAudio(seconds, self._note_dropped, overlap=0.0)
        self.has_vad = False
        """Whether a VAD reports speech."""
        self.ended: deque[Utterance] = deque()
        """Utterances that have ended, oldest first."""
        self.open = Utterance()
        """The utterance that is being spoken."""
        self._dropped = 0
        self._passed_on = PassedOnWords()
        self._left_off = 0
        """The number of ended utterances that are not kept any more, and on which a recogniser that reports on each has
        yet to report."""

    @property
    def is_quiet(self) -> bool:
        """Whether no words are expected."""
        return not (self.ended or self.open.is_speech or self.open.has_words)

    # --- calls of the pipeline

    @property
    def position(self) -> float:
        """Seconds of audio that were pushed."""
        return self._kept.end

    def push(self, frame: AudioFrame) -> None:
        self._kept.push(frame, frame.duration)
        if self.open.is_speech:
            self.open.voiced += frame.duration
        elif self.has_vad and not (self.open.has_words or self.open.voiced):
            self.open.begin = max(self.open.begin, self._kept.end - PRE_ROLL)
        if (begin := (self.ended[0] if self.ended else self.open).begin) > self._kept.settled:
            self._kept.settle(begin)
        while self.ended and self.ended[0].end <= self._kept.start:
            self.ended.popleft()
            self._left_off += 1

    def speech_started(self, ago: float, now: float) -> None:
        self.has_vad = True
        if not self.open.is_speech:
            self.open.is_speech, self.open.is_covered, self.open.is_excused = True, False, False
            self.open.began_at = now - ago
        self.open.voiced = max(self.open.voiced, ago)
        self.open.starts.append((self._kept.end, ago))

    def speech_ended(self, now: float) -> None:
        """Note that the speech of the open utterance has ended; the utterance goes on."""
        self.open.is_speech, self.open.spoken_until = False, now

    def flush(self, now: float) -> None:
        """End the open utterance."""
        self._passed_on.follow()
        over, self.open = self.open, Utterance(self._kept.end)
        over.ended_at, over.end = now, self._kept.end
        if over.is_speech or over.has_words or not self.has_vad:
            self.ended.append(over)

    def discard(self) -> None:
        """Forget all audio."""
        self.take_recogniser()
        self.ended.clear()
        self.open = Utterance(self._kept.end)
        self._kept.clear()

    def _note_dropped(self) -> None:
        self._dropped += 1

    # --- events of the recogniser

    def are_passed_on(self, text: str, now: float) -> bool:
        """Return whether an interim shows only words that were passed on as a final."""
        return not self.open.is_speech and self._passed_on.are_shown(text, now, has_vad=self.has_vad)

    def interim(self, interim: STTInterim, *, one_each: bool, at_most: int | None = None) -> None:
        """Note words that are about to be settled: of the present utterance, or of one that has ended.

        Args:
            one_each: Whether the recogniser reports one final for each flush, so that the words belong to the oldest
                utterance.
            at_most: As for `final()`.
        """
        self._passed_on.follow()
        text = interim.text
        heard = list(self.ended)[:at_most]
        is_in_speech = at_most is None and self.open.is_speech
        blank = [one for one in heard if not one.shown.text]
        shown = [one for one in heard if one.shown.text]
        best = max(shown, key=lambda one: _likeness(one.shown.text, text), default=None)
        is_chance = is_in_speech and len(words_of(text)) < SURE_WORDS
        is_sure = best is not None and not is_chance and _likeness(best.shown.text, text) >= SURELY_ALIKE
        if best is not None and (is_sure or not (is_in_speech or blank)):
            best.show(interim)  # it is heard again, perhaps by another recogniser
            for one in (*heard, self.open):
                one.is_covered = True
        elif not heard or is_in_speech:
            self.open.shown = interim
        else:
            blank[0 if one_each else -1].shown = interim

    def take_recogniser(self) -> None:
        """Note that another recogniser hears the kept audio, and reports on nothing else."""
        self._left_off = 0
        self._passed_on.forget()
        for one in (*self.ended, self.open):
            one.carry(one.shown)

    def final(self, final: STTFinal, now: float, *, one_each: bool, at_most: int | None = None) -> STTFinal | None:
        """Settle the utterances to which a final belongs; return it with its new words, or None without any.

        For an empty final these are the words that an earlier recogniser has shown.

        Args:
            one_each: Whether the recogniser reports one final for each flush. Others may settle several by one.
            at_most: The number of ended utterances that it has heard; None for all.
        """
        is_left_off = one_each and self._left_off > 0
        if is_left_off:
            self._left_off -= 1
            if not final.text:
                return None
        is_sure = one_each and self.has_vad and not is_left_off
        news = final.text if is_sure else self._passed_on.news(final.text, now, has_vad=self.has_vad)
        if news is None:
            return None
        if not is_left_off:
            if not news:
                return self._settle_oldest(final)
            self._settle_by(news, one_each, at_most)
            for one in (*self.ended, self.open):
                if _share(one.carried.text, news) >= ALIKE:
                    one.carried = NOTHING
        return final if news == final.text else replace(final, text=news, words=last_words(final.words, news))

    def _settle_oldest(self, final: STTFinal) -> STTFinal | None:
        """Settle the oldest utterance, in which the recogniser hears no words.

        If an earlier one has shown some, they may be those of the next utterance.
        """
        if not self.ended and self.open.is_speech and self.open.carried.text:
            return None
        over = self.ended.popleft() if self.ended else self.open
        if over is self.open:
            self._begin_rest()
        after = self.ended[0] if self.ended else self.open
        if self.ended or self.open.is_speech:
            after.carry(over.carried)
        elif over.carried.text:
            return STTFinal(**over.carried.recognised())
        return None if any(one.carried.text for one in (*self.ended, self.open)) else final

    def _settle_by(self, text: str, one_each: bool, at_most: int | None) -> None:
        if not self.ended:
            self._begin_rest()
            return
        of_ended = max((_share(one.shown.text, text) for one in self.ended if one.shown.text), default=0.0)
        if _share(self.open.shown.text, text) >= max(ALIKE, of_ended):
            self.open.forget_words()
        if one_each:
            self.ended.popleft()
            return
        heard = list(self.ended)[:at_most]
        shares = [(_share(one.shown.text, text), at) for at, one in enumerate(heard) if one.shown.text]
        newest = max(((share, at) for share, at in shares if share >= ALIKE), default=(0.0, len(heard)))[1]
        has_more = len(words_of(text)) > sum(len(words_of(one.shown.text)) for one in heard[: newest + 1])
        # Words that were shown behind those of the final are not settled by it.
        behind = [one for one in heard[newest + 1 :] if one.shown.text or not (one.is_covered or has_more)]
        self.ended = deque([*behind, *list(self.ended)[len(heard) :]])

    def _begin_rest(self) -> None:
        """Settle the words of the open utterance so far; if its speech goes on, the rest is another utterance."""
        end = self._kept.end
        self.open = Utterance(end, is_speech=self.open.is_speech, began_at=self.open.began_at)
        if self.open.is_speech:
            self.open.starts.append((end, 0.0))

    def take_shown(self, now: float, *, goes_on: bool) -> list[STTInterim]:
        """Return the interims that were shown and not settled, oldest first, to be passed on; drop their audio.

        Args:
            goes_on: Whether the words of the open utterance are left out.
        """
        shown = [one.most_shown for one in (*self.ended, *([] if goes_on else [self.open])) if one.has_words]
        # An utterance that is heard again may show its words as those of a later one.
        shown = [
            interim
            for at, interim in enumerate(shown)
            if not any(one.text.startswith(interim.text) for one in shown[at + 1 :])
        ]
        before_left_off = len(self.ended)
        self.ended = deque(one for one in self.ended if not one.has_words)
        self._left_off += before_left_off - len(self.ended)
        if self.open.has_words and not goes_on:
            self._begin_rest()
        elif any(_share(self.open.shown.text, one.text) >= SURELY_ALIKE for one in shown):
            self.open.forget_words()
        for one in shown:
            self._passed_on.add(one.text, now)
        return shown

    def settle(self, number: int) -> int:
        """Drop the `number` oldest utterances, which have no words; return the number dropped."""
        number = min(number, len(self.ended))
        for _ in range(number):
            self.ended.popleft()
        return number

    def forget_noise(self, now: float, number: int | None) -> None:
        """Drop the `number` oldest utterances, in which no recogniser hears words; None drops all, and counts the open
        one so far as noise."""
        self._left_off += self.settle(len(self.ended) if number is None else number)
        if number is None:
            self.open.began_at, self.open.voiced = now, 0.0
        if not self.open.is_speech:
            self.open.forget_words()

    def excuse(self, now: float) -> None:
        """Note that no recogniser owes words of these utterances any more; the next one hears them all the same."""
        for one in (*self.ended, self.open):
            one.is_excused = True
        self.open.began_at = now

    # --- the next recogniser

    def replay(
        self,
        push: Callable[[AudioFrame, float], None],
        speech_started: Callable[[float], None],
        flush: Callable[[], None],
        *,
        begin: int = 0,
        end: int | None = None,
    ) -> None:
        """Make the kept calls again, in their order: the calls of the utterances from `begin` on, up to `end`.

        Args:
            push: Receives a frame and the position of its end, in seconds of the stream.
        """
        pieces = self._kept.pieces()
        for one in [*self.ended, self.open][begin:end]:
            starts = deque(one.starts)
            for piece in pieces:
                if one.begin <= piece.start < one.end:
                    while starts and starts[0][0] <= piece.start:
                        at, ago = starts.popleft()
                        speech_started(ago if at >= pieces[0].start else 0.0)
                    push(piece.item, piece.end)
            for _, ago in starts:
                speech_started(ago)
            if one.ended_at is not None:
                flush()

    def take_dropped(self) -> int:
        """Return the number of frames beyond the limit, which the next recogniser does not hear, and reset it."""
        dropped, self._dropped = self._dropped, 0
        return dropped


def _share(shown: str, text: str) -> float:
    """Return the share of the shown words that are in `text`, in their order; 1.0 if no word was shown."""
    words = words_of(shown)
    match = SequenceMatcher(None, words, words_of(text), autojunk=False)
    return sum(block.size for block in match.get_matching_blocks()) / len(words) if words else 1.0


def _likeness(one: str, other: str) -> float:
    return max(_share(one, other), _share(other, one))
