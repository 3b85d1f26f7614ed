"""What docs/telemetry.md says that there is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

TARGET = Path(__file__).parents[2] / "docs/telemetry.md"

_NAME = re.compile(r"`((?:vivavoce|gen_ai|error)\.[\w.*]+)`")
COMMON = ("vivavoce.kind", "vivavoce.session.id", "vivavoce.outcome", "error.type")
"""On any span."""


@dataclass(frozen=True)
class SpanEntry:
    """A kind of span."""

    attributes: tuple[str, ...]
    events: tuple[str, ...]

    def knows(self, attribute: str) -> bool:
        """Whether the attribute is named; `*` stands for anything. What has no dot is an application's."""
        return "." not in attribute or any(fnmatchcase(attribute, name) for name in (*COMMON, *self.attributes))


@cache
def content() -> frozenset[str]:
    """Return the attributes that hold content."""
    return frozenset(name for *_, told in _rows("Spans") for name in re.findall(r"◆`([\w.]+)`", told))


@dataclass(frozen=True)
class MetricEntry:
    """A metric."""

    kind: str
    unit: str
    attributes: tuple[str, ...]


@cache
def spans() -> dict[str, SpanEntry]:
    """Return the kinds of span."""
    found = {}
    for kinds, _, _, told in _rows("Spans"):
        attributes = tuple(_NAME.findall(told))
        events = tuple(re.findall(r"event `(\w+)`", told))
        found.update({kind: SpanEntry(attributes, events) for kind in re.findall(r"`(\w+)`", kinds)})
    return found


@cache
def stages() -> dict[str, str]:
    """Return the stages of a turn, each with its owner."""
    return {name: row[1] for row in _rows("Stages") for name in re.findall(r"`(\w+)`", row[0])}


@cache
def metrics() -> dict[str, MetricEntry]:
    """Return the metrics."""
    found = {}
    for name, what, told in _rows("Metrics"):
        kind, unit = what.split(", ")
        found[name.strip("`")] = MetricEntry(kind, unit, tuple(_NAME.findall(told)))
    return found


def _rows(title: str) -> list[list[str]]:
    """Return the cells of a section's table, without its head."""
    text = TARGET.read_text(encoding="utf-8")
    section = re.split(r"^#+ ", text.partition(f"# {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
