"""Finding: the result of one check, with its remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from rich.table import Table
from rich.text import Text


class Health(StrEnum):
    """State of a checked thing."""

    OK = "ok"
    ABSENT = "absent"
    """Missing without harm: no part in use needs it."""
    WARNING = "warning"
    """It works, but not always."""
    PROBLEM = "problem"
    """It does not work."""


MARKS = {
    Health.OK: ("✓", "green"),
    Health.ABSENT: ("–", "dim"),
    Health.WARNING: ("!", "yellow"),
    Health.PROBLEM: ("✗", "bold red"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Args:
        found: The state as text; secrets are masked.
        remedy: The remedy; empty if none is needed.
    """

    name: str
    health: Health
    found: str
    remedy: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def is_healthy(findings: Sequence[Finding]) -> bool:
    """Return whether nothing is broken."""
    return not any(finding.health is Health.PROBLEM for finding in findings)


def as_table(findings: Sequence[Finding]) -> Table:
    """Return them as a table for people, with the remedies below."""
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        mark, style = MARKS[finding.health]
        found = Text(finding.found, "dim" if finding.health is Health.ABSENT else "")
        if finding.remedy:
            found.append(f"\n→ {finding.remedy}", "" if finding.health is Health.ABSENT else "bold")
        table.add_row(Text(mark, style), Text(finding.name, "bold"), found)
    return table
