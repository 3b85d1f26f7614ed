"""The user's side of a conversation: the newest burst of speech, the open turn, and when a pause ends it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from vivavoce.agents.turn.deadlines import NANOSECOND_DIGITS
from vivavoce.agents.turn.effects import EndedBy, TurnTiming
from vivavoce.agents.turn.user.owed_finals import OwedFinals, lacks_words
from vivavoce.agents.turn.user.recogniser_pace import RecogniserPace
from vivavoce.pipelines.core.words import after_common_words, words_of

LONGEST_VOICE = 30.0
"""Seconds for which a voice without a new word may hold the agent if the recogniser gives no interims."""


@dataclass(slots=True)
class Burst:
    """Speech without a pause, by the VAD's true times.

    Args:
        reported_at: When the VAD reported the end.
        is_mere_noise: It has held the agent for as long as it may without words, or a policy ignores it: it holds the
            agent no more.
        is_heard: The model has heard its audio, or that of an earlier burst of its turn, so that it needs no words.
        noise_since: Since when it counts as silence until a word comes, as it has sounded so long without one; or None.
        word_at: When its last word came; None while it has had none.
        emits_interims: Whether words of it come while it sounds (`PipelineTraits.emits_interims`).
        voice_lag: Seconds after which silence within it shows (`PipelineTraits.voice_lag`).
        voiced_until: When its last voiced frame ended, while the voice pauses; None while it sounds.
        onset: `started_at` where the VAD reported it; None for the rest of a burst after a commit.
        is_settled: Its audio was committed, or its turn was dropped.
    """

    started_at: float
    ended_at: float | None = None
    reported_at: float | None = None
    is_mere_noise: bool = False
    is_heard: bool = False
    noise_since: float | None = None
    word_at: float | None = None
    emits_interims: bool = True
    voice_lag: float = 0.0
    voiced_until: float | None = None
    onset: float | None = None
    is_settled: bool = False

    @property
    def is_going_on(self) -> bool:
        """Whether it has not ended."""
        return self.ended_at is None

    @property
    def is_noise(self) -> bool:
        """Whether it counts as silence."""
        return self.noise_since is not None

    @property
    def is_rest_of_noise(self) -> bool:
        """Whether all of it comes behind the end of a turn whose sound was noise: it is of no turn."""
        return self.noise_since is not None and self.noise_since <= self.started_at

    def sounded_until(self, now: float) -> float:
        """Return when it ended; `now` while it goes on."""
        return now if self.ended_at is None else self.ended_at

    @property
    def has_words(self) -> bool:
        """Whether a word has come while it sounded."""
        return self.word_at is not None

    def noise_at(self, max_pause: float) -> float:
        """Return when it is noise, if no word comes: where words come late, a voice is believed for longer, and once
        more after each word.
        """
        if self.emits_interims:
            return self.started_at + max_pause
        heard_at = self.started_at if self.word_at is None else self.word_at
        return heard_at + max(max_pause, LONGEST_VOICE)

    def turn_to_noise(self, now: float) -> None:
        """It means nothing, and holds nothing any more."""
        self.noise_since, self.is_mere_noise = now, True

    def rest(self, now: float, *, keeps_noise: bool = False) -> Burst:
        """Return the rest of it after a commit; the rest is of another turn.

        Args:
            keeps_noise: What it was taken for still holds; else the rest is a voice again, until it has lasted itself.
        """
        rest = replace(self, started_at=now, is_heard=False, word_at=None, onset=None)
        if not keeps_noise:
            rest.noise_since, rest.is_mere_noise = None, False
        rest.voiced_until = None if self.voiced_until is None else now
        return rest

    def end(self, at: float, now: float) -> None:
        """It ended at `at`, reported `now`."""
        self.ended_at = max(at, self.started_at)
        self.reported_at = now

    def voiced_seconds(self, now: float, *, since: float | None = None) -> float:
        """Return the span from its onset, or from `since`, to the last frame of it that is known to be voiced.

        Rounded, so that 2.1 - 1.6 is 0.5.
        """
        start = self.started_at if since is None else since
        until = self.voiced_until if self.ended_at is None else self.ended_at
        return max(0.0, round((now - self.voice_lag if until is None else until) - start, 6))


@dataclass(frozen=True, slots=True)
class Over:
    """A turn was ended by something else than a pause.

    Args:
        leaves_audio: There were words then, so that the recogniser was not asked yet to settle its audio.
    """

    at: float
    by: EndedBy = "request"
    leaves_audio: bool = False


@dataclass(slots=True)
class Past:
    """The part of an open turn that comes from committed turns, or from a recogniser that was replaced.

    Args:
        late_merges: How often it has merged after a long pause (`guard`).
        amends: The turn whose message, amended by a late final, is to be answered anew as this one; empty: none.
        amended: How many of its first segments settle a committed guess; they are not taken back.
        segments: How many of its first segments are of a recogniser that was replaced.
        shown_at: Which segment that recogniser has only shown, and may still settle; None for none.
        left_at: When it was replaced; None if none was.
    """

    late_merges: int = 0
    amends: str = ""
    amended: int = 0
    segments: int = 0
    shown_at: int | None = None
    left_at: float | None = None


@dataclass(slots=True)
class UserTurn:
    """The user's open turn. Times are the session clock's; None for events that have not happened.

    Args:
        burst: The newest speech of it; None without a VAD.
        committed: Words of this turn that were committed already, and those of them that come behind the present
            words, where these take the place of a guess.
        is_merged: It was committed before and goes on.
        past: The part that comes from committed turns.
        segments: Final transcripts since.
        hushed: How many of these were said when no voice took the floor (`guard`).
        interim: The recogniser's guess at the last utterance, while no final settles it.
        interim_item_id: The provider's name of that utterance.
        typed: Text that was typed while the turn was open.
        is_interim_stable: The interim has not changed for so long that it counts as words.
        word_at: When its last word came, or the event that opened it.
        utterance_at: When the first word of its newest utterance came; without a VAD, the utterance's onset.
        owed: Which final transcripts are still to come.
        over: A request has ended the turn, words of it were typed, or a limit was reached.
        onset: The true onset of its first speech; without a VAD, when its first words came. None where it has neither.
        waits_for_request: No pause ends it: it began with endpointing mode `manual`, which still holds.
        began_at: When its first sound or word came.
        rest_ended_at: When the rest of a burst ended that it began with; None if it began with a burst of its own.
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

    def __post_init__(self) -> None:
        self.began_at = self.utterance_at = self.word_at

    @property
    def owes_final(self) -> bool:
        """Whether a final transcript of the newest speech is still to come."""
        return self.owed.bursts > 0

    @property
    def owed_before(self) -> bool:
        """Whether one of speech before that is still to come too."""
        return self.owed.bursts > 1

    @property
    def is_over_by_word(self) -> bool:
        """Whether the application said that it is over, or words were typed: no matter of voice."""
        return self.over is not None and self.over.by in ("request", "text")

    @property
    def has_words(self) -> bool:
        """Whether there is anything to answer: words understood, settled or not, or a commit that goes on.

        A remote model's commit may be of no words yet, so that `text` is empty.
        """
        return bool(self.segments or self.interim or self.typed or self.is_merged or self.is_heard or self.past.amends)

    @property
    def firm_text(self) -> str:
        """The new words that may take the floor: finals, and an interim once it is stable."""
        return join(*self.segments[self.hushed :], self.interim if self.is_interim_stable else "")

    @property
    def loud_text(self) -> str:
        """The new words that were said when a voice could take the floor, an unsettled interim included."""
        return join(*self.segments[self.hushed :], self.interim, self.typed)

    @property
    def new_text(self) -> str:
        """The words since the last commit, an unsettled interim behind the settled ones."""
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
        """Whether its end is the end of the audio that the recogniser has heard."""
        if self.is_speech_going_on:
            return self.over is not None and self.over.leaves_audio
        return bool(self.burst or self.segments or self.interim)

    @property
    def is_heard(self) -> bool:
        """Whether the model has heard its audio, so that it needs no words."""
        return self.burst is not None and self.burst.is_heard

    @property
    def lasts_since(self) -> float:
        """From when its duration counts."""
        return self.began_at if self.rest_ended_at is None else self.rest_ended_at

    @property
    def has_open_audio(self) -> bool:
        """Whether a burst of it was not committed yet."""
        return self.burst is not None and not self.burst.is_settled

    def hear(self, now: float) -> None:
        """The model has heard all of it."""
        self.burst = self.burst or Burst(now, now, now)
        self.burst.is_heard = True

    def hear_rest(self, burst: Burst, at: float) -> None:
        """It begins with the rest of a burst, which ended at `at`; the model has heard that."""
        self.burst = burst
        burst.is_heard = True
        self.rest_ended_at = at

    def begin_speech(self, burst: Burst) -> None:
        """A burst of speech began: any verdict on the pause before it is void."""
        burst.is_heard = burst.is_heard or self.is_heard
        self.burst = burst
        self.onset = burst.onset if self.onset is None else self.onset
        self.owed.burst_began(is_shown=self.is_shown(burst))
        self.is_complete = self.predicted_at = None

    def is_shown(self, burst: Burst) -> bool:
        """Whether that burst began before the first interim of the present words, by the VAD's later report."""
        return bool(self.interim) and burst.started_at <= self.utterance_at

    def add_interim(self, text: str, now: float, item_id: str) -> None:
        """An interim replaces the one before."""
        self.interim_item_id = item_id
        if text == self.interim:
            return
        if not self.interim:
            self.utterance_at = now
        self.interim, self.interim_since, self.is_interim_stable = text, now, False
        self.word_at = now
        self.owed.words_shown()

    def add_final(self, text: str, now: float, item_id: str = "") -> None:
        """A final settles the utterance, or an earlier one; an empty one discards the interims."""
        if not self.interim:
            self.utterance_at = now
        has_all = not self._lacks(text, item_id)
        has_more = has_all and bool(self.interim) and len(words_of(text)) > len(words_of(self.interim))
        self.interim = "" if has_all else self._left_by(text, item_id)
        self.final_at = now
        self.is_complete = self.predicted_at = None
        self.owed.final_came(
            is_in_speech=self.is_speech_going_on,
            has_all=has_all,
            has_more=has_more,
            leaves_rest=self.burst is not None and not self.burst.emits_interims,
        )
        if text:
            self.word_at = now
            self.segments.append(text)

    def leave_words(self, now: float) -> None:
        """Another recogniser hears from here on: what the one before has shown counts, until a past final settles it.

        Only speech that goes on is still owed a final.
        """
        self.past.shown_at, self.past.left_at = len(self.segments) if self.interim else None, now
        if self.interim:
            self.segments.append(self.interim)
            self.interim = ""
        self.past.segments = len(self.segments)
        self.owed.bursts = int(self.is_speech_going_on)

    def add_past_final(self, text: str) -> None:
        """A recogniser that was replaced settles words before those of its successor, which owes its own finals."""
        if self.past.shown_at is not None:
            self.segments[self.past.shown_at], self.past.shown_at = text, None
            return
        place = max(self.hushed, self.past.amended, self.past.segments)
        self.segments.insert(place, text)
        self.past.segments = place + 1

    def _lacks(self, final: str, item_id: str) -> bool:
        """Whether the interim is of a later utterance than that final."""
        if not (final and self.interim):
            return False
        if item_id and self.interim_item_id:
            return item_id != self.interim_item_id
        is_of_newest = self.burst is not None and self.interim_since >= self.burst.started_at
        if not (is_of_newest and lacks_words(final, self.interim)):
            return False
        return self.owed.bursts > 1 or (self.is_speech_going_on and continues(self.interim, final))

    def _left_by(self, final: str, item_id: str) -> str:
        """Return the words of the interim that are open behind that final."""
        if item_id and self.interim_item_id:
            return self.interim
        return after_common_words(self.interim, final)[1] if continues(self.interim, final) else self.interim

    def end_speech(self, at: float) -> None:
        """Its newest burst ended at `at`, reported now: a final that came before the report may be of it too."""
        if self.final_at is None:
            return
        is_left = self.interim_since <= self.final_at and not self.interim_item_id
        if is_left and self.final_at >= at and self.owed.is_of_only_burst:
            self.interim = ""  # that final was of all that had been shown
        if not self.interim:
            self.owed.burst_ended(round(at - self.final_at, NANOSECOND_DIGITS))

    @property
    def silence_since(self) -> float:
        """When the pause began: the true end of speech, or the last word's arrival without a VAD."""
        if self.burst is not None and self.burst.ended_at is not None:
            return self.burst.ended_at
        return self.word_at

    def timing(self, now: float, ended_by: EndedBy, delay: float | None) -> TurnTiming:
        """Return the times for the turn's record, committed now."""
        return TurnTiming(
            ended_by=ended_by,
            delay=delay,
            speech_ended_at=now if self.is_speech_going_on else self.silence_since,
            end_reported_at=self.burst.reported_at if self.burst is not None else None,
            final_at=self.final_at,
            predicted_at=self.predicted_at,
            committed_at=now,
        )


