"""Values reach the instruments of OpenTelemetry, and an instrument that raises costs no call."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import use_span

from vivavoce.agents.telemetry import Telemetry, TelemetryOptions
from vivavoce.agents.telemetry.metrics.meters import Meters
from vivavoce.agents.telemetry.telemetry import TelemetryControl


class Nothing:
    """A queue with nothing in it."""

    dropped_spans = waiting_spans = dropped_logs = waiting_logs = 0


class Made:
    """Instruments, and their readers."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.meters = Meters(MeterProvider([self._reader], shutdown_on_exit=False).get_meter("test"), Nothing())

    def points(self, name: str) -> list[Any]:
        return points(self._reader, name)


@pytest.fixture
def made() -> Made:
    return Made()


def points(reader: InMemoryMetricReader, name: str) -> list[Any]:
    data = reader.get_metrics_data()
    assert data is not None
    scopes = (scope for resource in data.resource_metrics for scope in resource.scope_metrics)
    return [point for scope in scopes for each in scope.metrics if each.name == name for point in each.data.data_points]


def test_what_goes_up_and_down_again_is_a_series_of_nothing_and_not_no_series(made: Made) -> None:
    made.meters.active(1, {})
    made.meters.active(-1, {})
    assert [point.value for point in made.points("vivavoce.sessions.active")] == [0]


def test_an_exemplar_names_the_trace_that_the_value_was_measured_in(made: Made) -> None:
    span = TracerProvider(shutdown_on_exit=False).get_tracer("test").start_span("turn")
    with use_span(span):
        made.meters.e2e_latency(0.3, {})
    (point,) = made.points("vivavoce.turn.e2e_latency")
    assert [exemplar.trace_id for exemplar in point.exemplars] == [span.get_span_context().trace_id]


async def test_sessions_that_bring_one_meter_provider_are_all_counted() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    for _ in range(3):  # each with options, and so with a Telemetry of its own
        telemetry = Telemetry(TelemetryOptions(meter_provider=provider))
        TelemetryControl.of(telemetry).begin()
        TelemetryControl.of(telemetry).meters.turns(1, {})
        TelemetryControl.of(telemetry).meters.e2e_latency(0.3, {})
        assert await telemetry.aclose()
    assert [point.value for point in points(reader, "vivavoce.turns")] == [3]
    assert [point.count for point in points(reader, "vivavoce.turn.e2e_latency")] == [3]


def test_what_is_no_number_costs_nothing_but_itself(made: Made, caplog: pytest.LogCaptureFixture) -> None:
    nothing: Any = None  # tokens of a plugin that does not count them
    for tokens in (nothing, 3, nothing, 5):
        made.meters.tokens(tokens, {})
        made.meters.characters(tokens, {})
    assert [point.sum for point in made.points("gen_ai.client.token.usage")] == [8]
    assert [point.value for point in made.points("vivavoce.speech.characters")] == [8]
    assert len([message for message in caplog.messages if "said once" in message]) == 1
