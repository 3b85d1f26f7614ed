"""Allocation: the limits of a budget; the checks of amounts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from vivavoce.pipelines.core.checks import is_number, shown
from vivavoce.pipelines.core.errors import ConfigurationError

Kind = Literal["cost", "accuracy", "latency"]
KINDS: tuple[Kind, ...] = ("cost", "accuracy", "latency")

NO_BUDGET = "the session has no budget; start it with SessionOptions(budget=BudgetOptions(prices=…))"
NO_LIMIT = -1.0
"""The amount of an allocation without a limit."""

MAX_AMOUNT = 1e15
"""The highest amount. A larger one is a mistake, and the sum may be more than a float holds."""

_UNITS: dict[Kind, str] = {"cost": "", "accuracy": " (0 to 1)", "latency": " (s)"}


def check_limit(kind: Kind, amount: object) -> float:
    """Return a limit as a float.

    Raises:
        ConfigurationError: It is no amount, and not -1.
    """
    if is_number(amount) and (amount == NO_LIMIT or _is_amount(kind, amount)):
        return float(amount)
    bounds = "0 <= accuracy <= 1" if kind == "accuracy" else f"0 <= {kind} <= {MAX_AMOUNT:g}{_UNITS[kind]}"
    raise ConfigurationError(f"need {bounds}, or -1 for no limit, got {shown(amount)}")


def check_use(kind: Kind, amount: object) -> float:
    """Return an amount that was used as a float.

    Raises:
        ConfigurationError: It is no amount.
    """
    if is_number(amount) and _is_amount(kind, amount):
        return float(amount)
    bounds = "a score 0 <= accuracy <= 1" if kind == "accuracy" else f"0 <= {kind} <= {MAX_AMOUNT:g}{_UNITS[kind]}"
    raise ConfigurationError(f"need {bounds}, got {shown(amount)}; leave out an amount that has not changed")


def _is_amount(kind: Kind, amount: float) -> bool:
    return 0 <= amount <= (1 if kind == "accuracy" else MAX_AMOUNT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The limits of a budget; -1 for no limit.

    Args:
        cost: The highest cost, in the unit of the prices.
        accuracy: The lowest mean of the recorded scores.
        latency: The highest median latency of five turns, in seconds.
    """

    cost: float = NO_LIMIT
    accuracy: float = NO_LIMIT
    latency: float = NO_LIMIT

    def changed(self, given: Mapping[Kind, float], *, nx: bool = False) -> Allocation:
        """Return it with other limits; with `nx` only where there is none yet."""
        limits: dict[str, float] = asdict(self)
        limits.update({kind: limit for kind, limit in given.items() if not nx or limits[kind] == NO_LIMIT})
        return Allocation(**limits)

    def to_json(self) -> dict[str, float]:
        """Return plain data."""
        return asdict(self)


def allocation_of(data: Mapping[str, Any]) -> Allocation:
    """Return the allocation of plain data; a part that is missing has no limit.

    Raises:
        ConfigurationError: An amount is none.
    """
    return Allocation(**{kind: check_limit(kind, data.get(kind, NO_LIMIT)) for kind in KINDS})


def limits_of(cost: float | None, accuracy: float | None, latency: float | None) -> dict[Kind, float]:
    """Return the limits that are given.

    Raises:
        ConfigurationError: One of them is none.
    """
    given: dict[Kind, float | None] = {"cost": cost, "accuracy": accuracy, "latency": latency}
    return {kind: check_limit(kind, amount) for kind, amount in given.items() if amount is not None}


def uses_of(cost: float | None, accuracy: float | None, latency: float | None) -> dict[Kind, float]:
    """Return the amounts that are given.

    Raises:
        ConfigurationError: One of them is none.
    """
    given: dict[Kind, float | None] = {"cost": cost, "accuracy": accuracy, "latency": latency}
    return {kind: check_use(kind, amount) for kind, amount in given.items() if amount is not None}
