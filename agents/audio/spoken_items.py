"""SpokenItems: the items of a realtime model that an utterance contains, and the part of each that was heard."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeardItem:
    """The heard part of one item.

    Args:
        item_id: The model's id of it.
        seconds: Seconds of its audio that were heard.
        text: Its words that were heard.
        share: The heard part of the audio received, 0 to 1.
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
        """The model's ids of the items, in order."""
        return tuple(item_id for item_id, _, _ in self._begins)

    def note(self, item_id: str, sample: int, character: int) -> None:
        """Note that the next audio belongs to the item with that id, or to none with ""."""
        if item_id and (not self._begins or self._begins[-1][0] != item_id):
            self._begins.append((item_id, sample, character))

    def cut_at(self, sample: int, heard: str, *, total: int, rate: int, by_text: bool) -> list[HeardItem]:
        """Return the items that were not heard to their end when `sample` samples had been played.

        The last item counts as cut: more of it may come.

        Args:
            heard: The words heard so far, of all items.
            total: Samples received.
            by_text: Whether the items are text that another voice speaks: the words then decide.
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
