"""docs/events.md, made from the events' classes: `make reference` writes it, a test fails if it is out of date.

A field is explained in the class docstring: under `Args:`, or by its name in backticks.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from docs.options_reference import cell, code

from kit.public_names import HOMES
from vivavoce.agents import events
from vivavoce.agents.events import EVENT_TYPES, SessionEvent
from vivavoce.agents.states import AgentState, CloseReason, UserState
from vivavoce.pipelines.core.field_docs import fields_in_source

TARGET = Path(__file__).parents[2] / "docs" / "events.md"

HEADER = """# Events

Every event of a session, with its fields. A handler is added by class or by name, before or after `start()`:

```python
from vivavoce.agents.events import UserTranscript

session.on(UserTranscript, lambda event: print(event.text))
session.on("user_transcript", show)  # or: @session.on("user_transcript")
```

The classes come from `vivavoce.agents.events`. A handler gets the event as its only argument. `once()` adds a handler
for the next such event only, `off()` removes one. Made from the source by `make reference`.
"""

STATES: tuple[type[StrEnum], ...] = (UserState, AgentState, CloseReason)


@dataclass(frozen=True)
class EventField:
    """A field, in the words of the source."""

    name: str
    type: str
    text: str


def summary_of(cls: type) -> str:
    """Return the class docstring up to its `Args:`."""
    return inspect.cleandoc(cls.__doc__ or "").partition("\nArgs:")[0].strip()


def explained(cls: type) -> dict[str, str]:
    """Return the texts under `Args:` of a class docstring, by name."""
    found: dict[str, str] = {}
    for line in inspect.cleandoc(cls.__doc__ or "").partition("\nArgs:\n")[2].splitlines():
        entry = re.match(r" {4}(\w+(?:, \w+)*): (.*)", line)
        if entry is not None:
            found[entry[1]] = entry[2]
        else:
            found[next(reversed(found))] += f" {line.strip()}"
    return found


def fields_of(cls: type[SessionEvent]) -> Iterator[EventField]:
    """Yield the event's own fields, without those of every event."""
    texts = explained(cls)
    for name in cls.__annotations__:
        statement, _ = fields_in_source(cls)[name]
        if not ast.unparse(statement.annotation).startswith("ClassVar"):
            yield EventField(name, ast.unparse(statement.annotation), texts.get(name, ""))


def places() -> dict[str, str]:
    """Return the modules of the types that fields of events have, by name."""
    modules = {inspect.getmodule(cls) or events for cls in EVENT_TYPES}
    imported = {
        alias.name: statement.module
        for module in modules
        for statement in ast.parse(inspect.getsource(module)).body
        if isinstance(statement, ast.ImportFrom) and statement.module
        for alias in statement.names
    }
    types = " ".join(field.type for cls in EVENT_TYPES for field in fields_of(cls))
    named = [name for name in sorted(set(re.findall(r"\b[A-Z]\w+", types))) if name in imported]
    found = {name: HOMES.get(name, imported[name]) for name in named}
    return {name: module for name, module in found.items() if module != "typing"}


def render() -> str:
    """Return the whole reference."""
    classes = sorted(EVENT_TYPES, key=lambda cls: cls.name)
    index = ", ".join(f"[{cls.name}](#{cls.name})" for cls in classes)
    types = "\n".join(f"- `from {module} import {name}`" for name, module in places().items())
    parts = [HEADER, f"{index}\n", "## Every event\n", _table(SessionEvent), "## One by one\n"]
    parts += [f"### {cls.name}\n\n`{cls.__name__}`: {summary_of(cls)}\n\n{_table(cls)}" for cls in classes]
    parts += ["## States and reasons\n", *(_values(states) for states in STATES)]
    return "\n".join([*parts, "## Types of fields\n", types + "\n"])


def _table(cls: type[SessionEvent]) -> str:
    rows = [f"| {code(each.name)} | {code(each.type)} | {cell(each.text)} |\n" for each in fields_of(cls)]
    return "".join(["| field | type | meaning |\n|---|---|---|\n", *rows]) if rows else "No fields of its own.\n"


def _values(states: type[StrEnum]) -> str:
    (tree,) = ast.parse(inspect.getsource(states)).body
    assert isinstance(tree, ast.ClassDef)
    texts: dict[str, str] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            last = ast.literal_eval(statement.value)
            texts[last] = ""
        elif isinstance(statement, ast.Expr) and texts:
            texts[last] = " ".join(ast.literal_eval(statement.value).split())
    lines = [f"- {code(value)}" + (f": {text}" if text else "") for value, text in texts.items()]
    return f"### {states.__name__}\n\n{summary_of(states)}\n\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
    print(f"wrote {TARGET}")
