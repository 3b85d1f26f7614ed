"""Figures: metrics as plain data that adds up over processes."""

from __future__ import annotations

import pickle

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from vivavoce.agents.telemetry.metrics.figures import Figure, FiguresOfProcesses, Point, figures_of, left_by, sum_of


class _Process:
    """A process that counts and measures."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        meter = MeterProvider([self.reader], shutdown_on_exit=False).get_meter("test")
        self.turns = meter.create_counter("turns", "{turn}", "Turns")
        self.active = meter.create_up_down_counter("active", "{session}", "Sessions")
        self.latency = meter.create_histogram("latency", "s", "Latency", explicit_bucket_boundaries_advisory=[0.1, 1.0])

    def figures(self) -> dict[str, Figure]:
        return {figure.name: figure for figure in figures_of(self.reader)}


def test_a_process_without_metrics_has_no_figures() -> None:
    assert figures_of(InMemoryMetricReader()) == ()
    assert _Process().figures() == {}


def test_each_kind_of_metric_becomes_a_figure() -> None:
    process = _Process()
    process.turns.add(2, {"outcome": "completed", "is_false": True})
    process.active.add(3)
    process.active.add(-1)
    process.latency.record(0.05)
    process.latency.record(0.5)

    figures = process.figures()

    assert figures["turns"] == Figure(
        name="turns",
        kind="counter",
        unit="{turn}",
        description="Turns",
        points=(Point(labels=(("is_false", "true"), ("outcome", "completed")), value=2.0),),
    )
    assert (figures["active"].kind, figures["active"].points) == ("gauge", (Point(labels=(), value=2.0),))
    assert figures["latency"].bounds == (0.1, 1.0)
    assert figures["latency"].points == (Point(labels=(), value=0.55, counts=(1, 1, 0)),)


def test_figures_are_cumulative_from_reading_to_reading() -> None:
    process = _Process()
    process.turns.add(1)
    process.figures()
    process.turns.add(1)

    assert process.figures()["turns"].points[0].value == 2.0


def test_values_with_the_same_labels_add_up_and_others_stand_beside_each_other() -> None:
    one, other = _Process(), _Process()
    one.turns.add(1, {"outcome": "completed"})
    other.turns.add(2, {"outcome": "completed"})
    other.turns.add(4, {"outcome": "failed"})
    one.latency.record(0.05)
    other.latency.record(5.0)

    total = {figure.name: figure for figure in sum_of([figures_of(one.reader), figures_of(other.reader), ()])}

    assert {point.labels[0][1]: point.value for point in total["turns"].points} == {"completed": 3.0, "failed": 4.0}
    assert total["latency"].points == (Point(labels=(), value=5.05, counts=(1, 0, 1)),)


def test_a_process_that_has_ended_leaves_its_counts_and_no_gauge() -> None:
    process = _Process()
    process.turns.add(1)
    process.active.add(1)
    process.latency.record(0.05)

    assert {figure.name for figure in left_by(process.figures().values())} == {"turns", "latency"}


def test_figures_travel_between_processes() -> None:
    process = _Process()
    process.latency.record(0.5, {"model": "a"})

    assert pickle.loads(pickle.dumps(process.figures())) == process.figures()


def test_counts_of_ended_processes_stay_so_that_no_counter_falls() -> None:
    one, other, processes = _Process(), _Process(), FiguresOfProcesses()
    one.turns.add(2)
    one.active.add(1)
    other.turns.add(1)
    other.active.add(1)
    processes.update(1, figures_of(one.reader))
    processes.update(2, figures_of(other.reader))
    assert {figure.name: figure.points[0].value for figure in processes.total()} == {"active": 2.0, "turns": 3.0}

    processes.end(1)
    processes.end(3)

    assert {figure.name: figure.points[0].value for figure in processes.total()} == {"active": 1.0, "turns": 3.0}
