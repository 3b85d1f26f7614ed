"""The budget of a call: limits for its cost, its latency and the accuracy of its answers.

`Account` (account.py) is pure: it decides when a limit is near or reached. `BudgetMeter` (meter.py) feeds it with the
session's usage, which `core/usage.py` counts by model; `BudgetControl` (control.py) keeps it in a shared store of the
memory and takes changes of other processes; `BudgetGuard` (guard.py) acts on the decisions; `Budget` (budget.py) is the
part that applications call. `SessionBudget` (session_budget.py) hangs all of them at a session.

Decisions:

* Money is a float in the unit of the prices, US dollars by custom. The cost is computed from the counts of each model,
  never added up step by step, so that it is the sum of its parts.
* The process of the session decides by its own account, at once. The store has a copy for other processes and for the
  session that continues this one.
* A session that is resumed goes on with the use and the limits; one that begins under the id of an earlier session has
  its own (`vivavoce.agents.memory`).
* Limits need BudgetOptions, also those that `set_allocation()` sets: prices, `degrade` and `goodbye` are there.
* A model step that is cut before its provider has reported the tokens is counted by an estimate, a token for each four
  bytes of text: the provider bills it.
* A limit is reached when the cost or the latency is as high as it, or the accuracy is below it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.core.lazy import lazy_names

if TYPE_CHECKING:
    from vivavoce.agents.budget.budget import Budget
    from vivavoce.agents.budget.options import BudgetOptions
    from vivavoce.agents.budget.price import Price

_PLACES = {
    "vivavoce.agents.budget.budget": "Budget",
    "vivavoce.agents.budget.options": "BudgetOptions",
    "vivavoce.agents.budget.price": "Price",
}

__all__ = [
    "Budget",
    "BudgetOptions",
    "Price",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
