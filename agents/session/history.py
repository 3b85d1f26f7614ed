"""Makes the history of a session."""

from __future__ import annotations

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.guard.guarding import guards_caller
from vivavoce.agents.history.feed import HistoryFeed
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.history.sink import HistorySink
from vivavoce.agents.session.options import SessionOptions
from vivavoce.pipelines.core.errors import ConfigurationError


def make_history(context: SessionContext, options: SessionOptions) -> HistoryControl:
    """Return the session's history, with the feed to its sink; a memory with a store feeds it there instead.

    Raises:
        ConfigurationError: The sink is no sink, or there is a store too.
    """
    sink, feed = options.history_sink, None
    if sink is not None:
        if options.memory is not None and options.memory.store is not None:
            raise ConfigurationError(
                f"a session with MemoryOptions(store=…) keeps its history there, got history_sink={sink!r} too; "
                "leave one of them out"
            )
        if not isinstance(sink, HistorySink):
            raise ConfigurationError(
                f"history_sink must be a HistorySink, got {sink!r}; for example MemoryHistorySink()"
            )
        feed = HistoryFeed(context, sink)
    return HistoryControl(context, feed, judges_caller=guards_caller(options.guard))
