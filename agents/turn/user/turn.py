"""UserTurn: the user's open turn, from its first sound or word to its end."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field, replace

from vivavoce.agents.turn.deadlines import NANOSECOND_DIGITS
from vivavoce.agents.turn.effects import EndedBy, TurnTiming
from vivavoce.agents.turn.user.burst import Burst
from vivavoce.agents.turn.user.owed_finals import OwedFinals, lacks_words
from vivavoce.pipelines.core.words import after_common_words, words_of

LONG_PAUSE = 1.5
"""Seconds of silence after which a caller who continues without an answer can only a few times continue the turn
before.
"""


@dataclass(frozen=True, slots=True)
class Over:
    """The end of a turn by something other than a pause.

    Args:
        leaves_audio: Whether there were words, so that the recogniser has not been asked yet to settle its audio.
    """

    at: float
    by: EndedBy = "request"
    leaves_audio: bool = False


@dataclass(frozen=True, slots=True)
class Past:
    """The part of an open turn that comes from committed turns, or from a recogniser that was replaced.

    Args:
        late_merges: The number of merges after a long pause (`guard`).
        amends: The turn whose message, amended by a late final, is answered again as this turn; "" for none.
        amended: The number of its first segments that settle a committed guess; they are not taken back.
        segments: The number of its first segments that come from a replaced recogniser.
        shown_at: The index of the segment that this recogniser has only shown, and may still settle; None for none.
        left_at: When it was replaced; None if none was.
    """

    late_merges: int = 0
    amends: str = ""
    amended: int = 0
    segments: int = 0
    shown_at: int | None = None
    left_at: float | None = None


@dataclass(frozen=True, slots=True)
class ClosedTurn:
    """The facts of a turn that is over, for its answer; a turn that goes on takes them back.

    Args:
        began_at: The time of its first sound or word.
        onset: The true onset of its speech; None if the user did not speak.
        ended_at: The time at which the user ended it.
        late_merges: The number of merges after a long pause.
    """

    turn_id: str
    text: str = field(repr=False)
    began_at: float
    onset: float | None
    ended_at: float
    late_merges: int


@dataclass(slots=True)
class UserTurn:
    """The user's open turn. Times are the session clock's; None for events that have not happened.

    Args:
        burst: The newest speech of it; None without a VAD.
        committed: Words of this turn that were committed already, and those of them that come behind the present
            words, where these take the place of a guess.
        is_merged: Whether it was committed before and goes on.
        past: The part that comes from committed turns.
        segments: Final transcripts since.
        hushed: The number of segments that were said when no voice took the floor (`guard`).
        interim: The recogniser's guess at the last utterance, while no final settles it.
        interim_item_id: The provider's name of that utterance.
        typed: Text that was typed while the turn was open.
        is_interim_stable: Whether the interim has been unchanged for long enough to count as words.
        is_judged_over: The recogniser's judgement on the words so far: True for an eager end, False if it was taken
            back, None for none.
        word_at: The time of its last word, or of the event that opened it.
        utterance_at: The time of the first word of its newest utterance; without a VAD, the utterance's onset.
        owed: The final transcripts that are still to come.
        over: The end by a request, by typed words or by a limit; None without one.
        onset: The true onset of its first speech; without a VAD, the time of its first words. None without both.
        waits_for_request: Whether no pause ends it: it began with endpointing mode `manual`, which still holds.
        began_at: The time of its first sound or word.
        rest_ended_at: The end of the rest of a burst with which it began; None if it began with its own burst.
        is_closed: Whether it was committed, so that it does not change any more.
        since: `began_at` and `utterance_at`, where they are not `word_at`.
    """

    turn_id: str
    word_at: float
    burst: Burst | None = None
    committed: tuple[str, str] = field(default=("", ""), repr=False)
    is_merged: bool = False
    past: Past = field(default_factory=Past)
    segments: list[str] = field(default_factory=list, repr=False)
    hushed: int = 0
    interim: str = field(default="", repr=False)
    interim_item_id: str = ""
    typed: str = field(default="", repr=False)
    interim_since: float = 0.0
    is_interim_stable: bool = False
    is_judged_over: bool | None = None
    owed: OwedFinals = field(default_factory=OwedFinals)
    final_at: float | None = None
    is_complete: bool | None = None
    predicted_at: float | None = None
    over: Over | None = None
    onset: float | None = None
    waits_for_request: bool = False
    rest_ended_at: float | None = None
    began_at: float = field(init=False)
    utterance_at: float = field(init=False)
    is_closed: bool = False
    since: InitVar[float | None] = None

    def __post_init__(self, since: float | None) -> None:
        self.began_at = self.utterance_at = self.word_at if since is None else since

    @property
    def owes_final(self) -> bool:
        """Whether a final transcript of the newest speech is still to come."""
        return self.owed.bursts > 0

    @property
    def owed_before(self) -> bool:
        """Whether a final transcript of earlier speech is still to come too."""
        return self.owed.bursts > 1

    @property
    def is_over_by_word(self) -> bool:
        """Whether the application has ended the turn, or words were typed; then the voice does not matter."""
        return self.over is not None and self.over.by in ("request", "text")

    @property
    def has_words(self) -> bool:
        """Whether there are words to answer, settled or not, or the turn was committed before.

        A remote model's turn may be committed without words, so that `text` is empty.
        """
        return bool(self.segments or self.interim or self.typed or self.is_merged or self.is_heard or self.past.amends)

    @property
    def settled_text(self) -> str:
        """The new words of finals that may take the floor."""
        return join(*self.segments[self.hushed :])

    @property
    def firm_text(self) -> str:
        """The new words that may take the floor: finals, and an interim once it is stable."""
        return join(self.settled_text, self.interim if self.is_interim_stable else "")

    @property
    def loud_text(self) -> str:
        """The new words that were said when a voice could take the floor, an unsettled interim included."""
        return join(*self.segments[self.hushed :], self.interim, self.typed)

    @property
    def new_text(self) -> str:
        """The words since the last commit; an unsettled interim comes last."""
        return join(*self.segments, self.interim, self.typed)

    @property
    def text(self) -> str:
        """All words of the turn."""
        before, behind = self.committed
        return join(before, *self.segments, self.interim, behind, self.typed)

    @property
    def is_speech_going_on(self) -> bool:
        """Whether its newest burst has not ended."""
        return self.burst is not None and self.burst.is_going_on

    @property
    def settles_audio(self) -> bool:
        """Whether the end of the turn is also the end of the audio that the recogniser has heard."""
        if self.is_speech_going_on:
            return self.over is not None and self.over.leaves_audio
        return bool(self.burst or self.segments or self.interim)

    @property
    def is_heard(self) -> bool:
        """Whether the model has heard the audio of the turn, so that it needs no words."""
        return self.burst is not None and self.burst.is_heard

    @property
    def lasts_since(self) -> float:
        """The time from which the duration of the turn counts."""
        return self.began_at if self.rest_ended_at is None else self.rest_ended_at

    @property
    def has_open_audio(self) -> bool:
        """Whether a burst of the turn is not committed yet."""
        return self.burst is not None and not self.burst.is_settled

    # --- its sound

    def hear(self, now: float) -> None:
        """Note that the model has heard the whole turn."""
        self.burst = self.burst or Burst(now, now, now)
        self.burst.hear()

    def hear_rest(self, burst: Burst, at: float) -> None:
        """Begin with the rest of a burst, which ended at `at` and which the model has heard."""
        assert self.burst is None
        self.burst = burst
        burst.hear()
        self.rest_ended_at = at

    def begin_speech(self, burst: Burst) -> None:
        """Go on with a new burst of speech; a verdict on the pause before it does not count any more."""
        if self.is_heard:
            burst.hear()
        self.burst = burst
        self.onset = burst.onset if self.onset is None else self.onset
        self.owed.burst_began(is_shown=self.is_shown(burst))
        self.is_complete = self.predicted_at = self.is_judged_over = None

    def join_ended(self, burst: Burst) -> None:
        """Assign the first words to a burst that has ended: the pause counts from its end."""
        assert self.burst is None
        assert not burst.is_going_on
        self.burst = burst

    def begin_by_words(self, now: float) -> None:
        """Take the time of the first words as the onset."""
        assert self.onset is None
        self.onset = now

    def is_shown(self, burst: Burst) -> bool:
        """Return whether that burst began before the first interim of the present words; the VAD reports later."""
        return bool(self.interim) and burst.started_at <= self.utterance_at

    # --- its words

    def is_shown_since(self, since: float) -> bool:
        """Return whether its newest word came after that time, from a recogniser that was not replaced."""
        left_at = self.past.left_at
        return self.has_words and self.word_at > since and (left_at is None or self.word_at > left_at)

    def add_interim(self, text: str, now: float, item_id: str) -> None:
        """Replace the interim by a newer one."""
        assert not self.is_closed
        self.interim_item_id = item_id
        if text == self.interim:
            return
        if not self.interim:
            self.utterance_at = now
        self.interim, self.interim_since, self.is_interim_stable = text, now, False
        self.is_judged_over = None
        self.word_at = now
        self.owed.words_shown()

    def add_final(self, text: str, now: float, item_id: str = "") -> None:
        """Settle the utterance, or an earlier one, by a final; an empty final discards the interims."""
        assert not self.is_closed
        if not self.interim:
            self.utterance_at = now
        has_all = not self._lacks(text, item_id)
        has_more = has_all and bool(self.interim) and len(words_of(text)) > len(words_of(self.interim))
        self.interim = "" if has_all else self._left_by(text, item_id)
        self.final_at = now
        self.is_complete = self.predicted_at = self.is_judged_over = None
        self.owed.final_came(
            is_in_speech=self.is_speech_going_on,
            has_all=has_all,
            has_more=has_more,
            leaves_rest=self.burst is not None and not self.burst.emits_interims,
        )
        if text:
            self.word_at = now
            self.segments.append(text)

    def add_typed(self, text: str, now: float, *, is_over_noise: bool = False) -> None:
        """Add typed text; it ends the turn, unless the user still speaks.

        Args:
            is_over_noise: Whether no word of the present sound has been shown.
        """
        assert not self.is_closed
        self.typed = f"{self.typed} {text}".strip()
        self.word_at = now
        if is_over_noise or not self.is_speech_going_on:
            self.end(now, "text")

    def trust_interim(self) -> None:
        """Count the interim as words, since it has been unchanged for long enough."""
        assert self.interim
        self.is_interim_stable = True

    def hush(self) -> None:
        """Let none of the words so far take the floor."""
        self.hushed = len(self.segments)

    def unhush(self) -> None:
        """Let all words take the floor."""
        self.hushed = 0

    def leave_words(self, now: float) -> None:
        """Keep the words that a replaced recogniser has shown, until a past final settles them.

        Only speech that goes on is still owed a final.
        """
        shown_at = len(self.segments) if self.interim else None
        if self.interim:
            self.segments.append(self.interim)
            self.interim = ""
        self.past = replace(self.past, segments=len(self.segments), shown_at=shown_at, left_at=now)
        self.owed.leave(is_in_speech=self.is_speech_going_on)

    def add_past_final(self, text: str) -> None:
        """Settle words of a replaced recogniser, before those of its successor, which owes its own finals."""
        assert not self.is_closed
        if self.past.shown_at is not None:
            self.segments[self.past.shown_at] = text
            self.past = replace(self.past, shown_at=None)
            return
        place = max(self.hushed, self.past.amended, self.past.segments)
        self.segments.insert(place, text)
        self.past = replace(self.past, segments=place + 1)

    def amend(self, words: tuple[str, str]) -> None:
        """Correct the committed words by a late final: those before the present words, and those behind them."""
        assert not self.is_closed
        self.committed = words

    def without_news(self) -> UserTurn:
        """Return the turn as it was committed, without the words that came since."""
        assert self.is_merged
        return UserTurn(
            self.turn_id,
            self.word_at,
            burst=self.burst,
            committed=self.committed,
            is_merged=True,
            segments=self.segments[: self.past.amended],
            past=Past(amended=self.past.amended),
            onset=self.onset,
        )

    def _lacks(self, final: str, item_id: str) -> bool:
        """Return whether the interim belongs to a later utterance than that final."""
        if not (final and self.interim):
            return False
        if item_id and self.interim_item_id:
            return item_id != self.interim_item_id
        is_of_newest = self.burst is not None and self.interim_since >= self.burst.started_at
        if not (is_of_newest and lacks_words(final, self.interim)):
            return False
        return self.owed.bursts > 1 or (self.is_speech_going_on and continues(self.interim, final))

    def _left_by(self, final: str, item_id: str) -> str:
        """Return the words of the interim that are still open after that final."""
        if item_id and self.interim_item_id:
            return self.interim
        return after_common_words(self.interim, final)[1] if continues(self.interim, final) else self.interim

    def end_speech(self, at: float) -> None:
        """Note that the newest burst ended at `at`; a final that came before the report may belong to it too."""
        if self.final_at is None:
            return
        is_left = self.interim_since <= self.final_at and not self.interim_item_id
        if is_left and self.final_at >= at and self.owed.is_of_only_burst:
            self.interim = ""  # that final was of all that had been shown
        if not self.interim:
            self.owed.burst_ended(round(at - self.final_at, NANOSECOND_DIGITS))

    # --- its end

    def judge_words(self, is_over: bool) -> None:
        """Note the recogniser's judgement: the words so far are perhaps the whole turn, or the user goes on."""
        self.is_judged_over = is_over

    def judge(self, complete: bool, now: float) -> None:
        """Note the turn detector's verdict on the pause."""
        self.is_complete, self.predicted_at = complete, now

    def let_pauses_end(self) -> None:
        """Let a pause end the turn from now on, without a request."""
        self.waits_for_request = False

    def end(self, now: float, by: EndedBy = "request") -> None:
        """End the turn by something other than a pause. The turn is not closed by that: words may still be owed."""
        assert not self.is_closed
        # Typed words do not end audio.
        self.over = Over(now, by, leaves_audio=by not in ("text", "recogniser") and self.has_words)

    def end_as_requested(self, now: float) -> None:
        """End the turn by an earlier request, before these words came: the recogniser has settled its audio since."""
        assert self.over is None
        self.over = Over(now)

    def go_on(self) -> None:
        """Let the turn go on, if it has ended for lack of words, by the recogniser, or in a sound without any: a word
        has come."""
        over, burst = self.over, self.burst
        if over is None:
            return
        if over.by in ("no_words", "recogniser") or (
            over.by == "text" and burst is not None and burst.is_heard_at(over.at)
        ):
            self.over = None

    def merge(self, closed: ClosedTurn) -> None:
        """Join with that turn, whose answer is taken back, into one turn of its name."""
        assert not self.is_closed
        self.turn_id, self.committed, self.is_merged = closed.turn_id, (closed.text, ""), True
        is_late = not self.past.amended and is_long_pause(closed.ended_at, self.began_at)
        self.past = replace(self.past, amends="", late_merges=closed.late_merges + is_late)
        self.began_at = min(closed.began_at, self.began_at)
        self.onset = self.onset if closed.onset is None else closed.onset

    def close(self, now: float) -> ClosedTurn:
        """Close the turn and return its facts; it does not change any more."""
        assert not self.is_closed
        self.is_closed = True
        ended_at = now if self.is_speech_going_on else self.silence_since
        return ClosedTurn(self.turn_id, self.text, self.began_at, self.onset, ended_at, self.past.late_merges)

    @property
    def silence_since(self) -> float:
        """The beginning of the pause: the true end of speech, or the arrival of the last word without a VAD."""
        if self.burst is not None and self.burst.ended_at is not None:
            return self.burst.ended_at
        return self.word_at

    def timing(self, now: float, ended_by: EndedBy, delay: float | None) -> TurnTiming:
        """Return the times for the turn's record, committed now."""
        speech_ended_at = now if self.is_speech_going_on else self.silence_since
        if ended_by == "recogniser" and self.burst is not None and self.burst.voiced_until is not None:
            speech_ended_at = min(speech_ended_at, self.burst.voiced_until)  # the VAD reports the end later
        return TurnTiming(
            ended_by=ended_by,
            delay=delay,
            speech_ended_at=speech_ended_at,
            end_reported_at=self.burst.reported_at if self.burst is not None else None,
            final_at=self.final_at,
            predicted_at=self.predicted_at,
            committed_at=now,
        )


def is_long_pause(ended_at: float, began_at: float) -> bool:
    """Return whether speech that began at that time followed a pause longer than a hesitation."""
    return round(began_at - ended_at, NANOSECOND_DIGITS) >= LONG_PAUSE


def continues(text: str, other: str) -> bool:
    """Return whether `text` starts with words from the beginning of `other`, and goes on differently."""
    common, news = after_common_words(text, other)
    return common > 0 and bool(news)


def join(*parts: str) -> str:
    """Return the parts that hold words, with a space between them."""
    return " ".join(filter(None, parts))
