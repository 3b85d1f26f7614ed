"""Trace: the inputs and effects of a turn machine as plain data for JSON lines, and back.

Encoding is generic over the types of `TurnInput`, `Effect` and `TurnOptions`: a new input, effect or option needs
no code here. A frozen dataclass becomes an object that names its class (`{"is": "UserFinal", "text": "hello"}`), as
does everything that JSON has no word for; a tuple becomes an array. A value that cannot be brought back, such as a
function, is named in its place (`{"is": "opaque", ...}`): it can be shown, and a trace whose options or inputs hold it
cannot be replayed.

A trace is one line for the beginning, one for each input, one for the end:

    {"trace": "vivavoce", "format": 3, "version": "0.1.0", "rules": "1f0e2d3c4b5a", "session": "session_1",
     "began_at": 1767225600.0, "options": {"is": "TurnOptions", ...}, "not_replayable": []}
    {"at": 4.5, "input": {"is": "SessionStarting"}, "effects": [{"is": "SetAgentState", ...}], "deadline": null}
    {"end": "closed"}

Times are the session clock's, exact to the bit. The user's words are in it: they are inputs. `rules` shows a reader
whether the machine that wrote it had other code (`agents.session.trace_rules`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeAlias, get_args, get_type_hints

from vivavoce.agents.turn.effects import Effect
from vivavoce.agents.turn.inputs import TurnInput
from vivavoce.agents.turn.machine import TurnMachine
from vivavoce.agents.turn.options import TurnOptions
from vivavoce.pipelines.core.errors import TraceError

FORMAT = 3
"""Of the lines. Inputs or effects that change, or all of the rules, make a new one. An added input, which old traces
lack, does not, and neither does a single rule: `rules` shows that."""
OLDEST_FORMAT = 1
"""The oldest one that can still be read and shown. Only `FORMAT` is replayed: the rules have changed since."""

Plain: TypeAlias = "None | bool | int | float | str | list[Plain] | dict[str, Plain]"
"""Values that JSON can hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStep:
    """One input with its effects.

    Args:
        now: Session clock, seconds.
        effects: None when the machine raised.
        deadline: The machine's next one.
    """

    now: float
    event: TurnInput
    effects: tuple[Effect, ...] | None
    deadline: float | None


class RecordedMachine(TurnMachine):
    """A turn machine that reports each step; a machine without a trace costs nothing for it.

    Args:
        record: Called with each step, also with one in which the machine raised.
    """

    def __init__(self, options: TurnOptions, record: Callable[[TraceStep], None]) -> None:
        super().__init__(options)
        self._record = record

    def handle(self, event: TurnInput, *, now: float) -> list[Effect]:
        """Take one input and return the effects to carry out, in order."""
        try:
            effects = super().handle(event, now=now)
        except BaseException:
            self._record(TraceStep(now=now, event=event, effects=None, deadline=None))
            raise
        self._record(TraceStep(now=now, event=event, effects=tuple(effects), deadline=self.next_deadline()))
        return effects


# --- lines


def header_line(options: TurnOptions, *, session_id: str, version: str, began_at: float, rules: str = "") -> str:
    """Return the first line of a trace.

    Args:
        version: Of vivavoce.
        rules: The fingerprint of the machine's rules.
        began_at: Wall time, seconds since the Unix epoch.
    """
    plain = encode(options)
    return _line(
        {
            "trace": "vivavoce",
            "format": FORMAT,
            "version": version,
            "rules": rules,
            "session": session_id,
            "began_at": began_at,
            "options": plain,
            "not_replayable": list(opaque_parts(plain, "options")),
        }
    )


def step_line(step: TraceStep) -> str:
    """Return the line of a step."""
    effects = None if step.effects is None else encode(step.effects)
    return _line({"at": step.now, "input": encode(step.event), "effects": effects, "deadline": step.deadline})


def end_line(why: str) -> str:
    """Return the last line of a trace: "closed", or the reason why there is no more."""
    return _line({"end": why})


def _line(plain: Plain) -> str:
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


# --- values


def encode(value: object) -> Plain:
    """Return `value` as plain data; a value that cannot be brought back is only named."""
    match value:
        case None | bool() | int() | str() if type(value) in (type(None), bool, int, str):
            return value
        case float():
            return value if math.isfinite(value) else {"is": "float", "of": str(value)}
        case tuple():
            return [encode(item) for item in value]
        case list():
            return {"is": "list", "of": [encode(item) for item in value]}
        case frozenset():
            return {"is": "frozenset", "of": sorted((encode(item) for item in value), key=json.dumps)}
        case dict():
            return {"is": "dict", "of": [[encode(key), encode(item)] for key, item in value.items()]}
    name = type(value).__name__
    if known_types().get(name) is not type(value):
        return {"is": "opaque", "what": _named(value)}
    if isinstance(value, Enum):
        return {"is": name, "value": encode(value.value)}
    plain: dict[str, Plain] = {"is": name}
    kind: Any = type(value)
    plain.update((field, encode(getattr(value, field))) for field in _field_names(kind))
    return plain


def decode(plain: Plain) -> Any:
    """Return the value that `encode` was called with.

    Raises:
        TraceError: It is opaque, of a class that does not exist, or of other fields than its class has now.
    """
    if isinstance(plain, list):
        return tuple(decode(item) for item in plain)
    if not isinstance(plain, dict):
        return plain
    match plain:
        case {"is": "float", "of": str(text)}:
            return float(text)
        case {"is": "list", "of": list(items)}:
            return [decode(item) for item in items]
        case {"is": "frozenset", "of": list(items)}:
            return frozenset(decode(item) for item in items)
        case {"is": "dict", "of": list(pairs)}:
            return dict(decode(pair) for pair in pairs)
        case {"is": "opaque", "what": what}:
            raise TraceError(f"needed a value that can be recorded, got {what!r}, which a trace can only name")
        case {"is": str(name), **rest} if name in known_types():
            try:
                return known_types()[name](**{key: decode(item) for key, item in rest.items()})
            except (TypeError, ValueError) as error:
                raise TraceError(f"cannot make a {name} of {sorted(rest)}: {error}") from error
    raise TraceError(
        f"needed a class of the turn machine, got {plain.get('is')!r}; the trace is of another version of vivavoce"
    )


def opaque_parts(plain: Plain, path: str) -> list[str]:
    """Return the places in `plain` with a value that is only named, such as "options.policy: app.Policy"."""
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
def known_types() -> dict[str, type]:
    """Return, by name, the frozen dataclasses and enumerations that inputs, effects and options are made of."""
    found: dict[str, type] = {}
    pending: list[Any] = [TurnInput, Effect, TurnOptions]
    while pending:
        hint = pending.pop()
        pending += get_args(hint)
        if not isinstance(hint, type) or hint in found.values():
            continue
        if is_dataclass(hint) or issubclass(hint, Enum):
            assert hint.__name__ not in found, f"two classes of the turn machine are named {hint.__name__}"
            found[hint.__name__] = hint
        if is_dataclass(hint):
            pending += get_type_hints(hint).values()
    return found


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.init)


def _named(value: object) -> str:
    """Return a name of the value's kind, the same in every process."""
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{type(value).__name__} {value.__module__}.{value.__qualname__}"
    return f"{type(value).__module__}.{type(value).__qualname__}"
