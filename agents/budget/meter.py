"""BudgetMeter: feeds the account of a session with its usage, and keeps the decisions until the session takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import anyio

from vivavoce.agents.budget.account import Account, Decision
from vivavoce.agents.budget.amounts import NO_LIMIT, Allocation, Kind
from vivavoce.agents.budget.price import COUNTED, Price, PriceList, Prices
from vivavoce.agents.core.usage import UsageByModel
from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.members import name_of
from vivavoce.pipelines.pipeline import Pipeline

T = TypeVar("T")


class BudgetMeter:
    """The account of one session.

    Args:
        usage: Of the session.
        prices, allocation, warn_at: As in `BudgetOptions`.
    """

    def __init__(self, usage: UsageByModel, prices: Prices | None, allocation: Allocation, *, warn_at: float) -> None:
        self._prices = PriceList(prices)
        self._parts: set[tuple[str, str]] = set()
        """Kind and name of the components that the session uses or may use."""
        self._unpriced: set[str] = set()
        self.account = Account(allocation, warn_at=warn_at, price_of=self._price_of, usage=usage.models)
        usage.listen(self._used)
        self._decisions: list[Decision] = []
        self._problems: list[ConfigurationError] = []
        self._news = anyio.Event()
        self._save: Callable[[], None] | None = None

    def open(self, save: Callable[[], None]) -> None:
        """Begin to call `save` after each change of the use."""
        self._save = save

    # --- components

    def check(self, pipeline: Pipeline) -> None:
        """Refuse a pipeline that has components without a price while the cost has a limit; its fallbacks included.

        Raises:
            ConfigurationError: There are some; the error names them, and the way to give each a price.
        """
        found = _counted(pipeline)
        self._check_prices(found, self.account.allocation)
        self._parts.update(found)

    def check_allocation(self, allocation: Allocation) -> None:
        """Refuse a cost limit where a component has no price.

        Raises:
            ConfigurationError: There is one.
        """
        self._check_prices(sorted(self._parts), allocation)

    def _check_prices(self, parts: Iterable[tuple[str, str]], allocation: Allocation) -> None:
        if allocation.cost != NO_LIMIT:
            self._prices.check(parts)

    def _price_of(self, name: str) -> Price | None:
        try:
            price = self._prices.of(name)
        except ConfigurationError as error:  # the function of the application, for a model that a hook has asked
            price = None
            self._note_problem(name, error)
        if price is None and self.account.allocation.cost != NO_LIMIT:
            self._note_problem(name, ConfigurationError(f"{name!r} was used, which has no price; it counts as free"))
        return price

    def _note_problem(self, name: str, error: ConfigurationError) -> None:
        if name not in self._unpriced:
            self._unpriced.add(name)
            self._problems.append(error)
            self._news.set()

    # --- inputs

    def _used(self) -> None:
        self._decided(self.account.used())

    def answered(self, latency: float) -> None:
        """Add the latency of a turn that was answered."""
        self._decided(self.account.answered(latency))

    def report(self, uses: Mapping[Kind, float]) -> None:
        """Add amounts that code of the application has reported."""
        self._decided(self.account.report(uses))

    def allocate(self, allocation: Allocation) -> None:
        self._decided(self.account.allocate(allocation))

    def restore(self, data: Mapping[str, object]) -> None:
        """Continue with the use of earlier sessions."""
        self._decided(self.account.restore(data))

    def _decided(self, decisions: list[Decision]) -> None:
        if decisions:
            self._decisions += decisions
            self._news.set()
        if self._save is not None:
            self._save()

    # --- decisions

    async def wait(self) -> None:
        """Wait for a decision, or a problem."""
        while not (self._decisions or self._problems):
            self._news = anyio.Event()
            await self._news.wait()

    def take(self) -> list[Decision]:
        """Return the decisions since the last call."""
        return _drained(self._decisions)

    def take_problems(self) -> list[ConfigurationError]:
        """Return the problems since the last call."""
        return _drained(self._problems)


def _drained(items: list[T]) -> list[T]:
    found = list(items)
    items.clear()
    return found


def _counted(pipeline: Pipeline) -> list[tuple[str, str]]:
    """Return kind and name of each component whose usage is counted, with the members of fallbacks."""
    parts = list(pipeline.parts())
    found = [(kind, name_of(one)) for kind, part in parts for one in _alone(part)]
    if not parts:  # a pipeline of the application: it names its components only
        named = pipeline.capabilities.components
        found = [(kind, "/".join(part for part in (provider, model) if part)) for kind, provider, model in named]
    if pipeline.fallback is not None:
        found += _counted(pipeline.fallback)
    return [(kind, name) for kind, name in found if kind in COUNTED]


def _alone(part: Component) -> list[Component]:
    return [one for member in part.members for one in _alone(member)] or [part]
