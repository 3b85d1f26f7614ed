"""TurnItems: the items of the remote conversation that belong to each user turn, and their names and transcripts.

An item is committed first and named by the server later, perhaps when it is no longer wanted. It has one name for the
session, for its whole life, which no other item has. A connection that replaces another one may be given the item's
audio again: that connection has a name of its own for it, by which the item's transcripts come there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace

from vivavoce.pipelines.realtime_model.events import RealtimeTranscript


@dataclass(eq=False, slots=True)
class TurnItem:
    """One item of the user's audio.

    Args:
        name: Its name at the present connection; empty if that has not named it, or does not have it.
        known_as: Its name for the session: the first one that it got.
        is_servers: The server has committed it on its own.
        is_unwanted: Its turn was dropped.
        is_transcribed: Its words are known.
        is_saved: The newest handle by which a connection can be resumed holds it.
        is_restored: The present connection was resumed by such a handle.
    """

    name: str = ""
    known_as: str = ""
    is_servers: bool = False
    is_unwanted: bool = False
    is_transcribed: bool = False
    is_saved: bool = False
    is_restored: bool = False


class HeardItems:
    """The items of one connection, by its own names for them, and the words that it still owes.

    Args:
        taken: Names for the session that items have, those of other connections included.
        transcribes: Whether the connection sends transcripts of the user.
    """

    def __init__(self, taken: set[str], *, transcribes: bool) -> None:
        self._taken = taken
        self._transcribes = transcribes
        self._unnamed: deque[TurnItem] = deque()
        self._named: dict[str, TurnItem] = {}

    @property
    def owes_words(self) -> bool:
        """Whether transcripts of committed items have not come."""
        open_items = [*self._unnamed, *self._named.values()]
        return self._transcribes and any(not (item.is_transcribed or item.is_unwanted) for item in open_items)

    @property
    def awaits_names(self) -> bool:
        """Whether an item has no name yet."""
        return bool(self._unnamed)

    def awaits_name(self, item: TurnItem) -> bool:
        """Whether it has the item, and has not named it yet."""
        return item in self._unnamed

    def committed(self, item: TurnItem) -> None:
        """The connection was given the item's audio, and will name it."""
        self._unnamed.append(item)

    def name(self, name: str) -> tuple[TurnItem, bool]:
        """Give the oldest unnamed item this name, or make an item that the server committed on its own.

        Returns:
            The item, and whether the session did not have a name for it.
        """
        item = self._unnamed.popleft() if self._unnamed else TurnItem(is_servers=True)
        known = self._named.get(name)
        is_new = not item.known_as
        if known is None and is_new:
            item.known_as = self._new_name(name)
        elif known is not None:  # its transcript came first
            item.is_transcribed = item.is_transcribed or known.is_transcribed
            item.known_as = item.known_as or known.known_as
        self._named[name] = item
        return item, is_new

    def take(self, transcript: RealtimeTranscript) -> RealtimeTranscript | None:
        """Return a transcript under its item's name for the session; None if the item's last one has come before."""
        if not transcript.item_id:
            return transcript
        item = self._named.get(transcript.item_id)
        if item is None:
            item = self._named[transcript.item_id] = TurnItem(known_as=self._new_name(transcript.item_id))
        if item.is_transcribed:
            return None
        item.is_transcribed = transcript.is_final
        return replace(transcript, item_id=item.known_as)

    def known_as(self, name: str) -> str:
        """Return the session's name for the item that it has named so."""
        item = self._named.get(name)
        return name if item is None else item.known_as

    def has(self, name: str) -> bool:
        """Whether it has named an item so."""
        return name in self._named

    def forget(self, item: TurnItem) -> None:
        """Another connection names that item."""
        if item in self._unnamed:
            self._unnamed.remove(item)

    def give_up_names(self) -> int:
        """The connection names nothing any more; return how many items never get a name."""
        lost = sum(1 for item in self._unnamed if not item.known_as)
        self._unnamed.clear()
        return lost

    def _new_name(self, name: str) -> str:
        unique, number = name, 1
        while unique and unique in self._taken:  # a server may number the items of each connection
            number += 1
            unique = f"{name}.{number}"
        self._taken.add(unique)
        return unique


class TurnItems:
    """The session's items of the user's audio, by its turns; a turn may have several."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        """The session's names of items."""
        self._untold: list[TurnItem] = []
        """Items that were committed while there was no connection."""
        self._open: list[TurnItem] = []
        self._turns: dict[str, list[TurnItem]] = {}
        self._last: TurnItem | None = None

    def committed(self, heard: HeardItems | None) -> None:
        """The open turn's audio was committed to that connection; None: to none."""
        self._last = item = TurnItem()
        self._open.append(item)
        if heard is not None:
            heard.committed(item)
        else:
            self._untold.append(item)

    def begin(self, heard: HeardItems, *, has_last: bool, is_resumed: bool, before: Iterable[HeardItems] = ()) -> int:
        """A new connection has none of these items, except the last one if it received that; return how many items
        never get a name, since no connection has heard them.

        Args:
            is_resumed: It has those that its handle holds.
            before: Those of connections that still owe words; the new one names the last item in their place.
        """
        for item in self._all:
            item.name, item.is_restored = "", is_resumed and item.is_saved
        lost = sum(1 for item in self._untold if not (has_last and item is self._last))
        self._untold.clear()
        if has_last and self._last is not None:
            for other in before:
                other.forget(self._last)
            heard.committed(self._last)
        return lost

    def saved(self) -> None:
        """The server has given a handle that holds all items."""
        for item in self._all:
            item.is_saved = True

    def named(self, item: TurnItem, name: str) -> None:
        """The present connection has named the item."""
        item.name = name
        if item.is_servers:
            self._open.append(item)

    def bind(self, turn_id: str, last: str = "") -> None:
        """Assign the committed items to this turn.

        Args:
            last: Its newest item, if the server named it: later items belong to the next turn.
        """
        names = [item.known_as for item in self._open]
        end = names.index(last) + 1 if last and last in names else len(names)
        bound, self._open = self._open[:end], self._open[end:]
        if bound:
            self._turns.setdefault(turn_id, []).extend(bound)

    def drop(self, turn_id: str) -> list[str]:
        """Return the names of a dropped turn's items; items that are named later are unwanted too."""
        return _drop(self._turns.pop(turn_id, []))

    def drop_open(self) -> list[str]:
        """Return the names of the open turn's items, which is dropped; as `drop()`."""
        dropped, self._open = self._open, []
        return _drop(dropped)

    def are_heard(self, turn_id: str, heard: HeardItems) -> bool:
        """Whether the present connection has heard that turn itself."""
        items = self._turns.get(turn_id, ())
        return bool(items) and all(item.name or item.is_restored or heard.awaits_name(item) for item in items)

    def is_last(self, turn_id: str) -> bool:
        """Whether that turn's audio was committed last."""
        return self._last in self._turns.get(turn_id, ())

    @property
    def are_words_known(self) -> bool:
        """Whether the words of the audio that was committed last are known."""
        return self._last is not None and self._last.is_transcribed

    @property
    def _all(self) -> list[TurnItem]:
        return [*self._open, *(item for items in self._turns.values() for item in items)]


def _drop(items: list[TurnItem]) -> list[str]:
    for item in items:
        item.is_unwanted = True
    return [item.name for item in items if item.name]
