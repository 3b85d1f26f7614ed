"""The budget in a store: limits and use as entries of one namespace, and a log of the amounts that others report.

| place | content |
|---|---|
| namespace `budget`, entry `allocation` | the limits, and `revision`, which grows with each change |
| namespace `budget`, entry `use` | the account's use (`Account.to_json`), and `reports`, the index of the next report |
| log `budget:reports` | amounts that other processes have reported |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vivavoce.agents.budget.amounts import Allocation, Kind, allocation_of
from vivavoce.agents.core.values import decode, encode

NAMESPACE = "budget"
REPORTS = "budget:reports"
ALLOCATION, USE = "allocation", "use"

KEPT_REPORTS = 10_000
"""Reports that the store keeps for a session which does not take them."""
READ_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class KeptAllocation:
    """The limits in a store, with their revision."""

    limits: Allocation
    revision: int

    def to_text(self) -> str:
        return encode({**self.limits.to_json(), "revision": self.revision})


def allocation_from(text: str) -> KeptAllocation:
    """Return the limits of an entry."""
    data = decode(text)
    return KeptAllocation(allocation_of(data), int(data.get("revision", 0)))


def report_from(text: str) -> dict[Kind, float]:
    """Return the amounts of a report."""
    data: Mapping[Kind, Any] = decode(text)
    return {kind: float(amount) for kind, amount in data.items()}