@dataclass(slots=True)
class Silence:
    """The time between two messages of the user, spoken or typed; its counts end with it. Noise does not end it.

    Args:
        level: Wake-ups so far.
        is_away: It has lasted so long that the user counts as away.
    """

    began_at: float = 0.0
    level: int = 0
    is_away: bool = False


@dataclass(slots=True)
class UserSide:
    """State of the user now. `UserTurns` and `TurnCommit` change it, `WakeUps` counts `silence`, others read it."""

    turn: UserTurn | None = None
    burst: Burst | None = None
    silence: Silence = field(default_factory=Silence)
    hears_words_since: float | None = float("-inf")
    """Since when the recogniser is connected; None while it is not, so that no word can come."""
    pace: RecogniserPace = field(default_factory=RecogniserPace)
    """The judgement on the recogniser that hears."""
    onset: float | None = None
    """The true onset of the newest speech; without a VAD, when the first words of the newest turn came."""

    def recogniser_lost(self) -> None:
        """No word can come until the recogniser is back."""
        self.hears_words_since = None
        self.pace.skip()

    def recogniser_back(self, now: float) -> None:
        """Words come again; those of speech before now are late for no fault of the recogniser."""
        self.hears_words_since = now
        self.pace.skip()

    def recogniser_changed(self) -> None:
        """Another recogniser hears from now on."""
        self.pace = RecogniserPace()

    def words_tell_onset(self, now: float) -> None:
        """Words of the open turn came now: without a VAD, the first ones are its onset."""
        if self.burst is None and self.turn is not None and self.turn.onset is None:
            self.turn.onset = self.onset = now

    def voice_paused(self, at: float) -> None:
        """The VAD hears no voice since `at`, in speech that may go on."""
        if self.burst is not None and self.burst.is_going_on:
            self.burst.voiced_until = max(at, self.burst.started_at)

    def voice_resumed(self) -> None:
        """The VAD hears the voice again, in the same speech."""
        if self.burst is not None:
            self.burst.voiced_until = None

    def word_came(self, now: float) -> None:
        """A word of the present sound was understood: it is no noise."""
        if self.burst is not None and self.burst.is_going_on:
            self.burst.word_at, self.burst.noise_since = now, None
        if self.turn is not None and self.turn.over is not None and self.turn.over.by == "no_words":
            self.turn.over = None  # it waited for protected speech meanwhile

    def words_were_none(self) -> None:
        """An empty transcript took back the only words of the present sound: it has had none."""
        assert self.burst is not None
        self.burst.word_at = None

    def act(self, now: float) -> None:
        """The user has said or typed something: a new silence begins."""
        self.silence = Silence(now)

    @property
    def is_speaking(self) -> bool:
        """Whether the VAD hears speech."""
        return self.burst is not None and self.burst.is_going_on

    @property
    def has_voice(self) -> bool:
        """Whether the VAD hears speech that is not known to be noise."""
        return self.burst is not None and self.burst.is_going_on and not self.burst.is_noise

    @property
    def is_active(self) -> bool:
        """Whether speech is heard or its meaning is undecided; sound that is known to be noise is neither."""
        turn, burst = self.turn, self.burst
        is_noise = burst is not None and burst.is_noise and burst.is_going_on
        return self.has_voice or (turn is not None and (turn.has_words or not is_noise))


def continues(text: str, other: str) -> bool:
    """Return whether `text` begins with words of the beginning of `other`, and goes on otherwise."""
    common, news = after_common_words(text, other)
    return common > 0 and bool(news)


def join(*parts: str) -> str:
    """Return the parts that hold words, with a space between them."""
    return " ".join(filter(None, parts))
