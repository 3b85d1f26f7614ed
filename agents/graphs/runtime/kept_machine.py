"""KeptMachine: the machine of a session's graph, and its state in snapshots."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from vivavoce.agents.extension.extension import RecordStep
from vivavoce.agents.graphs.machine.machine import GraphMachine
from vivavoce.agents.graphs.machine.rules import Event, GraphRules
from vivavoce.agents.graphs.machine.saved import restored
from vivavoce.agents.graphs.trace import RecordedGraph
from vivavoce.pipelines.core.clock import Clock


class KeptMachine:
    """The machine of one session.

    Args:
        record: Writes the machine's steps into the session's trace; None without a trace.
    """

    def __init__(self, rules: GraphRules, clock: Clock, record: RecordStep | None) -> None:
        self._rules = rules
        self._clock = clock
        self._make: Callable[..., GraphMachine] = GraphMachine if record is None else partial(RecordedGraph, record)
        self.machine = self._make(rules)
        self._last: dict[str, Any] | None = None
        """The state at the close; None before."""

    def close(self) -> None:
        """Keep the present state: later snapshots have it."""
        self._last = self.machine.to_json(now=self._clock.now())

    def take(self) -> Callable[[], Any]:
        """Take the state; in any thread once it has been closed."""
        text = json.dumps(self.machine.to_json(now=self._clock.now()) if self._last is None else self._last)
        return lambda: json.loads(text)

    def check(self, data: Any) -> None:
        """Check that `restore()` can take that state.

        Raises:
            ConfigurationError: It is of another graph or shape.
        """
        restored(data, self._rules)

    def restore(self, data: Any) -> tuple[Event, ...]:
        """Continue from that state; return its events, which have lost their data.

        Raises:
            ConfigurationError: It is of another graph or shape.
        """
        saved = restored(data, self._rules)
        self.machine = self._make(self._rules, saved, now=self._clock.now())
        return saved.events
