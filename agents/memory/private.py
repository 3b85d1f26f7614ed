"""PrivateData: values that only the session's own process has."""

from __future__ import annotations

import threading
from collections.abc import Callable

from vivavoce.agents.core.values import Json, decode, encode
from vivavoce.agents.memory.stores.keys import found, path_of, placed, removed


class PrivateData:
    """Values by key, in this process only; snapshots carry them. Keys and values are those of a `Namespace`.

    Thread-safe: operations that read and then write take the lock.

    Args:
        entries: The texts of the values, which the session copies into its snapshots.
        on_change: Called after each change, in the thread that made it.
    """

    def __init__(self, entries: dict[str, str], on_change: Callable[[], None]) -> None:
        self._entries = entries
        self._on_change = on_change
        self._lock = threading.Lock()

    def get(self, key: str, default: Json = None) -> Json:
        """Return a copy of the value of `key`, or `default` if there is none.

        Raises:
            ValueError: The key is illegal.
        """
        entry, *inner = path_of(key)
        text = self._entries.get(entry)
        exists, value = (False, None) if text is None else found(decode(text), tuple(inner))
        return value if exists else default

    def set(self, key: str, value: Json) -> None:
        """Set the value of `key`; missing parents of a nested key are made.

        Raises:
            ValueError: The key is illegal.
            StoreValueError: The value is no JSON, or longer than 1 MiB.
            StoreTypeError: A parent of a nested key holds something else than an object.
        """
        entry, *inner = path_of(key)
        text = encode(value)
        with self._lock:
            if inner:
                text = encode(placed(decode(self._entries.get(entry, "{}")), tuple(inner), value))
            self._entries[entry] = text
        self._on_change()

    def delete(self, key: str) -> bool:
        """Remove `key` with all that is nested in it; return whether there was a value.

        Raises:
            ValueError: The key is illegal.
        """
        entry, *inner = path_of(key)
        with self._lock:
            if inner:
                tree = decode(self._entries.get(entry, "{}"))
                was_there = removed(tree, tuple(inner))
                if was_there:
                    self._entries[entry] = encode(tree)
            else:
                was_there = self._entries.pop(entry, None) is not None
        if was_there:
            self._on_change()
        return was_there
