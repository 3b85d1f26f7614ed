"""UserSide: the user now: the newest burst of speech, the open turn, the silence. It numbers the turns."""

from __future__ import annotations

from dataclasses import dataclass, field

from vivavoce.agents.turn.user.burst import Burst
from vivavoce.agents.turn.user.recogniser_pace import RecogniserPace
from vivavoce.agents.turn.user.turn import Over, Past, UserTurn


@dataclass(slots=True)
class Silence:
    """The time between two messages of the user, spoken or typed; its counts end with it. Noise does not end it.

    Args:
        level: Wake-ups so far.
        is_away: Whether it has lasted so long that the user counts as away.
    """

    began_at: float = 0.0
    level: int = 0
    is_away: bool = False

    def reach_next_level(self) -> int:
        """Count a wake-up; return its level."""
        self.level += 1
        return self.level

    def restart_levels(self) -> None:
        """Count wake-ups from the first one again."""
        self.level = 0

    def become_away(self) -> None:
        """Count the user as away until it ends."""
        self.is_away = True


@dataclass(slots=True)
class UserSide:
    """The present state of the user. Only this class sets its turn, burst and silence; other classes call it, or read
    it."""

    turn: UserTurn | None = None
    burst: Burst | None = None
    silence: Silence = field(default_factory=Silence)
    hears_words_since: float | None = float("-inf")
    """The time since which the recogniser is connected; None while it is not, so that no word can come."""
    pace: RecogniserPace = field(default_factory=RecogniserPace)
    """The judgement on the present recogniser."""
    onset: float | None = None
    """The true onset of the newest speech; without a VAD, the time of the first words of the newest turn."""
    turns: int = 0
    """The number of turns so far."""
    run: str = ""
    """The end of the ids of the turns."""

    # --- the recogniser

    def recogniser_lost(self) -> None:
        """Note that no word can come until the recogniser is connected again."""
        self.hears_words_since = None
        self.pace.skip()

    def recogniser_back(self, now: float) -> None:
        """Note that words come again; words of earlier speech are late, but not because the recogniser is slow."""
        self.hears_words_since = now
        self.pace.skip()

    def recogniser_changed(self) -> None:
        """Judge the pace of another recogniser from now on."""
        self.pace = RecogniserPace()

    def is_judged(self, turn: UserTurn) -> bool:
        """Return whether the present recogniser has shown the newest words of that turn, so that it may judge its
        end."""
        return self.hears_words_since is not None and turn.is_shown_since(self.hears_words_since)

    def others_listen(self, now: float) -> None:
        """Note that other components hear the user from now on; they have heard nothing yet."""
        self.burst, self.hears_words_since = None, now
        self.recogniser_changed()

    # --- the turn

    def count_from(self, turns_before: int, run: str) -> None:
        """Number the turns after those of the conversation that the session continues; `run` ends their ids."""
        assert self.turn is None
        self.turns, self.run = turns_before, run

    def open_turn(self, now: float, *, waits_for_request: bool) -> UserTurn:
        """Open a turn, with the speech that is heard now, and return it."""
        turn = self._open(UserTurn(self._next_id(), now, waits_for_request=waits_for_request))
        if self.burst is not None and self.burst.is_going_on:
            turn.begin_speech(self.burst)
        return turn

    def open_amended(self, amends: str, words: tuple[str, str], now: float, *, since: float) -> None:
        """Open a turn of committed words that have changed since the answer to the turn of that id was heard.

        Args:
            since: The time when they were said; they do not cut speech that was asked for later.
        """
        over = Over(now, "late_final")
        self._open(UserTurn(self._next_id(), now, committed=words, past=Past(amends=amends), over=over, since=since))

    def reopen(self, turn_id: str, now: float) -> UserTurn:
        """Open the turn of that id again, since committed words of it have changed."""
        return self._open(UserTurn(turn_id, now, burst=self.burst, past=Past(amended=1)))

    def typed_turn(self, text: str, now: float) -> UserTurn:
        """Return a turn of typed text, which is over and not open yet."""
        return UserTurn(self._next_id(), now, typed=text, over=Over(now, "text"))

    def put_before(self, turn: UserTurn) -> UserTurn | None:
        """Open that turn; return the turn that was open, which `put_back` opens again."""
        aside, self.turn = self.turn, turn
        return aside

    def put_back(self, turn: UserTurn) -> None:
        """Open a turn that was put aside again."""
        self._open(turn)

    def take_words_back(self) -> UserTurn:
        """Take back the words that came since the open turn was committed; return the turn without them."""
        assert self.turn is not None
        self.turn = self.turn.without_news()
        return self.turn

    def close_turn(self, now: float) -> None:
        """Close the open turn; speech that goes on belongs to another turn from now on."""
        turn, burst = self.turn, self.burst
        assert turn is not None
        self.turn = None
        if burst is not None and burst.is_going_on and turn.burst is burst:
            ends_sound = turn.over is not None and turn.over.by in ("no_words", "text", "recogniser")
            self.split_burst(now, keeps_noise=ends_sound)
        elif turn.burst is not None:
            turn.burst.answer()

    def drop_turn(self) -> str:
        """Close the open turn, which has no answer, and return its id; speech that goes on is unchanged."""
        turn = self.turn
        assert turn is not None
        self.turn = None
        if turn.burst is not None and not turn.burst.is_going_on:
            turn.burst.settle()
        return turn.turn_id

    def _open(self, turn: UserTurn) -> UserTurn:
        assert self.turn is None
        self.turn = turn
        return turn

    def _next_id(self) -> str:
        self.turns += 1
        return f"turn_{self.turns}{self.run}"

    # --- sound and words

    def begin_speech(self, burst: Burst, *, committed_at: float | None) -> None:
        """Note that a burst began.

        Args:
            committed_at: The time when its first words were committed: the rest belongs to no turn yet. None if the
                burst belongs to the open turn.
        """
        assert not self.is_speaking
        self.onset = burst.started_at
        self.burst = burst if committed_at is None else burst.rest(committed_at)
        if committed_at is None and self.turn is not None:
            self.turn.begin_speech(burst)

    def split_burst(self, now: float, *, keeps_noise: bool) -> None:
        """Count the speech from now on as that of another turn.

        Args:
            keeps_noise: Whether speech that counts as noise still does.
        """
        assert self.burst is not None
        self.burst = self.burst.rest(now, keeps_noise=keeps_noise)

    def words_tell_onset(self, now: float) -> None:
        """Take the time of words that came now as the onset of the open turn, if they are its first and there is no
        VAD."""
        if self.burst is None and self.turn is not None and self.turn.onset is None:
            self.turn.begin_by_words(now)
            self.onset = now

    def voice_paused(self, at: float) -> None:
        """Note that the VAD hears no voice since `at`, in speech that may go on."""
        if self.burst is not None:
            self.burst.pause_voice(at)

    def voice_resumed(self) -> None:
        """Note that the VAD hears the voice again, in the same speech."""
        if self.burst is not None:
            self.burst.resume_voice()

    def word_came(self, now: float) -> None:
        """Note that a word of the present sound, and of the open turn, was understood: the sound is not noise."""
        assert self.turn is not None
        if self.burst is not None and self.burst.is_going_on:
            self.burst.take_word(now)
        self.turn.go_on()  # it waited for protected speech meanwhile

    def words_were_none(self) -> None:
        """Note that an empty transcript took back the only words of the present sound."""
        assert self.burst is not None
        self.burst.take_words_back()

    def act(self, now: float) -> None:
        """Note that the user has said or typed something: a new silence begins."""
        self.silence = Silence(now)

    @property
    def is_speaking(self) -> bool:
        """Whether the VAD hears speech."""
        return self.burst is not None and self.burst.is_going_on

    @property
    def would_show_words(self) -> bool:
        """Whether the recogniser would soon show words of the newest sound."""
        is_quick = self.hears_words_since is not None and not self.pace.is_slow
        return is_quick and self.burst is not None and self.burst.emits_interims

    @property
    def is_wordless(self) -> bool:
        """Whether the VAD hears a sound that has no word so far, though the recogniser would show one."""
        burst = self.burst
        return burst is not None and burst.is_going_on and not burst.has_words and self.would_show_words

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
