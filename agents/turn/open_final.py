"""OpenFinal: words that were committed as an interim, and which of the finals that come later settles them.

A provider's name of the utterance tells, where it gives one. Else it is the next final that comes before any new speech
is heard. In the midst of new speech the order alone does not tell, as that may have finals too: there it is one that
reads like a revision. What was typed meanwhile is no speech and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher

ALIKE = 0.5
"""Share of equal words from which a transcript passes for a revision of another one."""


@dataclass(frozen=True, slots=True)
class OpenFinal:
    """A turn whose commit came before its last final.

    Args:
        speech_id: Its answer; empty for a backchannel.
        before, guess, after: Its words: the settled ones, the interim, and what was typed or said after that.
        until: When a final no longer belongs to it; never, where a remote model has heard the words itself.
        item_id: The provider's name of the utterance; empty where it has none.
        was_voice: A VAD heard it: what comes before it hears new speech is of this utterance, whatever it says.
        is_followed: New speech has begun since.
    """

    turn_id: str
    speech_id: str
    before: str = field(repr=False)
    guess: str = field(repr=False)
    after: str = field(repr=False)
    until: float
    item_id: str = ""
    was_voice: bool = False
    is_followed: bool = False

    @property
    def is_remote(self) -> bool:
        """Whether a remote model has heard the words itself, so that nothing that they turn out to be is news to it."""
        return self.until == float("inf")

    def followed(self) -> OpenFinal:
        """Return it as it is once new speech has begun."""
        return replace(self, is_followed=True)

    def gone_on(self, speech_id: str, text: str) -> OpenFinal:
        """Return it as it is once the turn was committed again, with `text` behind its words."""
        return replace(self, speech_id=speech_id, after=_join(self.after, text))

    def settled_by(self, text: str) -> str:
        """Return all words of the turn, given what the utterance was."""
        return _join(self.before, text, self.after)

    def may_be_guessed_again(self, text: str, item_id: str, now: float) -> bool:
        """Whether an interim that comes while no turn is open may be of this utterance."""
        if now > self.until:
            return False
        if self.item_id and item_id:
            return item_id == self.item_id
        return not self.is_followed and (bool(self.item_id) or self.was_voice or self.resembles(text))

    def may_be_settled(self, text: str, item_id: str, now: float, *, is_in_speech: bool) -> bool:
        """Whether a final that comes now may be of this utterance.

        Args:
            is_in_speech: Whether the VAD hears speech.
        """
        if now > self.until:
            return False
        if self.item_id and item_id:
            return item_id == self.item_id
        return not self.is_followed or (is_in_speech and bool(text and self.guess) and self.resembles(text))

    def resembles(self, text: str) -> bool:
        """Whether `text` reads like a revision of the interim, as far as one can tell by the words."""
        guess, revised = _plain(self.guess), _plain(text)
        if guess.startswith(revised) or revised.startswith(guess):
            return True
        return SequenceMatcher(None, guess.split(), revised.split(), autojunk=False).ratio() >= ALIKE

    def is_same(self, text: str) -> bool:
        """Whether nothing but spelling differs."""
        return _plain(self.guess) == _plain(text)


def _join(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _plain(text: str) -> str:
    words = ("".join(letter for letter in word if letter.isalnum()) for word in text.lower().split())
    return " ".join(word for word in words if word)
