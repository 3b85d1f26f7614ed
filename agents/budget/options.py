"""BudgetOptions: the limits of a call, its prices, and the actions at a limit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from vivavoce.agents.budget.amounts import KINDS, NO_BUDGET, NO_LIMIT, Allocation, check_limit
from vivavoce.agents.budget.price import Price, Prices
from vivavoce.agents.extension.extension import Attached, Extension
from vivavoce.pipelines.core.checks import check_choice, check_function, check_items, check_number, check_text, shown
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from vivavoce.agents.budget.budget import Budget
    from vivavoce.agents.extension.attachments import Attachments
    from vivavoce.agents.extension.extension import Host

Degrade = Callable[[Any], Awaitable[None] | object]
"""A function that makes the rest of the call cheaper or faster, called with the session; sync or async. The result of a
sync one is ignored, unless it is a coroutine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetOptions(Extension):
    """The budget of a call (`session.budget`).

    Each option: docs/options.md.
    """

    key: ClassVar[str] = "budget"

    cost: float = NO_LIMIT
    """The highest cost of the call, in the unit of the prices; -1: no limit. All components then need a price."""
    accuracy: float = NO_LIMIT
    """The lowest mean of the scores, 0 to 1, that the application records with `update_use(accuracy=…)`; -1: no
    limit."""
    latency: float = NO_LIMIT
    """The highest median, in seconds, of the latencies that the caller felt in the last five answered turns; -1: no
    limit."""
    prices: Prices | None = None
    """The `Price` of each stt, llm, tts and realtime model by its name, `provider/model`, or `provider` if it has no
    model; or a function that returns it for a name, or None. A fallback needs those of its members."""
    warn_at: float = 0.8
    """Share of a limit at which the event `budget_warning` comes. For accuracy the share of the errors that the limit
    allows."""
    degrade: Sequence[Degrade] = ()
    """Functions of the session, called one by one at a limit until it is reached no more, such as
    `lambda session: session.update_components(llm=cheaper)`; each at most once, within 10 s."""
    goodbye: str = field(default="", repr=False)
    """The agent's last words when the cost stays over its limit; "" for none."""
    then: Literal["close", "hangup"] = "close"
    """The action after them: the session closes with reason `budget_exceeded`; with "hangup" the caller is disconnected
    first, as by `session.hangup()`."""

    def __post_init__(self) -> None:
        for kind in KINDS:
            check_limit(kind, getattr(self, kind))
        prices: Any = self.prices
        if isinstance(prices, Mapping):
            for name, price in prices.items():
                if not isinstance(name, str) or not isinstance(price, Price):
                    raise ConfigurationError(
                        f"prices must map 'provider/model' to Price(…), got {shown(name)}: {shown(price)}"
                    )
        elif prices is not None and not callable(prices):
            raise ConfigurationError(
                f"prices must be a dict of 'provider/model' to Price(…), or a function, got {shown(prices)}"
            )
        if self.cost != NO_LIMIT and prices is None:
            raise ConfigurationError(
                "a cost limit needs prices, got None; such as prices={'openai/gpt-4o': Price(million_input=2.5, "
                "million_output=10)}"
            )
        check_number("warn_at", self.warn_at, above=0, remedy="a share, such as 0.8")
        if self.warn_at > 1:
            raise ConfigurationError(f"need 0 < warn_at <= 1, a share of the limit, got {shown(self.warn_at)}")
        for function in check_items("degrade", self.degrade, object, remedy="such as [use_cheaper_model]"):
            check_function("each of degrade", function)
        check_text("goodbye", self.goodbye)
        check_choice("then", self.then, ("close", "hangup"))

    @property
    def allocation(self) -> Allocation:
        """The limits at the beginning of the call."""
        return Allocation(cost=float(self.cost), accuracy=float(self.accuracy), latency=float(self.latency))

    def attach(self, host: Host) -> Attached:
        """Make the budget of one session."""
        from vivavoce.agents.budget.guard import BudgetGuard
        from vivavoce.agents.budget.meter import BudgetMeter
        from vivavoce.agents.budget.session_budget import SessionBudget

        meter = BudgetMeter(host.context.usage, self.prices, self.allocation, warn_at=self.warn_at)
        hangs_up = self.then == "hangup"
        guard = BudgetGuard(host, meter, degrade=self.degrade, goodbye=self.goodbye, hangs_up=hangs_up)
        return SessionBudget(host, meter, guard)


def budget_of(extensions: Attachments) -> Budget:
    """Return the budget of a session, as applications know it.

    Raises:
        ConfigurationError: The session has none.
    """
    if (attached := extensions.of(BudgetOptions)) is None:
        raise ConfigurationError(NO_BUDGET)
    budget: Any = attached.face
    used: Budget = budget
    return used
