"""MemoryOptions: where a session's memory is kept, for how long, and whose it is."""

from __future__ import annotations

from dataclasses import dataclass, field

from vivavoce.agents.memory.budget.options import BudgetOptions
from vivavoce.agents.memory.stores.store import KEEP, SessionStore
from vivavoce.pipelines.core.checks import check_instance, check_number, check_text, shown
from vivavoce.pipelines.core.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions:
    """The memory of a session (`session.memory`).

    Each option: docs/options.md.
    """

    store: SessionStore | None = None
    """Keeps the memory: `SqliteStore("calls.db")` or `RedisStore("redis://…")`; sessions may share one, and its maker
    closes it. None: this process, until the session is gone."""
    keep: float | None = KEEP
    """Seconds without use after which the store erases the session and its text; None: never. `pinned` in its metadata
    prevents it. Running sessions look every five minutes; `await store.sweep()` does so at once."""
    timeout: float = 2.0
    """Seconds for a call to the store; then it raises StoreUnavailable. A stream's reader takes up to half more."""
    user: str = field(default="", repr=False)
    """Whose session it is, for `store.sessions(user=…)`; metadata `user`."""
    name: str = field(default="", repr=False)
    """Name of the session, for people; metadata `name`."""
    budget: BudgetOptions | None = None
    """Limits for cost, accuracy and latency of the call, and their effects. None: there are none, and none can be set
    during the call; `BudgetOptions()` begins without limits."""

    def __post_init__(self) -> None:
        if self.store is not None and not isinstance(self.store, SessionStore):
            raise ConfigurationError(
                f'store must be a SessionStore or None, got {shown(self.store)}; for example SqliteStore("calls.db")'
            )
        check_number("keep", self.keep, above=0, unit="s", or_none=True)
        check_number("timeout", self.timeout, above=0, unit="s")
        check_text("user", self.user)
        check_text("name", self.name)
        check_instance("budget", self.budget, BudgetOptions, or_none=True)
