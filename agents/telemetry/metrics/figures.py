"""Figures: the values of metrics as plain data, which travels between processes and adds up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

Labels = tuple[tuple[str, str], ...]
"""Names and values of attributes, sorted by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A value of a metric for one set of labels.

    Args:
        value: The value of a counter or gauge; the sum of a histogram.
        counts: Of a histogram: values in each bucket; the last bucket has no upper bound.
    """

    labels: Labels
    value: float
    counts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A metric and its points.

    Args:
        name: As in docs/telemetry.md.
        bounds: Upper bounds of a histogram's buckets, without the last.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    unit: str
    description: str
    points: tuple[Point, ...]
    bounds: tuple[float, ...] = ()


def figures_of(reader: InMemoryMetricReader) -> tuple[Figure, ...]:
    """Return the metrics that the reader's provider has by now."""
    data = reader.get_metrics_data()
    if data is None:
        return ()
    return tuple(
        figure
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if (figure := _figure(metric)) is not None
    )


def sum_of(processes: Iterable[tuple[Figure, ...]]) -> tuple[Figure, ...]:
    """Return the figures of several processes together; values with the same name and labels add up."""
    found: dict[str, Figure] = {}
    for figures in processes:
        for figure in figures:
            known = found.get(figure.name)
            found[figure.name] = figure if known is None else _added(known, figure)
    return tuple(found[name] for name in sorted(found))


def left_by(figures: Iterable[Figure]) -> tuple[Figure, ...]:
    """Return the figures of a process that has ended, as they count on: its counters and histograms."""
    return tuple(figure for figure in figures if figure.kind != "gauge")


class FiguresOfProcesses:
    """The figures of processes that come and go, by their numbers; counts of ended processes stay."""

    def __init__(self) -> None:
        self._running: dict[int, tuple[Figure, ...]] = {}
        self._ended: tuple[Figure, ...] = ()

    def update(self, number: int, figures: tuple[Figure, ...]) -> None:
        """Take the newest figures of a process."""
        self._running[number] = figures

    def end(self, number: int) -> None:
        """A process has ended; without effect if it never had figures."""
        self._ended = sum_of([self._ended, left_by(self._running.pop(number, ()))])

    def total(self) -> tuple[Figure, ...]:
        """Return the figures of all processes together."""
        return sum_of([self._ended, *self._running.values()])


def _figure(metric: object) -> Figure | None:
    from opentelemetry.sdk.metrics import export

    assert isinstance(metric, export.Metric)
    match metric.data:
        case export.Histogram(data_points=points):
            return Figure(
                name=metric.name,
                kind="histogram",
                unit=metric.unit or "",
                description=metric.description or "",
                points=tuple(
                    Point(labels=_labels(point.attributes), value=point.sum, counts=tuple(point.bucket_counts))
                    for point in points
                ),
                bounds=tuple(points[0].explicit_bounds) if points else (),
            )
        case export.Sum(data_points=points, is_monotonic=is_counter):
            kind: Literal["counter", "gauge"] = "counter" if is_counter else "gauge"
        case export.Gauge(data_points=points):
            kind = "gauge"
        case _:  # an exponential histogram: none of vivavoce's
            return None
    return Figure(
        name=metric.name,
        kind=kind,
        unit=metric.unit or "",
        description=metric.description or "",
        points=tuple(Point(labels=_labels(point.attributes), value=float(point.value)) for point in points),
    )


def _labels(attributes: object) -> Labels:
    given = dict(attributes) if attributes else {}  # type: ignore[call-overload]  # the SDK's type is loose
    return tuple(sorted((name, _text(value)) for name, value in given.items()))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _added(one: Figure, other: Figure) -> Figure:
    points = {point.labels: point for point in one.points}
    for point in other.points:
        known = points.get(point.labels)
        if known is not None:
            counts = tuple(a + b for a, b in zip(known.counts, point.counts, strict=True))
            point = Point(labels=point.labels, value=known.value + point.value, counts=counts)
        points[point.labels] = point
    return Figure(
        name=one.name,
        kind=one.kind,
        unit=one.unit,
        description=one.description,
        points=tuple(points.values()),
        bounds=one.bounds,
    )
