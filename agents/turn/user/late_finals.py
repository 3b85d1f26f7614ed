"""LateFinals: words that were committed as an interim, and the finals that come later and settle them.

A final belongs to the guess that has the same name of an utterance, where the provider gives names. Otherwise the next
final before any new speech settles the guess, however late. During new speech, or with several open guesses, the order
is no proof: there a final settles the guess that it is most like, if it reads like a revision. One that comes while new
speech goes on, has the words of a guess and was not shown by an interim settles that guess, however late. New speech
goes on while the VAD hears it, and while its interim has other words than a final that reads like a guess. A final of
new speech that begins with the words of a guess and goes on is of both: the common beginning is not repeated. A past
final, of a recogniser that was replaced, settles what was open at the replacement, for `LATE_WORDS`: later ones are of
the next recogniser that was replaced. Typed text is no speech and changes nothing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from vivavoce.agents.turn.user.turn import UserTurn, join
from vivavoce.pipelines.core.words import after_common_words, words_of
from vivavoce.pipelines.events import LATE_WORDS

MOST_OPEN = 32
"""Guesses that are kept. If so many later guesses were made, no final comes for an older one."""
ALIKE = 0.5
"""Share of equal words above which a transcript counts as a revision of another one."""


@dataclass(slots=True, eq=False)
class Guess:
    """An interim that was committed in place of the final that is to come.

    Args:
        until: The end of the wait for its final; infinite if a remote model has heard the words itself.
        item_id: The provider's name of the utterance; "" without one.
        was_voice: Whether a VAD heard it: a final before the VAD hears new speech belongs to this utterance, whatever
            its words.
        is_being_said: Whether the utterance goes on, and with it the time for its final.
        was_in_speech: Whether it was committed in mid-speech: a late final then belongs to the words after it, unless
            it reads like this guess, since a recogniser may settle it with all of that speech.
        speech_until: The end of the wait for the final of that speech; infinite while the speech goes on.
        is_followed: Whether new speech has begun since.
        has_newer: Whether another guess was committed since.
        is_passed: Whether a final of new speech has come since; finals come in order.
        expires_at: The time after which only past finals and a final of its name settle it, because another pipeline
            listens.
        left_at: The time since which another pipeline or recogniser listens; None while it is still the same.
        came_at: The time of its first word.
        committed_at: The time of its commit.
    """

    text: str = field(repr=False)
    until: float
    item_id: str = ""
    was_voice: bool = False
    is_being_said: bool = False
    was_in_speech: bool = False
    speech_until: float = float("inf")
    is_followed: bool = False
    has_newer: bool = False
    is_passed: bool = False
    expires_at: float = float("inf")
    left_at: float | None = None
    came_at: float = float("-inf")
    committed_at: float = float("-inf")

    is_remote: bool = field(init=False)
    """Whether a remote model has heard the words itself, so that it already knows them, whatever the final is."""

    def __post_init__(self) -> None:
        self.is_remote = self.until == float("inf")

    def take_name(self, item_id: str) -> None:
        """Set the name that the provider gives the utterance."""
        self.item_id = item_id

    def leave(self, now: float) -> None:
        """Note that another recogniser hears from now on."""
        self.left_at = now if self.left_at is None else self.left_at

    def expire(self, at: float) -> None:
        """Shorten the wait to that time."""
        self.until = self.expires_at = min(self.until, at)

    def be_followed(self) -> None:
        """Note that new speech has begun."""
        self.is_followed = True

    def be_older(self) -> None:
        """Note that another guess was committed."""
        self.has_newer = True

    def be_passed(self) -> None:
        """Note that a final of new speech has come, if such speech has begun."""
        self.is_passed = self.is_passed or self.is_followed

    def join_speech(self) -> None:
        """Count the guess as the first words of speech that the VAD reports only now."""
        self.is_followed = False
        self.was_voice = self.was_in_speech = True

    def speech_ended(self, until: float) -> None:
        """Note that speech has ended: its final is waited for until then."""
        if self.is_being_said:
            self.is_being_said = False
            self.until = max(self.until, until)
        if self.speech_until == float("inf"):
            self.speech_until = until

    def is_in_time(self, now: float) -> bool:
        """Return whether a transcript that comes now may still belong to this utterance."""
        return self.is_being_said or now <= self.until

    def may_be_guessed_again(self, text: str, item_id: str, now: float) -> bool:
        """Return whether an interim that comes while no turn is open may belong to this utterance.

        An interim of the utterance's own name belongs to it anyway (`LateFinals.is_named`).
        """
        if self.item_id and item_id:
            return False
        is_of_voice = self.is_in_time(now) and (bool(self.item_id) or self.was_voice)
        return not self.is_followed and (is_of_voice or (not self.was_in_speech and self.resembles(text)))

    def may_be_settled(
        self, text: str, item_id: str, now: float, *, is_in_speech: bool, shown: str = "", is_past: bool = False
    ) -> bool:
        """Return whether a final that comes now may belong to this utterance; arguments as of `LateFinals.take`."""
        if is_past:
            is_of_it = self.left_at is not None and now <= self.left_at + LATE_WORDS
            return is_of_it and self._may_be_late(text)
        if self.item_id and item_id:
            return item_id == self.item_id
        if now > self.expires_at:
            return False
        is_in_time = self.is_in_time(now)
        if not self.is_followed:
            return is_in_time or self._may_be_late(text)
        is_new = self.was_in_speech or self.is_passed or after_common_words(shown, text)[0] > 0
        shows_others = bool(shown) and self.likeness(text) > likeness(shown, text)
        goes_on = is_in_speech or shows_others  # the final of new speech is still to come
        if goes_on and not is_new and text and self.is_same(text):
            return True
        is_of_speech = self.was_in_speech and now <= self.speech_until and self.news_in(text, item_id) == text
        is_near = (is_in_time or is_of_speech) and (goes_on or self.has_newer)
        return is_near and bool(text and self.text) and self.resembles(text)

    def _may_be_late(self, text: str) -> bool:
        """Return whether a final that comes after the wait may belong to this guess, since no new speech was heard."""
        if self.was_in_speech:
            return bool(text) and self.resembles(text)
        return self.was_voice or self.resembles(text)

    def news_in(self, text: str, item_id: str) -> str:
        """Return the new words of a final of new speech: the final without the beginning that this guess has too.

        The result is the whole final if that only repeats words, or has less than half of the guess.
        """
        is_another = bool(self.item_id and item_id)
        if is_another or self.is_remote or self.is_passed or not self.is_followed:
            return text
        common, news = after_common_words(text, self.text)
        return news if news and common >= ALIKE * len(words_of(self.text)) and common else text

    def resembles(self, text: str) -> bool:
        """Return whether `text` reads like a revision of the interim, judged by its words."""
        guess, revised = " ".join(_plain(self.text)), " ".join(_plain(text))
        return guess.startswith(revised) or revised.startswith(guess) or self.likeness(text) >= ALIKE

    def likeness(self, text: str) -> float:
        """Return the share of words that are the same, 0 … 1."""
        return likeness(self.text, text)

    def is_same(self, text: str) -> bool:
        """Return whether only the spelling differs."""
        return _plain(self.text) == _plain(text)

    def is_completed_by(self, text: str) -> bool:
        """Return whether only the spelling and the end of the last word differ."""
        (*guess, last), (*words, end) = (_plain(self.text) or [""]), (_plain(text) or [""])
        return guess == words and end.startswith(last)


class CommittedTurn:
    """A committed turn with at least one open final: its words, with the guesses in their places.

    Args:
        speech_id: The speech that answers it; "" for a backchannel.
    """

    def __init__(self, turn: UserTurn, speech_id: str, guess: Guess | None, left: Guess | None) -> None:
        self.turn_id = turn.turn_id
        self.speech_id = speech_id
        self.began_at = turn.began_at
        before, behind = turn.committed
        self._before: list[str | Guess] = [before]
        self._behind: list[str | Guess] = [behind]
        self._take(turn, guess, left)

    @property
    def text(self) -> str:
        """All words of the turn."""
        return join(*self.words)

    @property
    def words(self) -> tuple[str, str]:
        """The words before the next ones and, once the turn was opened again, the words behind them."""
        return join(*map(_text, self._before)), join(*map(_text, self._behind))

    def goes_on(self, turn: UserTurn, speech_id: str, guess: Guess | None, left: Guess | None) -> None:
        """Note that the turn was committed again, with the words that it has got since."""
        self.turn_id, self.speech_id = turn.turn_id, speech_id
        self._take(turn, guess, left)

    def settle(self, guess: Guess, text: str) -> None:
        """Settle that guess by these words."""
        words = [*self._before, *self._behind]
        words[words.index(guess)] = text
        self._before, self._behind = words[: len(self._before)], words[len(self._before) :]

    def open_at(self, guess: Guess) -> None:
        """Take the guess out; the next words take its place."""
        words = [*self._before, *self._behind]
        place = words.index(guess)
        self._before, self._behind = words[:place], words[place + 1 :]

    def _take(self, turn: UserTurn, guess: Guess | None, left: Guess | None) -> None:
        said: list[str | Guess] = [*turn.segments]
        if left is not None and turn.past.shown_at is not None:
            said[turn.past.shown_at] = left
        if guess is not None:
            said.append(guess)
        self._before, self._behind = [*self._before, *said, *self._behind, turn.typed], []


class LateFinals:
    """The guesses that wait for their finals, oldest first, each with its turn.

    A model that hears the caller itself names each turn's audio: after the commit, in the order of the commits, if the
    session ends turns; before its answer, if its server does.
    """

    def __init__(self) -> None:
        self._open: list[tuple[CommittedTurn, Guess]] = []
        self._unnamed: deque[Guess | None] = deque()
        self._name = ""

    def committed(self, turn: UserTurn, speech_id: str, guess: Guess | None, left: Guess | None) -> None:
        """Note that a turn was committed, perhaps again.

        Args:
            guess: The guess at its newest utterance, if that is not settled.
            left: Its words that a replaced recogniser has shown and not settled.
        """
        # Of guesses that a remote model heard and did not name only the newest is kept: its final may come never.
        is_replaced = guess is not None
        self._open = [
            (whole, other)
            for whole, other in self._open[-MOST_OPEN:]
            if not (other.is_remote and is_replaced and self._is_nameless(other))
        ]
        whole = next((whole for whole, _ in self._open if whole.turn_id in (turn.turn_id, turn.past.amends)), None)
        if whole is not None:
            whole.goes_on(turn, speech_id, guess, left)
        new = [each for each in (left, guess) if each is not None]
        if new:
            for _, older in self._open:
                older.be_older()
            whole = whole or CommittedTurn(turn, speech_id, guess, left)
            self._open += [(whole, each) for each in new]

    def _is_nameless(self, guess: Guess) -> bool:
        return not guess.item_id and guess not in self._unnamed

    def await_name(self, guess: Guess | None) -> None:
        """Note that the model gets the commit that was noted last, or none if no word of it is open; it will name the
        audio."""
        self._unnamed.append(guess)

    def name(self, item_id: str) -> None:
        """Give this name of the model to the audio of the oldest commit without a name, or else to that of the open
        turn."""
        if not self._unnamed:
            self._name = item_id
        elif (guess := self._unnamed.popleft()) is not None:
            guess.take_name(item_id)

    def take_name(self) -> str:
        """Return the name of the open turn's audio, and forget it."""
        name, self._name = self._name, ""
        return name

    def is_named(self, item_id: str) -> bool:
        """Return whether that is the name of a committed turn's audio whose words are open."""
        return bool(item_id) and any(guess.item_id == item_id for _, guess in self._open)

    @property
    def owed_until(self) -> float:
        """The time until which a recogniser may still settle committed words; in the past if it owes none."""
        return max((guess.until for _, guess in self._open if not guess.is_remote), default=float("-inf"))

    def others_listen(self, now: float, timeout: float) -> None:
        """Note that another pipeline hears from now on: finals of the one before are past ones, or come by their
        names."""
        self.leave(now)
        for _, guess in self._open:
            guess.expire(now + timeout)
        self._unnamed.clear()
        self._name = ""

    def leave(self, now: float) -> None:
        """Note that another recogniser hears from now on: past finals settle these guesses."""
        self.words_follow()
        for _, guess in self._open:
            guess.leave(now)

    def clear(self) -> None:
        """Forget all guesses."""
        self._open.clear()
        self._unnamed.clear()

    def words_follow(self) -> None:
        """Note that words from now on are new, unless they prove to be old."""
        for _, guess in self._open:
            guess.be_followed()

    def speech_began(self, at: float) -> float | None:
        """Note speech since `at`; return when its first words were committed, or None if all of it is new.

        A VAD may detect speech later than a quick recogniser does.
        """
        newest = self._open[-1][1] if self._open else None
        is_of_newest = newest is not None and not newest.is_followed and at < newest.came_at
        self.words_follow()
        if newest is None or not is_of_newest:
            return None
        newest.join_speech()
        return newest.committed_at

    def speech_ended(self, at: float, timeout: float) -> None:
        """Note the end, at `at`, of the utterance that went on at its commit: its final comes within the timeout."""
        for _, guess in self._open:
            guess.speech_ended(at + timeout)

    def cover_interim(self, text: str, now: float, item_id: str) -> bool:
        """Return whether an interim still belongs to committed words."""
        return any(guess.may_be_guessed_again(text, item_id, now) for _, guess in self._open)

    def take(
        self, text: str, now: float, item_id: str, *, is_in_speech: bool, shown: str = "", is_past: bool = False
    ) -> tuple[CommittedTurn, Guess] | None:
        """Return the guess that a final settles, with its turn, and stop waiting for it; None if the final settles
        none.

        Args:
            is_in_speech: Whether the VAD hears speech.
            shown: The words that an interim has shown since the commit and no final has settled.
            is_past: Whether the final comes from a recogniser that was replaced.
        """
        found = [
            (whole, guess)
            for whole, guess in self._open
            if guess.may_be_settled(text, item_id, now, is_in_speech=is_in_speech, shown=shown, is_past=is_past)
        ]
        if not found:
            return None
        best = max(found, key=lambda entry: entry[1].likeness(text)) if len(found) > 1 else found[0]
        self._open.remove(best)
        return best

    def news(self, text: str, item_id: str) -> str:
        """Return the new words in a final of new speech; if it begins with the words of a guess, settle the guess."""
        for whole, guess in self._open:
            news = guess.news_in(text, item_id)
            if news != text:
                self._open.remove((whole, guess))
                text = news
                break
        for _, guess in self._open:
            guess.be_passed()
        return text


def likeness(text: str, other: str) -> float:
    """Return the share of words that are the same, 0 … 1."""
    return SequenceMatcher(None, _plain(text), _plain(other), autojunk=False).ratio()


def _text(part: str | Guess) -> str:
    return part if isinstance(part, str) else part.text


def _plain(text: str) -> list[str]:
    return [word.replace("'", "") for word in words_of(text)]  # recognisers write "don't" or "dont"
