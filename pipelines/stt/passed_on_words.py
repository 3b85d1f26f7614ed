"""PassedOnWords: the words of interims that were passed on as finals, since no recogniser made finals of them."""

from __future__ import annotations

from difflib import SequenceMatcher

from vivavoce.pipelines.core.words import after_common_words, words_of

LATE_FINAL = 5.0
"""Seconds in which the recogniser's own final of such words may still come."""
ALIKE = 0.5
"""Share of equal words above which a final counts as a final of those words."""
SURE_WORDS = 3
"""The number of words above which a repetition is no accident: the caller may repeat fewer words, such as "hello"."""


class PassedOnWords:
    """Knows whether a transcript repeats words that were passed on. It is judged by its words.

    If no words can have been said since, a transcript like those words repeats them, even if revised. Otherwise a
    transcript with a further word may be the caller's correction ("five five one", "no, five six one"): the whole goes
    on, since words that come twice are better than words that are lost.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._until = 0.0
        self._is_followed = False

    def add(self, text: str, now: float) -> None:
        """Note that these words were passed on as a final."""
        self._texts.append(text)
        self._until, self._is_followed = now + LATE_FINAL, False

    def follow(self) -> None:
        """Note that an utterance has ended since, or that other words were shown: a final may belong to these."""
        self._is_followed = True

    def forget(self) -> None:
        """Forget the words: no second final of them can come."""
        self._texts.clear()

    def are_shown(self, text: str, now: float, *, has_vad: bool) -> bool:
        """Return whether an interim, before any new speech, shows only such words again."""
        is_in_time = not self._is_followed and now <= self._until
        return is_in_time and any(self._is_again(passed, text, has_vad) for passed in self._texts)

    def news(self, text: str, now: float, *, has_vad: bool) -> str | None:
        """Return the words of a final that are new, or None if it has only such words.

        Args:
            has_vad: Whether a VAD reports speech, so that it is known whether anything was said since.
        """
        if now > self._until:
            self._texts.clear()
        if not text.strip():
            is_again = bool(self._texts) and not self._is_followed
            self._texts.clear()
            return None if is_again else text
        for passed in list(self._texts):
            size = len(words_of(passed))
            if self._is_followed and size < SURE_WORDS:
                continue
            common, rest = after_common_words(text, passed)
            if common == size and rest:
                text = rest
                self._texts.remove(passed)
            elif self._is_again(passed, text, has_vad):
                self._texts.remove(passed)
                return None
        return text

    def _is_again(self, passed: str, text: str, has_vad: bool) -> bool:
        words = words_of(text)
        match = SequenceMatcher(None, words_of(passed), words, autojunk=False)
        if match.ratio() < ALIKE:
            return False
        if has_vad and not self._is_followed:
            return True
        is_no_chance = len(words) >= SURE_WORDS or not self._is_followed
        return is_no_chance and sum(block.size for block in match.get_matching_blocks()) == len(words)
