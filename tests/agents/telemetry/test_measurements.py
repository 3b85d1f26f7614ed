"""Values wait for their instruments where nobody waits for them, and none is lost or counted twice."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import use_span

from vivavoce.agents import Telemetry, TelemetryOptions
from vivavoce.agents.telemetry.export.export_thread import ExportLimits, ExportThread
from vivavoce.agents.telemetry.metrics import measurements as module
from vivavoce.agents.telemetry.metrics.measurements import Measurements
from vivavoce.agents.telemetry.metrics.meters import Meters


class Nothing:
    """A queue with nothing in it."""

    dropped_spans = waiting_spans = dropped_logs = waiting_logs = 0


class Made:
    """Instruments, what waits for them, and what reads them."""

    def __init__(self, *, waits: bool = True) -> None:
        self.measurements = Measurements(waits=waits)
        self._reader = InMemoryMetricReader()
        provider = MeterProvider([self._reader], shutdown_on_exit=False)
        self.meters = Meters(provider.get_meter("test"), Nothing(), self.measurements)

    def points(self, name: str) -> list[Any]:
        """Do as the thread that exports does."""
        self.measurements.hand_over()
        return points(self._reader, name)


@pytest.fixture(params=[True, False], ids=["of ours", "of the application"])
def made(request: pytest.FixtureRequest) -> Made:
    return Made(waits=request.param)


def points(reader: InMemoryMetricReader, name: str) -> list[Any]:
    data = reader.get_metrics_data()
    assert data is not None
    scopes = (scope for resource in data.resource_metrics for scope in resource.scope_metrics)
    return [point for scope in scopes for each in scope.metrics if each.name == name for point in each.data.data_points]


def test_what_was_measured_is_there_when_somebody_collects(made: Made) -> None:
    meters = made.meters
    meters.e2e_latency.record(0.25, {"gen_ai.provider.name": "a"})
    meters.e2e_latency.record(0.75, {"gen_ai.provider.name": "b"})
    meters.turns.add(1, {"gen_ai.provider.name": "a"})
    assert [(p.attributes["gen_ai.provider.name"], p.sum) for p in made.points("vivavoce.turn.e2e_latency")] == [
        ("a", 0.25),
        ("b", 0.75),
    ]
    assert [point.value for point in made.points("vivavoce.turns")] == [1]


def test_what_goes_up_and_down_again_is_a_series_of_nothing_and_not_no_series(made: Made) -> None:
    meters = made.meters
    meters.active.add(1, {})
    meters.active.add(-1, {})
    assert [point.value for point in made.points("vivavoce.sessions.active")] == [0]


def test_sums_are_kept_apart_by_what_they_are_of(made: Made) -> None:
    meters = made.meters
    for name in ("a", "b", "a"):
        meters.turns.add(1, {"gen_ai.provider.name": name})
        meters.closed.add(1, {"gen_ai.provider.name": name})
    found = {p.attributes["gen_ai.provider.name"]: p.value for p in made.points("vivavoce.turns")}
    assert found == {"a": 2, "b": 1}
    assert sum(point.value for point in made.points("vivavoce.sessions.closed")) == 3


def test_nothing_is_lost_where_many_threads_measure_while_others_hand_over() -> None:
    made = Made()
    meters, waiting = made.meters, made.measurements
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
    assert [point.value for point in made.points("vivavoce.turns")] == [6000]
    assert [point.count for point in made.points("vivavoce.turn.e2e_latency")] == [6000]


def test_where_nobody_ever_hands_over_a_bounded_number_waits() -> None:
    measurements = Measurements(waits=True)
    meters = Meters(NoOpMeterProvider().get_meter("test"), Nothing(), measurements)
    for _ in range(3 * module.MOST):
        meters.turns.add(1, {})
        meters.e2e_latency.record(0.1, {})
    assert measurements.waiting <= 2 * module.MOST


def test_one_value_too_many_has_one_handed_over_and_not_all_at_once() -> None:
    made = Made()
    for _ in range(module.MOST + 1):
        made.meters.turns.add(1, {})
        made.meters.e2e_latency.record(0.1, {})
    assert made.measurements.waiting == 2 * module.MOST


def test_more_than_may_wait_is_handed_over_and_not_dropped() -> None:
    made = Made()
    meters = made.meters
    for _ in range(2 * module.MOST + 1):
        meters.turns.add(1, {})
        meters.e2e_latency.record(0.1, {})
    assert [point.value for point in made.points("vivavoce.turns")] == [2 * module.MOST + 1]
    assert [point.count for point in made.points("vivavoce.turn.e2e_latency")] == [2 * module.MOST + 1]


def test_an_exemplar_names_the_trace_that_the_value_was_measured_in(made: Made) -> None:
    meters = made.meters
    span = TracerProvider(shutdown_on_exit=False).get_tracer("test").start_span("turn")
    with use_span(span):
        meters.e2e_latency.record(0.3, {})
    (point,) = made.points("vivavoce.turn.e2e_latency")
    assert [exemplar.trace_id for exemplar in point.exemplars] == [span.get_span_context().trace_id]


async def test_sessions_that_bring_one_meter_provider_are_all_counted() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    for _ in range(3):  # each with options, and so with a Telemetry of its own
        telemetry = Telemetry(TelemetryOptions(meter_provider=provider))
        telemetry.begin()
        telemetry.meters.turns.add(1, {})
        telemetry.meters.e2e_latency.record(0.3, {})
        assert await telemetry.aclose()
    assert [point.value for point in points(reader, "vivavoce.turns")] == [3]
    assert [point.count for point in points(reader, "vivavoce.turn.e2e_latency")] == [3]


def test_what_is_no_number_costs_nothing_but_itself(made: Made, caplog: pytest.LogCaptureFixture) -> None:
    nothing: Any = None  # tokens of a plugin that does not count them
    for tokens in (nothing, 3, nothing, 5):
        made.meters.tokens.record(tokens, {})
        made.meters.characters.add(tokens, {})
    made.meters.characters.add(float("nan"), {})
    assert [point.sum for point in made.points("gen_ai.client.token.usage")] == [8]
    assert [point.value for point in made.points("vivavoce.speech.characters")] == [8]
    assert len([message for message in caplog.messages if "said once" in message]) == 1


def test_the_thread_that_exports_outlives_what_is_no_number() -> None:
    made, nothing = Made(), None
    thread = ExportThread(
        ExportLimits(), spans=None, logs=None, metrics=None, reader=None, measurements=made.measurements, now=float
    )
    thread.begin()
    made.meters.tokens.record(nothing, {})  # type: ignore[arg-type]
    thread.flush().result(10)
    made.meters.tokens.record(7, {})
    thread.close().result(10)
    assert made.measurements.waiting == 0
    assert [point.sum for point in made.points("gen_ai.client.token.usage")] == [7]


def test_no_exemplar_names_a_call_that_only_handed_values_over() -> None:
    made = Made()
    made.meters.e2e_latency.record(0.3, {})
    made.meters.turns.add(1, {})
    span = TracerProvider(shutdown_on_exit=False).get_tracer("test").start_span("another call's")
    with use_span(span):
        made.measurements.hand_over()
    found = [*made.points("vivavoce.turn.e2e_latency"), *made.points("vivavoce.turns")]
    assert [len(point.exemplars) for point in found] == [0, 0]
