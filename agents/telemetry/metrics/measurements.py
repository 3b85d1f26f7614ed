"""Measurements: values on their way to the instruments of OpenTelemetry.

Recording a value takes the SDK 20 µs, on an event loop whose caches are cold twice that, and a turn has some twenty. So
where something is measured the value is only noted, and the thread that exports hands it over before it collects. What
is added to a counter several times until then is added at once.

Instruments of the application's providers are given each value as it comes: nobody knows who collects from those, or
when, and the SDK has one instrument of a name for all that share a provider.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from opentelemetry.context import Context, get_current, set_value

from vivavoce.pipelines.core.errors import located

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, UpDownCounter

    from vivavoce.agents.telemetry.options import AttributeValue

logger = logging.getLogger(__name__)

Labels: TypeAlias = "Mapping[str, AttributeValue]"
"""A measurement's attributes; not changed afterwards."""

MOST = 8192
"""Values that may wait; while an export hangs, older ones are handed over as new ones come."""

NOWHERE = set_value("vivavoce.nowhere", True, Context())
"""In no span. An empty context has the SDK take what is current where a value is handed over, perhaps another call."""


class Measurements:
    """Takes values from any thread, in their order; it never raises.

    Args:
        waits: Whether values wait until `hand_over()` is called.
    """

    def __init__(self, *, waits: bool) -> None:
        self._waits = waits
        self._has_failed = False
        self._recorded: deque[_Recorded] = deque()
        self._added: deque[_Added] = deque()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._recorded) + len(self._added)

    def record(self, histogram: Histogram, value: float, attributes: Labels) -> None:
        """Take a value of a distribution; its exemplar is what is current now."""
        context = get_current() or NOWHERE
        if not self._waits:
            self._give(histogram.record, value, attributes, context)
            return
        self._recorded.append(_Recorded(histogram, value, attributes, context))
        if len(self._recorded) > MOST:
            self._record_next()

    def add(self, counter: Counter | UpDownCounter, value: float, attributes: Labels) -> None:
        """Take what is added to a sum."""
        if not self._waits:
            self._give(counter.add, value, attributes, get_current() or NOWHERE)
            return
        self._added.append(_Added(counter, value, attributes))
        if len(self._added) > MOST:
            self._add_oldest(1)  # and not all at once: the caller's event loop would stand still for that

    def hand_over(self) -> None:
        """Give the instruments what came until now."""
        for _ in range(len(self._recorded)):
            if not self._record_next():
                break
        self._add_oldest(len(self._added))

    def _record_next(self) -> bool:
        try:
            histogram, value, attributes, context = self._recorded.popleft()
        except IndexError:  # another thread hands over too
            return False
        self._give(histogram.record, value, attributes, context)
        return True

    def _add_oldest(self, count: int) -> None:
        sums: dict[_Key, _Added] = {}
        for _ in range(count):
            try:
                added = self._added.popleft()
            except IndexError:  # as above
                break
            key = _key(added)
            if key is None:
                self._give(added.counter.add, added.value, added.attributes, NOWHERE)
                continue
            before = sums.get(key)
            sums[key] = added if before is None else added._replace(value=before.value + added.value)
        for counter, value, attributes in sums.values():
            self._give(counter.add, value, attributes, NOWHERE)

    def _give(self, take: _Take, value: float, attributes: Labels, context: Context) -> None:
        try:
            take(value, attributes, context)
        except Exception as error:  # noqa: BLE001 - the application's provider, or no number from a plugin
            if not self._has_failed:
                self._has_failed = True
                logger.warning("An instrument raised %s; calls go on, and this is said once", located(error))


_Take: TypeAlias = "Callable[[float, Labels, Context], None]"


class _Recorded(NamedTuple):
    histogram: Histogram
    value: float
    attributes: Labels
    context: Context


class _Added(NamedTuple):
    counter: Counter | UpDownCounter
    value: float
    attributes: Labels


_Key: TypeAlias = "tuple[int, frozenset[tuple[str, AttributeValue]]]"


def _key(added: _Added) -> _Key | None:
    """Return what it is summed by; None for what is no number, of which the instrument complains alone."""
    try:
        return (id(added.counter), frozenset(added.attributes.items())) if isfinite(added.value) else None
    except TypeError:
        return None


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
