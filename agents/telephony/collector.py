"""KeyCollector: makes one entry of the keys that a caller presses. No clock and no I/O: the caller gives the time."""

from __future__ import annotations

from dataclasses import dataclass, field

from vivavoce.agents.states import KeysEnd
from vivavoce.agents.telephony.key_entry import KeyEntry


@dataclass(frozen=True, slots=True)
class EnteredKeys:
    """An entry.

    Args:
        keys: The keys, without the terminator; empty if only the terminator came, or none at all.
        end: The end of the entry: the `terminator`, its `length`, a `pause`, its `limit` of keys or seconds, or `none`
            if no key came.
    """

    keys: str = field(repr=False)
    end: KeysEnd


class KeyCollector:
    """One entry at a time.

    Args:
        entry: How keys become an entry.
        first_by: When the first key must have come; None: there is no such limit.
    """

    def __init__(self, entry: KeyEntry, *, first_by: float | None = None) -> None:
        self.entry = entry
        self._first_by = first_by
        self._keys = ""
        self._next_by: float | None = None
        self._over_at: float | None = None

    @property
    def has_begun(self) -> bool:
        """Whether a key has come since the last entry."""
        return self._over_at is not None

    @property
    def deadline(self) -> float | None:
        """When `expire` is due; None: never."""
        if self._next_by is None or self._over_at is None:
            return self._first_by
        return min(self._next_by, self._over_at)

    def press(self, key: str, now: float) -> EnteredKeys | None:
        """Take a key; return the entry that it completes."""
        if self._over_at is None:
            self._over_at = now + self.entry.limit
        self._next_by = now + self.entry.pause
        if key == self.entry.terminator:
            return self._take("terminator")
        self._keys += key
        if len(self._keys) == self.entry.length:
            return self._take("length")
        return self._take("limit") if len(self._keys) == self.entry.max_length else None

    def expire(self, now: float) -> EnteredKeys | None:
        """Return the entry that is over by now, if `deadline` has come."""
        if self.deadline is None or now < self.deadline:
            return None
        if self._over_at is None:
            return self._take("none")
        return self._take("limit" if now >= self._over_at else "pause")

    def drop(self) -> None:
        """Forget the keys of an entry that is not complete."""
        self._take("none")

    def _take(self, end: KeysEnd) -> EnteredKeys:
        keys, self._keys = self._keys, ""
        self._first_by = self._next_by = self._over_at = None
        return EnteredKeys(keys, end)
