"""The content of docs/telemetry.md as data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TARGET = Path(__file__).parents[2] / "docs/telemetry.md"

COMMON = ("vivavoce.kind", "vivavoce.session.id", "vivavoce.outcome", "error.type")
"""On any span."""
EXCEPTION = ("exception.type", "exception.message", "exception.stacktrace")
"""Of the event that any span may have."""

_NAME = re.compile(r"`((?:vivavoce|gen_ai|error)\.[\w.*{}]+)`")


@dataclass(frozen=True)
class SpanEntry:
    """A kind of span."""

    attributes: frozenset[str]
    events: Mapping[str, frozenset[str]]
    link: str = ""
    """The attribute of its links."""

    def unknown(self, attributes: Mapping[str, object]) -> list[str]:
        """Return the attributes that are not named here. A name without a dot is an application's."""
        known = {*COMMON, *self.attributes}
        named = [name for name in attributes if "." in name and not name.startswith("vivavoce.options.")]
        return [name for name in named if name not in known]


@dataclass(frozen=True)
class MetricEntry:
    """A metric."""

    kind: str
    unit: str
    attributes: frozenset[str]


@cache
def spans() -> dict[str, SpanEntry]:
    """Return the kinds of span."""
    found = {}
    for kinds, _, _, told in _rows("Spans"):
        told, _, link = told.partition("; link ")
        own, *events = re.split(r"; event ", told)
        entry = SpanEntry(
            _expanded(own), {event.split("`")[1]: _expanded(event) for event in events}, "".join(_NAME.findall(link))
        )
        found.update(dict.fromkeys(re.findall(r"`(\w+)`", kinds), entry))
    return found


@cache
def content() -> frozenset[str]:
    """Return the attributes that hold content."""
    return frozenset(name for *_, told in _rows("Spans") for name in re.findall(r"◆`([\w.]+)`", told))


@cache
def values() -> dict[str, frozenset[str]]:
    """Return the attributes with a closed list of values, with those."""
    return {_NAME.findall(name)[0]: frozenset(re.findall(r"`(\w+)`", told)) for name, told in _rows("Values")}


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
        component = () if told.startswith("none") else ("gen_ai.provider.name", "gen_ai.request.model")
        found[name.strip("`")] = MetricEntry(kind, unit, frozenset((*component, *_NAME.findall(told))))
    return found


def _expanded(told: str) -> frozenset[str]:
    """Return the attributes, with each placeholder expanded."""
    found = set()
    for name in _NAME.findall(told):
        if "{part}" in name:
            parts = re.findall(r"`(\w+)`", told.partition("for each of ")[2].partition(":")[0])
            found |= {name.replace("{part}", part) for part in parts}
        elif "{stage}" in name:
            found |= {name.replace("{stage}", stage) for stage in stages()}
        else:
            found.add(name)
    return frozenset(found)


def _rows(title: str) -> list[list[str]]:
    """Return the cells of a section's table, without its head."""
    text = TARGET.read_text(encoding="utf-8")
    section = re.split(r"^#+ ", text.partition(f"# {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
