"""Keys of a namespace: names joined by dots, each of them one level deeper; and the values at such a place."""

from __future__ import annotations

from vivavoce.agents.core.values import Json
from vivavoce.pipelines.core.errors import StoreTypeError

MAX_KEY = 512
"""Characters of a key."""

Path = tuple[str, ...]
"""The names of a key, from the entry inwards."""


def path_of(key: str) -> Path:
    """Return the names of a key.

    Raises:
        ValueError: It is not a key: not a str, empty or too long, a name in it is empty, or it holds a control
            character.
    """
    if not isinstance(key, str):
        raise ValueError(f"a key must be a str, got {type(key).__name__}")
    names = tuple(key.split("."))
    if not 0 < len(key) <= MAX_KEY or not all(names) or not key.isprintable():
        raise ValueError(
            f"a key needs 1 to {MAX_KEY} printable characters and a name on each side of a dot, got {key[:80]!r}"
        )
    return names


def found(value: Json, path: Path) -> tuple[bool, Json]:
    """Return whether `path` leads to a value inside of `value`, and that value."""
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return False, None
        value = value[name]
    return True, value


def placed(value: Json, path: Path, new: Json) -> Json:
    """Return `value` with `new` at `path`; missing parents are made. `value` is changed where it is a dict.

    Raises:
        StoreTypeError: A parent holds something else than an object.
    """
    if not path:
        return new
    if not isinstance(value, dict):
        raise StoreTypeError(f"the key leads through {path[0]!r} into a value that is no object; delete that one first")
    value[path[0]] = placed(value.get(path[0], {} if len(path) > 1 else None), path[1:], new)
    return value


def removed(value: Json, path: Path) -> bool:
    """Remove the value at `path` from the dict `value`; return whether it existed. Parents stay."""
    exists, parent = found(value, path[:-1])
    if not exists or not isinstance(parent, dict) or path[-1] not in parent:
        return False
    del parent[path[-1]]
    return True
