"""Makes a session's history, its memory, in which the history may be kept, and the meter of its budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.write_queue import store_refuses
from vivavoce.agents.extension.attachments import Attachments
from vivavoce.agents.extension.extension import Attached
from vivavoce.agents.graphs.options import GraphOptions
from vivavoce.agents.history.feed import HistoryFeed
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.history.sink import HistoryChange, HistorySink
from vivavoce.agents.memory.base import MemoryBase, memory_base
from vivavoce.agents.memory.budget.meter import BudgetMeter
from vivavoce.agents.memory.control import MemoryControl
from vivavoce.agents.memory.history.store_sink import StoreHistorySink
from vivavoce.agents.memory.options import MemoryOptions
from vivavoce.agents.memory.private import KeptPart
from vivavoce.agents.memory.store_health import StoreHealth
from vivavoce.agents.memory.stores.store import SessionStore
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.speech.guarding import guards_caller
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.pipeline import Pipeline


class KeptGraph:
    """The graph's state, in the memory's part of a snapshot until snapshots have a part for each extension."""

    def __init__(self) -> None:
        self._graph: Attached | None = None

    def open(self, extensions: Attachments) -> None:
        """Take the graph from the extensions of the session."""
        self._graph = extensions.of(GraphOptions)

    def taken(self) -> Any:
        """Return the state as JSON."""
        assert self._graph is not None, "open() comes first"
        data = self._graph.take()
        return None if data is None else data()

    def check(self, taken: Any) -> None:
        """Check that `resume()` can take that state.

        Raises:
            ConfigurationError: It is of another graph or shape.
        """
        assert self._graph is not None, "open() comes first"
        self._graph.check_taken(taken)

    def resume(self, taken: Any) -> None:
        """Go on from a state."""
        assert self._graph is not None, "open() comes first"
        self._graph.restore(taken)

    def data_changed(self) -> None:
        """Private data have changed; called in any thread."""
        graph: Any = self._graph
        graph.data_changed()


class _HeldSink(StoreHistorySink):
    """Keeps a session's history in its store while the session has its memory for certain."""

    def __init__(self, store: SessionStore, base: MemoryBase) -> None:
        super().__init__(store)
        self._base = base

    async def write(self, session_id: str, changes: Sequence[HistoryChange]) -> None:
        """Keep these changes.

        Raises:
            StoreUnavailable: Another session may have the memory.
        """
        self._base.check_held()
        await super().write(session_id, changes)


def make_meter(options: MemoryOptions | None, pipeline: Pipeline) -> BudgetMeter | None:
    """Return the meter of a session's budget; None without a budget.

    Raises:
        ConfigurationError: The cost has a limit, and a component of the pipeline no price.
    """
    if options is None or options.budget is None:
        return None
    meter = BudgetMeter(options.budget)
    meter.check(pipeline)
    return meter


def make_memory(
    context: SessionContext, options: SessionOptions, meter: BudgetMeter | None, kept: KeptPart | None
) -> tuple[HistoryControl, MemoryControl]:
    """Return the session's history, and its memory.

    Raises:
        ConfigurationError: The sink of the history is no sink, or there is a store too.
    """
    base, health = memory_base(options.memory, options.clock), StoreHealth(context)
    feed = _make_feed(options, context, base, health)
    history = HistoryControl(context, feed, judges_caller=guards_caller(options.guard))
    limit = options.speech.hook_timeout
    return history, MemoryControl(context, history, options.memory, base, health, meter, hook_timeout=limit, kept=kept)


def _make_feed(
    options: SessionOptions, context: SessionContext, base: MemoryBase, health: StoreHealth
) -> HistoryFeed | None:
    """Return the feed from the history to its sink, or to the store of the session's memory; None without both.

    Raises:
        ConfigurationError: The sink is no sink, or there is a store too.
    """
    sink = options.history_sink
    store = None if options.memory is None else options.memory.store
    if store is not None:
        if sink is not None:
            raise ConfigurationError(
                f"a session with MemoryOptions(store=…) keeps its history there, got history_sink={sink!r} too; "
                "leave one of them out"
            )
        return HistoryFeed(
            context, _HeldSink(store, base), history_id=lambda: base.id, health=health, refuses=store_refuses
        )
    if sink is None:
        return None
    if not isinstance(sink, HistorySink):
        raise ConfigurationError(f"history_sink must be a HistorySink, got {sink!r}; for example MemoryHistorySink()")
    return HistoryFeed(context, sink)
