"""SpokenItems: of which items of a realtime model an utterance is made, and how much of each was heard."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeardItem:
    """What was heard of one item.

    Args:
        item_id: What the model calls it.
        seconds: Of its audio.
        text: Of its words.
        share: Of the audio that has come, 0 to 1.
    """

    item_id: str
    seconds: float
    text: str
    share: float


class SpokenItems:
    """Notes where each item begins, in samples and in characters of the utterance."""

    def __init__(self) -> None:
        self._begins: list[tuple[str, int, int]] = []

    @property
    def ids(self) -> tuple[str, ...]:
        """What the model calls them, in order."""
        return tuple(item_id for item_id, _, _ in self._begins)

    def note(self, item_id: str, sample: int, character: int) -> None:
        """What comes next is part of that item; empty: of none."""
        if item_id and (not self._begins or self._begins[-1][0] != item_id):
            self._begins.append((item_id, sample, character))

    def cut_at(self, sample: int, heard: str, *, total: int, rate: int, by_text: bool) -> list[HeardItem]:
        """Return the items that were not heard to their end when `sample` samples were played.

        The last one counts as cut: more of it may be on its way.

        Args:
            heard: The words heard so far, of all items.
            total: Samples that have come.
            by_text: Whether the items are text, spoken by another voice: then words tell what was heard.
        """
        found = []
        for number, (item_id, start, character) in enumerate(self._begins):
            is_last = number + 1 == len(self._begins)
            end, last_character = (total, len(heard)) if is_last else self._begins[number + 1][1:]
            is_whole = len(heard) >= last_character if by_text else sample >= end
            if is_whole and not is_last:
                continue
            text = heard[character:last_character].strip()
            played = max(0, min(sample, end) - start)
            if by_text:
                played = sample if text else 0
            share = played / (end - start) if end > start else 0.0
            found.append(HeardItem(item_id, played / rate, text, share))
        return found
