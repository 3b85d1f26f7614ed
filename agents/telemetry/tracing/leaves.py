"""Leaves: spans that nothing is in and that are current nowhere; they are made when they are over.

A span costs an event loop whose caches are cold 0.1 ms as it begins and as much again until it has ended
(tests/bench/tracing_cost.py). Those around code of providers and tools must be there when that code runs; these need
not be, so that while a caller waits only their times are noted. They are made together, with the times that they had,
before the span that they are in ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vivavoce.agents.telemetry.tracing.spans import Attributes, SpanMaker

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from vivavoce.agents.telemetry.options import AttributeValue

MOST = 64
"""Of leaves that are over and not made: a `say()` of an hour may hold many."""


class Leaf:
    """One, from its begin on."""

    __slots__ = ("attributes", "began", "ended", "kind", "parent")

    def __init__(self, kind: str, parent: Span, began: int, attributes: Attributes) -> None:
        self.kind = kind
        self.parent = parent
        self.began = began
        self.ended = 0
        self.attributes: dict[str, AttributeValue | Sequence[str] | None] = dict(attributes)


class Leaves:
    """Keeps those of one session."""

    def __init__(self, maker: SpanMaker) -> None:
        self._maker = maker
        self._over: list[Leaf] = []

    def begin(self, kind: str, parent: Span, *, at: float, attributes: Attributes | None = None) -> Leaf:
        """Note that one begins at `at` of the session clock."""
        return Leaf(kind, parent, self._maker.nanoseconds(at), attributes or {})

    def end(self, leaf: Leaf, attributes: Attributes | None = None, *, at: float | None = None) -> None:
        """Note that it is over at `at`, by default now; not in the future."""
        now = self._maker.nanoseconds()
        leaf.ended = now if at is None else min(self._maker.nanoseconds(at), now)
        leaf.attributes.update(attributes or {})
        self._over.append(leaf)
        if len(self._over) >= MOST:
            self.make()

    def make(self) -> None:
        """Make those that are over; before a span that they are in ends."""
        over, self._over = self._over, []
        for leaf in over:
            self._maker.make(leaf.kind, leaf.parent, leaf.began, leaf.ended, leaf.attributes)
