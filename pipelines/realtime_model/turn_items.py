"""TurnItems: the items of the remote conversation that belong to each user turn, so that they can be removed."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class _Item:
    name: str = ""
    is_unwanted: bool = False


class TurnItems:
    """The audio items of one connection, by the session's turns; a turn may have several.

    An item is committed first and named by the server later, perhaps when it is no longer wanted.
    """

    def __init__(self) -> None:
        self._unnamed: deque[_Item] = deque()
        self._open: list[_Item] = []
        self._turns: dict[str, list[_Item]] = {}
        self._last: _Item | None = None

    def committed(self, *, is_told: bool) -> None:
        """The open turn's audio was committed; `is_told`: to a connection, which will name the item."""
        self._last = item = _Item()
        self._open.append(item)
        if is_told:
            self._unnamed.append(item)

    def begin(self, *, has_last: bool) -> None:
        """A new connection has none of these items, except the last one if it received that."""
        self._unnamed.clear()
        for item in (*self._open, *(item for items in self._turns.values() for item in items)):
            item.name = ""
        if has_last and self._last is not None:
            self._unnamed.append(self._last)

    def named(self, name: str) -> bool:
        """The server named the oldest unnamed item, or made one on its own; return whether the item is wanted."""
        item = self._unnamed.popleft() if self._unnamed else None
        if item is None:
            item = _Item()
            self._open.append(item)
        item.name = name
        return not item.is_unwanted

    def bind(self, turn_id: str, last: str = "") -> None:
        """Assign the committed items to this turn.

        Args:
            last: Its newest item, if the server named it: later items belong to the next turn.
        """
        names = [item.name for item in self._open]
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

    def is_last(self, turn_id: str) -> bool:
        """Whether that turn's audio was committed last."""
        return self._last in self._turns.get(turn_id, ())


def _drop(items: list[_Item]) -> list[str]:
    for item in items:
        item.is_unwanted = True
    return [item.name for item in items if item.name]
