"""Namespace: the values of one part of a session's memory, by key."""

from __future__ import annotations

from vivavoce.agents.core.values import Json, decode, decoded, encode, plain
from vivavoce.agents.memory.stores.keys import found, path_of, placed, removed
from vivavoce.agents.memory.stores.limit import within
from vivavoce.agents.memory.stores.store import Place, SessionStore
from vivavoce.pipelines.core.errors import StoreTypeError


class Namespace:
    """Values by key; each method is atomic, also between processes. A dot in a key leads one level deeper.

    Args:
        store: Keeps the values.
        place: The session, and the namespace's name.
        timeout: Seconds for one call; after that it raises StoreUnavailable, and whether it took effect is not known.

    All methods raise ValueError for an illegal key before they reach the store, and StoreUnavailable without it.
    """

    def __init__(self, store: SessionStore, place: Place, *, timeout: float) -> None:
        self._store = store
        self._place = place
        self._timeout = timeout

    async def get(self, key: str, default: Json = None) -> Json:
        """Return a copy of the value of `key`, or `default` if there is none."""
        entry, *inner = path_of(key)
        text = await within(self._timeout, self._store.read(self._place, entry))
        exists, value = (False, None) if text is None else found(decode(text), tuple(inner))
        return value if exists else default

    async def get_all(self) -> dict[str, Json]:
        """Return a copy of all values."""
        return decoded(await within(self._timeout, self._store.read_all(self._place)))

    async def set(self, key: str, value: Json, *, nx: bool = False) -> bool:
        """Set the value of `key`; return whether it was written. Missing parents of a nested key are made.

        Args:
            nx: Write only if the key has no value.
        Raises:
            StoreValueError: The value is no JSON, or longer than 1 MiB.
            StoreTypeError: A parent of a nested key holds something else than an object.
        """
        entry, *inner = path_of(key)
        text = encode(value)
        if not inner:
            return await within(self._timeout, self._store.write(self._place, entry, text, nx=nx))

        def change(before: str | None) -> tuple[str | None, bool]:
            tree = {} if before is None else decode(before)
            if nx and found(tree, tuple(inner))[0]:
                return before, False
            return encode(placed(tree, tuple(inner), value)), True

        return await within(self._timeout, self._store.change(self._place, entry, change))

    async def delete(self, key: str) -> bool:
        """Remove `key` with all that is nested in it; return whether there was a value."""
        entry, *inner = path_of(key)

        def change(before: str | None) -> tuple[str | None, bool]:
            if before is None or not inner:
                return None, before is not None
            tree = decode(before)
            was_there = removed(tree, tuple(inner))
            return encode(tree), was_there

        return await within(self._timeout, self._store.change(self._place, entry, change))

    async def append(self, key: str, value: Json) -> int:
        """Append `value` to the list of `key`, which is begun if there is none; return the list's length.

        Raises:
            StoreTypeError: The key holds no list, or a parent holds something else than an object.
            StoreValueError: The value is no JSON, or the list would become longer than 1 MiB.
        """
        entry, *inner = path_of(key)
        text = encode(value)
        if not inner:
            return await within(self._timeout, self._store.append(self._place, entry, plain(text)))

        def change(before: str | None) -> tuple[str | None, int]:
            tree = {} if before is None else decode(before)
            exists, values = found(tree, tuple(inner))
            if exists and not isinstance(values, list):
                raise StoreTypeError(f"append() needs a list, the key holds a {type(values).__name__}; use set()")
            values = [*(values or []), value]
            return encode(placed(tree, tuple(inner), values)), len(values)

        return await within(self._timeout, self._store.change(self._place, entry, change))

    async def length(self, key: str) -> int:
        """Return the number of values in the list or object of `key`; 0 if there is none.

        Raises:
            StoreTypeError: The key holds something else.
        """
        value = await self.get(key, [])
        if not isinstance(value, list | dict):
            raise StoreTypeError(f"length() needs a list or an object, the key holds a {type(value).__name__}")
        return len(value)
