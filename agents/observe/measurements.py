"""Measurements: values on their way to the instruments of OpenTelemetry.

Recording a value takes the SDK 20 µs, on an event loop whose caches are cold twice that, and a turn has some twenty. So
where something is measured the value is only noted; the thread that exports hands it over, and so does whoever
collects. What is added to a counter several times until then is added at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from opentelemetry.context import Context, get_current

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, UpDownCounter

    from vivavoce.agents.observe.options import AttributeValue

Labels: TypeAlias = "Mapping[str, AttributeValue]"
"""A measurement's attributes; not changed afterwards."""

MOST = 8192
"""Values that may wait; where nobody ever collects, older ones are handed over as new ones come."""


class Measurements:
    """Takes values from any thread, in their order."""

    def __init__(self) -> None:
        self._recorded: deque[_Recorded] = deque()
        self._added: deque[_Added] = deque()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._recorded) + len(self._added)

    def record(self, histogram: Histogram, value: float, attributes: Labels) -> None:
        """Take a value of a distribution; its exemplar is what is current now."""
        self._recorded.append(_Recorded(histogram, value, attributes, get_current()))
        if len(self._recorded) > MOST:
            self._record_next()

    def add(self, counter: Counter | UpDownCounter, value: float, attributes: Labels) -> None:
        """Take what is added to a sum."""
        self._added.append(_Added(counter, value, attributes))
        if len(self._added) > MOST:
            self._add_all()

    def hand_over(self) -> None:
        """Give the instruments what came until now."""
        for _ in range(len(self._recorded)):
            if not self._record_next():
                break
        self._add_all()

    def _record_next(self) -> bool:
        try:
            histogram, value, attributes, context = self._recorded.popleft()
        except IndexError:  # another thread hands over too
            return False
        histogram.record(value, attributes, context)
        return True

    def _add_all(self) -> None:
        sums: dict[tuple[int, frozenset[tuple[str, AttributeValue]]], _Added] = {}
        for _ in range(len(self._added)):
            try:
                added = self._added.popleft()
            except IndexError:  # as above
                break
            key = id(added.counter), frozenset(added.attributes.items())
            before = sums.get(key)
            sums[key] = added if before is None else added._replace(value=before.value + added.value)
        for counter, value, attributes in sums.values():
            counter.add(value, attributes)


class _Recorded(NamedTuple):
    histogram: Histogram
    value: float
    attributes: Labels
    context: Context


class _Added(NamedTuple):
    counter: Counter | UpDownCounter
    value: float
    attributes: Labels


class Distribution:
    """A histogram that measurements wait for."""

    def __init__(self, measurements: Measurements, histogram: Histogram) -> None:
        self._measurements = measurements
        self._histogram = histogram

    def record(self, value: float, attributes: Labels | None = None) -> None:
        """Note a value."""
        self._measurements.record(self._histogram, value, attributes or {})


class Sum:
    """A counter, of what only grows or of what goes up and down, likewise."""

    def __init__(self, measurements: Measurements, counter: Counter | UpDownCounter) -> None:
        self._measurements = measurements
        self._counter = counter

    def add(self, value: float, attributes: Labels) -> None:
        """Note what is added."""
        self._measurements.add(self._counter, value, attributes)
