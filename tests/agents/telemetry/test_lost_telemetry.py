"""Lost telemetry is counted and reported: a missing collector, one that hangs, a malformed endpoint."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from vivavoce.agents.telemetry import Telemetry, TelemetryOptions
from vivavoce.agents.telemetry.export.counted import BatchLimits, CountedSpans, Counts
from vivavoce.agents.telemetry.export.endpoints import GRPC
from vivavoce.agents.telemetry.export.flush import shut_down_providers
from vivavoce.agents.telemetry.telemetry import TelemetryControl
from vivavoce.pipelines.core.errors import ConfigurationError

VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"
REFUSED = (
    "{} must begin with http:// or https://, such as http://localhost:4318, got {!r}; calls go on, and their {} "
    "are not sent"
)


@contextmanager
def silent_server() -> Iterator[str]:
    """An endpoint that takes a connection and does not answer; at the end it refuses, and the export is over too."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60.0)
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            for thread in threading.enumerate():
                if thread.name == "vivavoce telemetry flush":
                    thread.join(60.0)


def end_spans(telemetry: Telemetry, count: int) -> None:
    TelemetryControl.of(telemetry).begin()
    for number in range(count):
        TelemetryControl.of(telemetry).tracer.start_span(str(number)).end()


@pytest.mark.parametrize("limit", [0.05, 60.0], ids=["given up", "tried"])
async def test_spans_for_a_collector_that_is_not_there_are_counted_as_lost(
    limit: float, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    telemetry = Telemetry(TelemetryOptions(endpoint=f"http://127.0.0.1:{port}", export_timeout=0.5))
    end_spans(telemetry, 26)
    assert telemetry.dropped_spans == 0  # they wait
    was_tried = await telemetry.aclose(limit)
    assert (telemetry.dropped_spans, telemetry.delivered_spans) == (26, 0)
    # On a busy machine all are counted before the wait is given up, and the line names no rest.
    given_up = "Telemetry was not sent within 0.05 s; the session does not wait for the rest"
    assert any(message.startswith(given_up) for message in caplog.messages) is not was_tried


async def test_spans_for_a_collector_that_hangs_are_counted_as_lost_when_nobody_waits_any_more() -> None:
    with silent_server() as url:
        telemetry = Telemetry(TelemetryOptions(endpoint=url, export_timeout=60.0))
        end_spans(telemetry, 7)
        assert not await telemetry.aclose(0.1)
        assert (telemetry.dropped_spans, telemetry.delivered_spans) == (7, 0)


class Late(SpanExporter):
    """Takes spans when it is let."""

    def __init__(self) -> None:
        self.may_go, self.is_asked = threading.Event(), threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.is_asked.set()
        assert self.may_go.wait(60)
        return SpanExportResult.SUCCESS


def test_what_comes_through_after_all_is_delivered_and_not_lost() -> None:
    exporter, limits = Late(), BatchLimits(max_batch=2)
    counts = Counts("spans", limits)
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(CountedSpans(exporter, counts, limits))
    for number in range(5):
        tracers.get_tracer("test").start_span(str(number)).end()
    assert exporter.is_asked.wait(60)
    assert (counts.undelivered, counts.unsettled) == (0, 5)  # one batch is being sent, others wait
    done = shut_down_providers([tracers])
    counts.give_up()
    assert counts.undelivered == 5
    exporter.may_go.set()
    done.result(60)
    assert (counts.undelivered, counts.delivered, counts.unsettled) == (0, 5, 0)


async def test_an_endpoint_variable_without_a_scheme_is_said_once_and_what_it_loses_is_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(VARIABLE, "me:secret@127.0.0.1:4318?key=secret")
    telemetry = Telemetry()
    end_spans(telemetry, 3)
    assert await telemetry.aclose(60)
    assert (telemetry.dropped_spans, telemetry.delivered_spans) == (3, 0)
    assert caplog.messages == [REFUSED.format(VARIABLE, "127.0.0.1:4318", "traces, metrics, logs")]


def test_each_wrong_variable_is_named_with_the_signals_that_it_loses(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(VARIABLE, "localhost:4318")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector/v1/traces")
    monkeypatch.setenv("OTEL_LOGS_EXPORTER", "none")
    Telemetry()
    assert caplog.messages == [
        REFUSED.format("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector/v1/traces", "traces"),
        REFUSED.format(VARIABLE, "localhost:4318", "metrics"),
    ]


async def test_a_protocol_of_the_environment_that_is_none_costs_what_it_would_have_sent_and_no_call(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(VARIABLE, "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "http/protobuf")
    telemetry = Telemetry()
    end_spans(telemetry, 3)
    assert await telemetry.aclose(60)
    assert (telemetry.dropped_spans, telemetry.delivered_spans) == (3, 0)
    assert caplog.messages == [
        "OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf or grpc, got 'http/json'; calls go on, and their traces, "
        "metrics are not sent"
    ]


def test_grpc_without_its_extra_is_refused_in_the_options_and_warned_of_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in [name for name in sys.modules if name.startswith(f"{GRPC}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, GRPC, None)  # Python's own mark for a module that cannot be imported
    with pytest.raises(ConfigurationError, match="needs the extra grpc"):
        Telemetry(TelemetryOptions(endpoint="http://127.0.0.1:9", protocol="grpc"))
    monkeypatch.setenv(VARIABLE, "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")
    Telemetry()
    assert caplog.messages == [
        'OTLP over grpc needs the extra grpc: pip install "vivavoce[grpc]"; calls go on, and their traces are not sent'
    ]


def test_an_endpoint_beside_providers_of_the_application_is_refused() -> None:
    with pytest.raises(ValueError, match="either endpoint or providers of your own"):
        TelemetryOptions(endpoint="http://127.0.0.1:9", tracer_provider=TracerProvider(shutdown_on_exit=False))


@pytest.mark.parametrize(
    "environment",
    [
        {VARIABLE: "localhost:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
        {VARIABLE: "http://localhost:4318"},
        {VARIABLE: "HTTPS://collector"},
        {VARIABLE: ""},
        {},
    ],
    ids=["grpc needs none", "http", "https", "empty", "unset"],
)
def test_endpoints_that_can_be_meant_are_said_nothing_about(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    Telemetry()
    assert caplog.messages == []


def test_an_endpoint_in_the_options_makes_the_variable_no_matter(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(VARIABLE, "localhost:4318")
    Telemetry(TelemetryOptions(endpoint="http://localhost:4318"))
    assert caplog.messages == []
