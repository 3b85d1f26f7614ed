"""Codec: the inputs and effects of a machine as plain data for JSON lines, and back.

Encoding is generic over the types that it is given: a new input, effect or option needs no code here. A frozen
dataclass becomes an object that names its class (`{"is": "UserFinal", "text": "hello"}`), as does everything that JSON
has no word for; a tuple becomes an array. A value that cannot be brought back, such as a function, is named in its
place (`{"is": "opaque", ...}`): it can be shown, and a trace whose options or inputs hold it cannot be replayed.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache, cached_property
from typing import Any, TypeAlias, get_args, get_type_hints

from vivavoce.pipelines.core.errors import TraceError

Plain: TypeAlias = "None | bool | int | float | str | list[Plain] | dict[str, Plain]"
"""Values that JSON can hold."""


@dataclass(frozen=True)
class Codec:
    """The values of one machine.

    Args:
        machine: Its name, in the lines and in errors.
        roots: The types of its inputs, effects and options; the types of their fields are found.
    """

    machine: str
    roots: tuple[Any, ...]

    def encode(self, value: object) -> Plain:
        """Return `value` as plain data; a value that cannot be brought back is only named."""
        match value:
            case None | bool() | int() | str() if type(value) in (type(None), bool, int, str):
                return value
            case float():
                return value if math.isfinite(value) else {"is": "float", "of": str(value)}
            case tuple():
                return [self.encode(item) for item in value]
            case list():
                return {"is": "list", "of": [self.encode(item) for item in value]}
            case frozenset():
                return {"is": "frozenset", "of": sorted((self.encode(item) for item in value), key=json.dumps)}
            case dict():
                return {"is": "dict", "of": [[self.encode(key), self.encode(item)] for key, item in value.items()]}
        name = type(value).__name__
        if self.types.get(name) is not type(value):
            return {"is": "opaque", "what": _named(value)}
        if isinstance(value, Enum):
            return {"is": name, "value": self.encode(value.value)}
        plain: dict[str, Plain] = {"is": name}
        kind: Any = type(value)
        plain.update((field, self.encode(getattr(value, field))) for field in _field_names(kind))
        return plain

    def decode(self, plain: Plain) -> Any:
        """Return the value that `encode` was called with.

        Raises:
            TraceError: It is opaque, of a class that does not exist, or has other fields than its class now.
        """
        if isinstance(plain, list):
            return tuple(self.decode(item) for item in plain)
        if not isinstance(plain, dict):
            return plain
        match plain:
            case {"is": "float", "of": str(text)}:
                return float(text)
            case {"is": "list", "of": list(items)}:
                return [self.decode(item) for item in items]
            case {"is": "frozenset", "of": list(items)}:
                return frozenset(self.decode(item) for item in items)
            case {"is": "dict", "of": list(pairs)}:
                return dict(self.decode(pair) for pair in pairs)
            case {"is": "opaque", "what": what}:
                raise TraceError(f"needed a value that can be recorded, got {what!r}, which a trace can only name")
            case {"is": str(name), **rest} if name in self.types:
                try:
                    return self.types[name](**{key: self.decode(item) for key, item in rest.items()})
                except (TypeError, ValueError) as error:
                    raise TraceError(f"cannot make a {name} of {sorted(rest)}: {error}") from error
        raise TraceError(
            f"needed a class of the {self.machine} machine, got {plain.get('is')!r}; "
            "the trace is of another version of vivavoce"
        )

    @cached_property
    def types(self) -> dict[str, type]:
        """The frozen dataclasses and enumerations that the roots are made of, by name."""
        found: dict[str, type] = {}
        pending: list[Any] = list(self.roots)
        while pending:
            hint = pending.pop()
            pending += get_args(hint)
            if not isinstance(hint, type) or hint in found.values():
                continue
            if is_dataclass(hint) or issubclass(hint, Enum):
                assert hint.__name__ not in found, f"two classes of one machine are named {hint.__name__}"
                found[hint.__name__] = hint
            if is_dataclass(hint):
                pending += get_type_hints(hint).values()
        return found


def opaque_parts(plain: Plain, path: str) -> list[str]:
    """Return the places in `plain` that only name a value, such as "options.policy: app.Policy"."""
    if isinstance(plain, list):
        return [part for number, item in enumerate(plain) for part in opaque_parts(item, f"{path}[{number}]")]
    if not isinstance(plain, dict):
        return []
    if plain.get("is") == "opaque":
        return [f"{path}: {plain.get('what')}"]
    return [
        part
        for key, item in plain.items()
        for part in opaque_parts(item, path if key in ("of", "value") else f"{path}.{key}")
    ]


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.init)


def _named(value: object) -> str:
    """Return a name of the value's kind that is the same in every process."""
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{type(value).__name__} {value.__module__}.{value.__qualname__}"
    return f"{type(value).__module__}.{type(value).__qualname__}"
