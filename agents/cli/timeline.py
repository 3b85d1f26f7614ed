"""Timeline: a trace as a table for people: time, source, input, effects, states, next deadline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from vivavoce.agents.graphs.trace import GRAPH
from vivavoce.agents.turn.trace.codec import Plain
from vivavoce.agents.turn.trace.record import TURN
from vivavoce.agents.turn.trace.replay import Difference, RecordedStep, Trace

STATES = {"SetAgentState": "agent", "SetUserState": "user"}
"""Effects that the column of states shows, and the column of effects does not."""
MOVES = {"Moved": "graph"}
"""Effects that both columns show."""


def timeline(trace: Trace) -> Table:
    """Return the steps as a table; times are seconds since the first one."""
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("who", no_wrap=True)
    table.add_column("input", overflow="fold", ratio=4)
    table.add_column("effects", overflow="fold", ratio=5)
    table.add_column("states", no_wrap=True)
    table.add_column("next", justify="right", no_wrap=True)
    for step in sorted((*trace.steps, *trace.graph), key=lambda step: step.line):
        effects = [effect for effect in step.effects or [] if effect.get("is") not in STATES]
        wanted = "\n".join(describe(effect, zero=_zero(trace)) for effect in effects)
        table.add_row(
            _seconds(step.at, trace),
            who(step),
            Text(describe({key: part for key, part in step.event.items() if key != "rules"}, zero=_zero(trace))),
            Text("the machine raised", style="red") if step.effects is None else Text(wanted),
            Text("\n".join(_changes(step))),
            "" if step.deadline is None else _seconds(step.deadline, trace),
        )
    return table


def who(step: RecordedStep) -> str:
    """Return the source of an input, by the words in its name; "graph" for each of the graph's machine."""
    if step.machine == "graph":
        return "graph"
    name = str(step.event["is"])
    for word, source in (
        ("Tick", "clock"),
        ("Session", "session"),
        ("Participant", "room"),
        ("Requested", "app"),
        ("User", "user"),
        ("Recogniser", "user"),
        ("Text", "user"),
        ("Remote", "model"),
        ("Tool", "tools"),
    ):
        if word in name:
            return source
    return "agent"


def describe(plain: Plain, *, zero: float) -> str:
    """Return a value in short: `UserFinal(text='hello')`; fields with their default value are left out.

    Args:
        zero: The beginning of time.
    """
    if isinstance(plain, list):
        return f"({', '.join(describe(item, zero=zero) for item in plain)})"
    if not isinstance(plain, dict):
        return repr(plain)
    name = str(plain.get("is"))
    if set(plain) == {"is", "value"}:
        return str(plain["value"])
    if "of" in plain:
        return f"{name}{describe(plain['of'], zero=zero)}"
    defaults = _defaults(name)
    shown = []
    for key, value in plain.items():
        if key == "is" or (key in defaults and defaults[key] == value):
            continue
        is_time = (key == "at" or key.endswith("_at")) and isinstance(value, float)
        shown.append(f"{key}={value - zero:+.3f}" if is_time else f"{key}={describe(value, zero=zero)}")  # type: ignore[operator]
    return f"{name}({', '.join(shown)})" if shown else name


def difference_lines(difference: Difference, trace: Trace) -> Iterator[Text]:
    """Yield the first difference: the input, the recorded effects (-) and those of the replay (+)."""
    step = difference.step
    yield Text(f"The first difference is at line {step.line}, {_seconds(step.at, trace)} s, in the {difference.what}:")
    yield Text(f"  {describe(step.event, zero=_zero(trace))}")
    sides = (("-", "recorded", difference.recorded, "red"), ("+", "replayed", difference.replayed, "green"))
    for mark, name, value, style in sides:
        if difference.what == "deadline":
            lines = ["none" if value is None else _seconds(value, trace)]
        elif value is None:
            lines = [f"the machine raised{f' {difference.error}' if mark == '+' else ''}"]
        else:
            lines = [describe(effect, zero=_zero(trace)) for effect in value] or ["nothing"]
        for line in lines:
            yield Text(f"{mark} {name}: {line}", style=style)


def _changes(step: RecordedStep) -> Iterator[str]:
    for effect in step.effects or []:
        if (side := (STATES | MOVES).get(str(effect.get("is")))) is not None:
            state = effect.get("state")
            yield f"{side} {state.get('value') if isinstance(state, dict) else state}"


def _zero(trace: Trace) -> float:
    return min((steps[0].at for steps in (trace.steps, trace.graph) if steps), default=0.0)


def _seconds(at: float, trace: Trace) -> str:
    return f"{at - _zero(trace):.3f}"


def _defaults(name: str) -> dict[str, Any]:
    """Return the default values of a kind of input or effect as a trace has them."""
    kind = (GRAPH.types | TURN.types).get(name)
    if not is_dataclass(kind):
        return {}
    defaults = {field.name: field.default for field in fields(kind) if field.default is not MISSING}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in defaults.items()}
