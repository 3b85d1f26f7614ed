"""Account: counts the use of a budget and decides when a limit is near or reached. Pure: no clock, no store, no task.

The level of each kind rises to a warning and to its limit, with a decision for each step up, and falls without one. A
changed limit is judged anew. The latency is judged once five turns were answered.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from fractions import Fraction
from statistics import median
from types import MappingProxyType
from typing import Any, Literal

from vivavoce.agents.budget.amounts import KINDS, NO_LIMIT, Allocation, Kind
from vivavoce.agents.budget.price import Price
from vivavoce.agents.records import UsageRecord
from vivavoce.agents.turn_records.turn_record import add_usage

NO_USAGE: Mapping[str, UsageRecord] = MappingProxyType({})
TURNS = 5
"""Turns whose median latency counts. Also the number of new turns or scores after which a limit is judged anew."""

_LEVELS: tuple[Literal["near", "reached"], ...] = ("near", "reached")


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision that a limit is near, so that a warning is due, or that it is reached.

    Args:
        use: The amount that was used, or the mean or median of it.
        limit: The allocation.
    """

    level: Literal["near", "reached"]
    kind: Kind
    use: float
    limit: float


@dataclass(frozen=True, slots=True)
class _Earlier:
    """The use of the sessions that this session continues."""

    usage: Mapping[str, UsageRecord] = field(default_factory=dict)
    cost: Fraction = Fraction()
    scores: tuple[float, int] = (0.0, 0)
    latencies: tuple[float, ...] = ()
    changes: int = 0


