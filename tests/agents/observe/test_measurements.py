"""Values wait for their instruments where nobody waits for them, and none is lost or counted twice."""

from __future__ import annotations

import threading
from typing import Any

from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import use_span

from vivavoce.agents.observe import measurements as module
from vivavoce.agents.observe.measurements import Measurements
from vivavoce.agents.observe.meters import Meters


class Nothing:
    """A queue with nothing in it."""

    dropped_spans = waiting_spans = dropped_logs = waiting_logs = 0


def made() -> tuple[Meters, InMemoryMetricReader]:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    return Meters(provider.get_meter("test"), Nothing(), Measurements()), reader


def points(reader: InMemoryMetricReader, name: str) -> list[Any]:
    data = reader.get_metrics_data()
    assert data is not None
    scopes = (scope for resource in data.resource_metrics for scope in resource.scope_metrics)
    return [point for scope in scopes for each in scope.metrics if each.name == name for point in each.data.data_points]


def test_what_was_measured_is_there_when_somebody_collects() -> None:
    meters, reader = made()
    meters.e2e_latency.record(0.25, {"gen_ai.provider.name": "a"})
    meters.e2e_latency.record(0.75, {"gen_ai.provider.name": "b"})
    meters.turns.add(1, {"gen_ai.provider.name": "a"})
    assert [(p.attributes["gen_ai.provider.name"], p.sum) for p in points(reader, "vivavoce.turn.e2e_latency")] == [
        ("a", 0.25),
        ("b", 0.75),
    ]
    assert [point.value for point in points(reader, "vivavoce.turns")] == [1]


def test_what_goes_up_and_down_again_is_a_series_of_nothing_and_not_no_series() -> None:
    meters, reader = made()
    meters.active.add(1, {})
    meters.active.add(-1, {})
    assert [point.value for point in points(reader, "vivavoce.sessions.active")] == [0]


def test_sums_are_kept_apart_by_what_they_are_of() -> None:
    meters, reader = made()
    for name in ("a", "b", "a"):
        meters.turns.add(1, {"gen_ai.provider.name": name})
        meters.closed.add(1, {"gen_ai.provider.name": name})
    found = {p.attributes["gen_ai.provider.name"]: p.value for p in points(reader, "vivavoce.turns")}
    assert found == {"a": 2, "b": 1}
    assert sum(point.value for point in points(reader, "vivavoce.sessions.closed")) == 3


def test_nothing_is_lost_where_many_threads_measure_while_others_hand_over() -> None:
    meters, reader = made()
    waiting = meters.turns._measurements
    is_over = threading.Event()

    def measure() -> None:
        for _ in range(2000):
            meters.turns.add(1, {})
            meters.e2e_latency.record(0.1, {})

    def hand_over() -> None:
        while not is_over.is_set():
            waiting.hand_over()

    measuring = [threading.Thread(target=measure) for _ in range(3)]
    handing = [threading.Thread(target=hand_over) for _ in range(2)]
    for thread in measuring + handing:
        thread.start()
    for thread in measuring:
        thread.join(60)
    is_over.set()
    for thread in handing:
        thread.join(60)
    assert [point.value for point in points(reader, "vivavoce.turns")] == [6000]
    assert [point.count for point in points(reader, "vivavoce.turn.e2e_latency")] == [6000]


def test_where_nobody_ever_collects_a_bounded_number_waits() -> None:
    measurements = Measurements()
    meters = Meters(NoOpMeterProvider().get_meter("test"), Nothing(), measurements)
    for _ in range(3 * module.MOST):
        meters.turns.add(1, {})
        meters.e2e_latency.record(0.1, {})
    assert measurements.waiting <= 2 * module.MOST


def test_more_than_may_wait_is_handed_over_and_not_dropped() -> None:
    meters, reader = made()
    for _ in range(2 * module.MOST + 1):
        meters.turns.add(1, {})
        meters.e2e_latency.record(0.1, {})
    assert [point.value for point in points(reader, "vivavoce.turns")] == [2 * module.MOST + 1]
    assert [point.count for point in points(reader, "vivavoce.turn.e2e_latency")] == [2 * module.MOST + 1]


def test_an_exemplar_names_the_trace_that_the_value_was_measured_in() -> None:
    meters, reader = made()
    span = TracerProvider(shutdown_on_exit=False).get_tracer("test").start_span("turn")
    with use_span(span):
        meters.e2e_latency.record(0.3, {})
    (point,) = points(reader, "vivavoce.turn.e2e_latency")
    assert [exemplar.trace_id for exemplar in point.exemplars] == [span.get_span_context().trace_id]
