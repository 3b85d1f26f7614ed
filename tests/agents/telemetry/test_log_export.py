"""Log records sent as OpenTelemetry's: each goes where its own session's telemetry goes, with ids, without content."""

from __future__ import annotations

import asyncio
import io
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import anyio
import pytest
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import (
    InMemoryLogRecordExporter,
    LogRecordExporter,
    LogRecordExportResult,
    SimpleLogRecordProcessor,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kit.logged_calls import Finder, cascading, in_job, mine, realtime
from vivavoce.agents import AgentSession, SessionOptions
from vivavoce.agents.cli.running import configure_logging
from vivavoce.agents.job import JobContext, JobInfo
from vivavoce.agents.telemetry import Telemetry, TelemetryOptions
from vivavoce.agents.telemetry.export.counted import BatchLimits, CountedLogs, Counts
from vivavoce.agents.telemetry.export.flush import shut_down_providers
from vivavoce.agents.telemetry.logs.log_export import SessionLogHandler, log_export
from vivavoce.agents.telemetry.options import options_from_environment
from vivavoce.agents.telemetry.telemetry import TelemetryControl
from vivavoce.agents.telemetry.tracing.job_span import job_span
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.agents.worker.job import RoomJob
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.run import JobRun
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.testing import VirtualClock, run_virtual

theirs = logging.getLogger("vivavoce.agents.telemetry.some_module")


PIPELINES = pytest.mark.parametrize("make", [cascading, realtime])


class Backend:
    """Somebody's backend, in memory."""

    def __init__(self, **options: Any) -> None:
        self._logs, self._spans = InMemoryLogRecordExporter(), InMemorySpanExporter()  # type: ignore[no-untyped-call]
        loggers, tracers = LoggerProvider(shutdown_on_exit=False), TracerProvider(shutdown_on_exit=False)
        loggers.add_log_record_processor(SimpleLogRecordProcessor(self._logs))
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.telemetry = Telemetry(TelemetryOptions(tracer_provider=tracers, logger_provider=loggers, **options))

    @property
    def records(self) -> Sequence[ReadableLogRecord]:
        return self._logs.get_finished_logs()

    @property
    def texts(self) -> list[str]:
        return [str(record.log_record.body) for record in self.records]

    def one(self, text: str) -> ReadableLogRecord:
        (found,) = [record for record in self.records if text in str(record.log_record.body)]
        return found

    def span(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self._spans.get_finished_spans() if span.name == name]
        return found


def sent(record: ReadableLogRecord) -> Mapping[str, Any]:
    return record.log_record.attributes or {}


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """All records are made, and records of the application are sent if its handler does so."""
    loggers = [logging.getLogger("vivavoce"), logging.getLogger("my")]
    before = [logger.level for logger in loggers]
    handler = SessionLogHandler()
    mine.addHandler(handler)
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
    yield
    mine.removeHandler(handler)
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


async def call(pipeline: Pipeline, backend: Backend | None, name: str, *, captures: bool = False) -> AgentSession[None]:
    clock = VirtualClock()
    telemetry = None if backend is None else backend.telemetry
    options = SessionOptions(clock=clock, capture_content=captures, telemetry=telemetry)
    async with in_job(f"job of {name}"):
        session = AgentSession[None](Finder("Secret orders."), pipeline, options=options, id=name)
        async with session:
            await session.start(LocalTransport(clock))
            session.input.text("a secret question")
            await asyncio.sleep(3.0)  # noqa: TID251 - virtual, and not the session's own
            mine.warning("from outside")
    return session


@PIPELINES
def test_a_record_goes_with_its_ids_to_the_telemetry_of_its_own_session(make: Any) -> None:
    backends = [Backend(attributes={"tenant": name}) for name in "ab"]

    async def both() -> list[AgentSession[None]]:
        calls = [call(make(), backend, f"session {n}") for n, backend in enumerate(backends)]
        return list(await asyncio.gather(*calls))

    for session, backend, tenant in zip(run_virtual(both()), backends, "ab", strict=True):
        (turn,) = session.turns
        looked, raised = backend.one("looking"), backend.one("raised ValueError")
        for record in (looked, raised):
            assert sent(record)["vivavoce.session.id"] == session.id
            assert sent(record)["gen_ai.conversation.id"] == session.id
            assert sent(record)["vivavoce.job.id"] == f"job of {session.id}"
            assert sent(record)["vivavoce.turn.id"] == turn.turn_id
            assert sent(record)["tenant"] == tenant
        assert {sent(record)["vivavoce.session.id"] for record in backend.records} == {session.id}
        assert "from outside" not in backend.texts  # a session marks nothing but its own tasks
        context = backend.span("execute_tool look_up").context
        assert (looked.log_record.trace_id, looked.log_record.span_id) == (context.trace_id, context.span_id)
        assert (looked.log_record.severity_text, looked.log_record.severity_number.value) == ("INFO", 9)  # type: ignore[union-attr]
        line = backend.one(f"{turn.turn_id} (")  # how the turn went
        assert sent(line)["vivavoce.turn.id"] == turn.turn_id


@PIPELINES
def test_no_content_is_sent_unless_it_is_captured(make: Any) -> None:
    quiet, open_ = Backend(), Backend()
    run_virtual(call(make(), quiet, "one"))
    everything = repr([(record.log_record.body, dict(sent(record))) for record in quiet.records])
    assert "secret" not in everything.lower()
    assert "card is 4711" not in everything
    assert "in look_up" in everything  # the lines of code are there
    run_virtual(call(make(), open_, "two", captures=True))
    assert "card is 4711" in repr([dict(sent(record)) for record in open_.records])


def test_a_record_has_its_extras_and_its_exception_and_no_secret() -> None:
    backend = Backend()
    token = log_export.set(TelemetryControl.of(backend.telemetry).logs)
    try:
        raise KeyError("lo" + str(57))
    except KeyError:
        extra = {
            "api_key": "abc",
            "count": 2,
            "thing": object,
            "huge": 1 << 70,
            "half": "\ud83d",
            "note": "key sk-0123456789abcdefgh",
        }
        mine.exception("Bearer abcdefghijk: %s", "twice", extra=extra)
    finally:
        log_export.reset(token)
    (record,) = backend.records
    attributes = sent(record)
    assert record.log_record.body == "Bearer •••: twice"
    assert record.instrumentation_scope is not None
    assert record.instrumentation_scope.name == "my.app"
    assert (attributes["api_key"], attributes["note"]) == ("•••", "key •••")
    assert (attributes["count"], attributes["huge"], attributes["half"]) == (2, str(1 << 70), "\ufffd")
    assert attributes["exception.type"] == "KeyError"
    assert "lo57" not in attributes["exception.stacktrace"]  # nothing says that content may be sent
    assert attributes["code.function.name"] == "test_a_record_has_its_extras_and_its_exception_and_no_secret"
    assert "vivavoce.session.id" not in attributes


@pytest.mark.parametrize("kind", [ValueError, SystemExit])
def test_redact_is_asked_for_attributes_and_the_message(kind: type[BaseException]) -> None:
    def redact(name: str, value: Any) -> Any:
        if name == "broken":
            raise kind
        return {"body": "a message", "phone": None}.get(name, value)

    backend = Backend(redact=redact)
    token = log_export.set(TelemetryControl.of(backend.telemetry).logs)
    mine.info("call 0815", extra={"phone": "0815", "broken": "0815", "kept": "x"})
    log_export.reset(token)
    (record,) = backend.records
    assert record.log_record.body == "a message"
    assert sent(record)["kept"] == "x"
    assert not {"phone", "broken"} & set(sent(record))


async def test_what_a_job_logs_goes_with_the_job_and_nothing_before_or_after_it() -> None:
    backend = Backend()
    mine.info("before")
    async with in_job("AJ_1"):
        with job_span(TelemetryControl.of(backend.telemetry), JobInfo(id="AJ_1", room="r"), lambda: ""):
            theirs.info("in the job")
    theirs.info("after")
    (record,) = backend.records
    assert (record.log_record.body, sent(record)["vivavoce.job.id"]) == ("in the job", "AJ_1")
    assert record.log_record.trace_id == backend.span("job").context.trace_id


def test_what_a_job_s_own_error_says_is_for_who_runs_the_worker_and_is_not_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    backend = Backend()

    async def entrypoint(ctx: JobContext) -> None:
        pin = 4000 + 815  # lines of code are sent
        raise ValueError(f"the caller said: my pin is {pin}")

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            control = RoomJob(JobInfo(id="AJ_1", room="r"), url="", token="", shared={}, tasks=tasks)
            await JobRun(control, entrypoint, WorkerOptions(), tasks, TelemetryControl.of(backend.telemetry)).run()

    run_virtual(main())
    assert "my pin is 4815" in caplog.text
    assert any(text.startswith("job AJ_1: the entrypoint failed: ValueError") for text in backend.texts)
    assert not any(
        "pin is 4815" in text for text in (*backend.texts, *(str(sent(record)) for record in backend.records))
    )


def test_a_session_without_logs_of_its_own_sends_none_to_its_jobs() -> None:
    of_job = Backend()
    only_spans = Telemetry(TelemetryOptions(tracer_provider=TracerProvider(shutdown_on_exit=False)))
    assert TelemetryControl.of(only_spans).logs is None
    with job_span(TelemetryControl.of(of_job.telemetry), JobInfo(id="AJ_1", room="r"), lambda: ""):
        backend = Backend()
        backend.telemetry = only_spans
        run_virtual(call(cascading(), backend, "one"))
    assert {sent(record).get("vivavoce.session.id") for record in of_job.records} <= {None}


def test_a_handler_on_the_root_sends_records_of_vivavoce_once() -> None:
    backend, handler = Backend(), SessionLogHandler()
    TelemetryControl.of(backend.telemetry).begin()
    logging.getLogger().addHandler(handler)
    token = log_export.set(TelemetryControl.of(backend.telemetry).logs)
    try:
        theirs.warning("once")
    finally:
        log_export.reset(token)
        logging.getLogger().removeHandler(handler)
    assert backend.texts == ["once"]


def test_an_application_without_logging_still_sees_warnings_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    last = logging.StreamHandler(out)
    last.setLevel(logging.WARNING)
    monkeypatch.setattr(logging, "lastResort", last)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    TelemetryControl.of(Backend().telemetry).begin()
    theirs.info("quiet")
    theirs.warning("loud")
    assert out.getvalue() == "loud\n"
    monkeypatch.setattr(logging.getLogger(), "handlers", [logging.NullHandler()])
    theirs.warning("written by others")
    assert out.getvalue() == "loud\n"


def test_a_logger_provider_that_raises_costs_its_records_and_not_the_call(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(LoggerProvider):
        def get_logger(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("no")

    backend = Backend()
    backend.telemetry = Telemetry(TelemetryOptions(logger_provider=Broken(shutdown_on_exit=False)))
    session = run_virtual(call(cascading(), backend, "one"))
    assert [turn.outcome for turn in session.turns] == ["completed"]
    assert sum("A log record could not be sent" in line for line in caplog.messages) == 1


class Stuck(LogRecordExporter):
    """Takes a batch when it is let, and keeps it."""

    def __init__(self) -> None:
        self.may_go = threading.Event()
        self.is_asked = threading.Event()
        self.taken: list[str] = []

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        self.is_asked.set()
        assert self.may_go.wait(60)
        self.taken += [str(record.log_record.body) for record in batch]
        return LogRecordExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing is held."""

    def force_flush(self, timeout_millis: int = 0) -> bool:
        return True


def test_a_full_queue_drops_the_newest_and_counts_them() -> None:
    exporter = Stuck()
    limits = BatchLimits(max_queue=3, max_batch=1)
    counts = Counts("logs", limits)
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(CountedLogs(exporter, counts, limits))
    backend = Backend()
    backend.telemetry = Telemetry(TelemetryOptions(logger_provider=provider))
    token = log_export.set(TelemetryControl.of(backend.telemetry).logs)
    mine.info("0")
    assert exporter.is_asked.wait(60)  # the thread holds the first, and no code waits for it
    for number in range(1, 9):
        mine.info(str(number))
    log_export.reset(token)
    assert (counts.waiting, counts.dropped) == (3, 5)
    exporter.may_go.set()
    shut_down_providers([provider]).result(60)
    assert exporter.taken == ["0", "1", "2", "3"]
    assert (counts.delivered, counts.lost, counts.waiting) == (4, 0, 0)


async def test_records_that_cannot_be_delivered_are_counted_and_the_close_does_not_wait() -> None:
    telemetry = Telemetry(TelemetryOptions(endpoint="http://127.0.0.1:9", export_timeout=0.2))
    TelemetryControl.of(telemetry).begin()
    token = log_export.set(TelemetryControl.of(telemetry).logs)
    mine.info("lost")
    log_export.reset(token)
    assert telemetry.waiting_logs == 1
    assert await telemetry.aclose(limit=60)  # the export itself has given up
    assert (telemetry.waiting_logs, telemetry.dropped_logs) == (0, 1)


def test_the_environment_turns_logs_on_and_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert options_from_environment() is None
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://127.0.0.1:9/v1/logs")
    options = options_from_environment()
    assert options is not None
    assert TelemetryControl.of(Telemetry(options)).logs is not None
    monkeypatch.setenv("OTEL_LOGS_EXPORTER", "none")
    assert TelemetryControl.of(Telemetry(options)).logs is None


def test_the_commands_make_what_is_sent_and_show_what_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root, ours, backend = logging.getLogger(), logging.getLogger("vivavoce"), Backend()
    handlers, level, own = root.handlers[:], root.level, ours.level
    TelemetryControl.of(backend.telemetry).begin()
    token = log_export.set(TelemetryControl.of(backend.telemetry).logs)
    try:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
        configure_logging()
        theirs.info("for the backend")
        theirs.warning("for both")
        assert backend.texts == ["for the backend", "for both"]
        assert "for both" in (shown := capsys.readouterr().err)
        assert "for the backend" not in shown
        monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
        configure_logging()
        assert not theirs.isEnabledFor(logging.INFO)
    finally:
        log_export.reset(token)
        root.handlers[:] = handlers
        root.setLevel(level)
        ours.setLevel(own)