class Account:
    """The use and the limits of one call.

    Args:
        warn_at: Share of a limit at which it is near.
        price_of: Returns the price of a model by name, or None if it is free.
        usage: The usage of each model of this session by name, which others count.
    """

    def __init__(
        self,
        allocation: Allocation,
        *,
        warn_at: float,
        price_of: Callable[[str], Price | None],
        usage: Mapping[str, UsageRecord] = NO_USAGE,
    ) -> None:
        self.allocation = allocation
        self._warn_at = warn_at
        self._price_of = price_of
        self._earlier = _Earlier()
        self._changes = 0
        """Changes of the use in this session."""
        self._usage = usage
        self._reported = Fraction()
        """The cost that others have reported; exact."""
        self._scores, self._score_count = 0.0, 0
        self._latencies: deque[float] = deque(maxlen=TURNS)
        self._levels: dict[Kind, int] = dict.fromkeys(KINDS, 0)
        self._due: dict[Kind, int] = {"cost": 0, "accuracy": 1, "latency": TURNS}
        """How many values each kind still needs before it is judged."""

    # --- inputs

    def used(self) -> list[Decision]:
        """Note that a model was used; its amounts are in `usage` already."""
        return self._changed("cost")

    def spent(self, cost: float) -> list[Decision]:
        """Add `cost` of something other than a model."""
        self._reported += Fraction(cost)
        return self._changed("cost")

    def answered(self, latency: float) -> list[Decision]:
        """Add the latency of a turn with an audible answer, in seconds."""
        self._latencies.append(latency)
        return self._changed("latency")

    def scored(self, score: float) -> list[Decision]:
        """Add a score that the application has recorded."""
        self._scores += score
        self._score_count += 1
        return self._changed("accuracy")

    def report(self, uses: Mapping[Kind, float]) -> list[Decision]:
        """Add amounts that code of the application has reported."""
        takes = {"cost": self.spent, "accuracy": self.scored, "latency": self.answered}
        return [decision for kind, amount in uses.items() for decision in takes[kind](amount)]

    def allocate(self, allocation: Allocation) -> list[Decision]:
        """Replace the limits; those that have changed are judged anew."""
        before, self.allocation = self.allocation.to_json(), allocation
        changed = [kind for kind in KINDS if before[kind] != allocation.to_json()[kind]]
        for kind in changed:
            self._levels[kind] = 0
        return [decision for kind in changed for decision in self._judge(kind)]

    def judge_anew(self, kind: Kind) -> None:
        """Judge a limit again, since something was done about it: the cost at once, the others after five new
        values."""
        self._levels[kind] = min(self._levels[kind], 1)
        self._due[kind] = 0 if kind == "cost" else TURNS

    # --- reading

    @property
    def is_over(self) -> bool:
        """Whether the cost has reached its limit."""
        return self._level("cost") == len(_LEVELS)

    def has_reached(self, kind: Kind) -> bool:
        """Return whether the use has reached a limit, by the values so far."""
        return self._level(kind) == len(_LEVELS)

    @property
    def changes(self) -> int:
        """The number of changes of the use, in earlier sessions and in this one."""
        return self._earlier.changes + self._changes

    @property
    def earlier_changes(self) -> int:
        """The number of changes of the use in earlier sessions."""
        return self._earlier.changes

    @property
    def cost(self) -> float:
        return math.fsum([*self.costs.values(), float(self._earlier.cost + self._reported)])

    @property
    def costs(self) -> dict[str, float]:
        """The cost of each model of this session."""
        return {name: _cost(self._price_of(name), used) for name, used in self._usage.items()}

    @property
    def usage(self) -> dict[str, UsageRecord]:
        """The usage of each model, earlier sessions included."""
        before, nothing = self._earlier.usage, UsageRecord()
        names = dict.fromkeys([*before, *self._usage])
        return {name: add_usage(before.get(name, nothing), self._usage.get(name, nothing)) for name in names}

    def use(self) -> dict[str, float | None]:
        """Return cost, mean score and median latency; each is None while it has no value."""
        return {kind: self._use(kind) for kind in KINDS}

    def _use(self, kind: Kind) -> float | None:
        if kind == "cost":
            return self.cost
        if kind == "accuracy":
            scores, count = self._all_scores
            return scores / count if count else None
        latencies = self._all_latencies
        return median(latencies) if latencies else None

    @property
    def _all_scores(self) -> tuple[float, int]:
        scores, count = self._earlier.scores
        return scores + self._scores, count + self._score_count

    @property
    def _all_latencies(self) -> list[float]:
        return [*self._earlier.latencies, *self._latencies][-TURNS:]

    # --- keeping

    def to_json(self) -> dict[str, Any]:
        return {
            "cost": self.cost,
            "scores": list(self._all_scores),
            "latencies": self._all_latencies,
            "usage": {name: asdict(used) for name, used in self.usage.items()},
            "changes": self.changes,
        }

    def restore(self, data: Mapping[str, Any]) -> list[Decision]:
        """Continue with the use of earlier sessions, in place of use restored before.

        The use of this session, if it has begun, comes on top.
        """
        known = {each.name for each in fields(UsageRecord)}
        usage = {
            name: UsageRecord(**{key: value for key, value in used.items() if key in known})
            for name, used in data["usage"].items()
        }
        scores, count = data["scores"]
        self._earlier = _Earlier(
            usage, Fraction(data["cost"]), (scores, count), tuple(data["latencies"]), data["changes"]
        )
        self._due = {
            "cost": 0,
            "accuracy": 0 if self._all_scores[1] else 1,
            "latency": max(0, TURNS - len(self._all_latencies)),
        }
        return [decision for kind in KINDS for decision in self._judge(kind)]

    # --- inside

    def _changed(self, kind: Kind) -> list[Decision]:
        self._changes += 1
        self._due[kind] = max(0, self._due[kind] - 1)
        return self._judge(kind)

    def _judge(self, kind: Kind) -> list[Decision]:
        before, level = self._levels[kind], self._level(kind)
        if self._due[kind]:
            level = min(before, level)  # it may fall at any time
        self._levels[kind] = level
        use, limit = self._use(kind), self.allocation.to_json()[kind]
        if level <= before or use is None:
            return []
        return [Decision(step, kind, use, limit) for step in _LEVELS[before:level]]

    def _level(self, kind: Kind) -> int:
        """Return 0; or 1 for a limit that is near, 2 for a limit that is reached."""
        use, limit = self._use(kind), self.allocation.to_json()[kind]
        if use is None or limit == NO_LIMIT:
            return 0
        if kind == "accuracy":
            is_reached, is_near = use < limit, use < 1 and 1 - use >= self._warn_at * (1 - limit)
        else:
            is_reached, is_near = use >= limit and use > 0, use >= self._warn_at * limit and use > 0
        return 2 if is_reached else 1 if is_near else 0


def _cost(price: Price | None, used: UsageRecord) -> float:
    return 0.0 if price is None else price.of(used)
