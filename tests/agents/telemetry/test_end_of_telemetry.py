"""The end of a session's telemetry: all of it is sent, within a limit of its own, and nothing of the close waits."""

from __future__ import annotations

import asyncio
import threading

import anyio
import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.events import Closed
from vivavoce.agents.telemetry import Telemetry, TelemetryOptions
from vivavoce.agents.testing import LoopHeldError, SessionHarness
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.core.clock import LoopClock

LIMIT = 60.0
"""Seconds after which a test counts as hung."""


class Stubborn(Agent):
    """Uses up the close's budget, and goes on until the test lets it end."""

    def __init__(self) -> None:
        super().__init__("x")
        self.may_end, self.has_ended = anyio.Event(), anyio.Event()

    async def on_exit(self) -> None:
        while not self.may_end.is_set():
            try:
                await self.may_end.wait()
            except anyio.get_cancelled_exc_class():
                continue
        self.has_ended.set()


class Slow(SpanProcessor):
    """An exporter whose endpoint does not answer."""

    def __init__(self) -> None:
        self.flushes = 0
        self.has_begun = threading.Event()
        self.may_end = threading.Event()
        self.has_ended = threading.Event()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        self.flushes += 1
        self.has_begun.set()
        self.may_end.wait(LIMIT)
        self.has_ended.set()
        return True


def session_of(
    agent: Agent, telemetry: TelemetryOptions | Telemetry, *, close_timeout: float = LIMIT
) -> AgentSession[None]:
    options = SessionOptions(clock=LoopClock(), close_timeout=close_timeout, telemetry=telemetry)
    return AgentSession(agent, SessionHarness(Agent("x")).pipeline, options=options)


def providers(processor: SpanProcessor) -> TracerProvider:
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(processor)
    return tracers


async def test_the_trace_of_a_call_whose_close_hangs_is_sent_whole() -> None:
    exporter, agent = InMemorySpanExporter(), Stubborn()
    telemetry = TelemetryOptions(tracer_provider=providers(BatchSpanProcessor(exporter)))
    session = session_of(agent, telemetry, close_timeout=0.5)
    await session.start(LocalTransport(LoopClock()))
    report = await session.close()
    assert "on_exit" in [step.name for step in report.steps if step.error]
    sent = {span.name: span for span in exporter.get_finished_spans()}
    assert {"session", "session_close", "on_exit", "room audio"} <= set(sent)
    agent.may_end.set()
    await agent.has_ended.wait()  # the leak guard looks


async def test_a_flush_that_hangs_ends_at_its_limit_and_is_not_blamed_on_the_close(
    caplog: pytest.LogCaptureFixture,
) -> None:
    slow = Slow()
    session = session_of(Agent("x"), TelemetryOptions(tracer_provider=providers(slow), flush_timeout=0.3))
    had_begun: list[bool] = []
    session.on(Closed, lambda _: had_begun.append(slow.has_begun.is_set()))
    await session.start(LocalTransport(LoopClock()))
    report = await session.close()
    is_hanging = not slow.has_ended.is_set()
    slow.may_end.set()
    assert report.is_clean
    assert is_hanging, "the close has not waited for the flush"
    assert had_begun == [False], "handlers of `closed` run before the flush"
    assert "Telemetry was not sent within 0.3 s; the session does not wait for the rest" in caplog.messages


async def test_a_session_that_shares_its_telemetry_waits_for_no_flush() -> None:
    slow = Slow()
    telemetry = Telemetry(TelemetryOptions(tracer_provider=providers(slow), flush_timeout=0.1))
    session = session_of(Agent("x"), telemetry)
    await session.start(LocalTransport(LoopClock()))
    assert (await session.close()).is_clean
    assert slow.flushes == 0
    assert not await telemetry.aclose()
    assert await anyio.to_thread.run_sync(slow.has_begun.wait, LIMIT)
    assert slow.flushes == 1
    slow.may_end.set()


def test_a_flush_that_ends_when_the_loop_is_no_more_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    slow = Slow()

    async def call() -> None:
        await Telemetry(TelemetryOptions(tracer_provider=providers(slow), flush_timeout=0.01)).aclose()

    asyncio.run(call())
    slow.may_end.set()
    assert slow.has_ended.wait(LIMIT)
    for thread in threading.enumerate():
        if thread.name == "vivavoce telemetry flush":
            thread.join(LIMIT)
    assert [record for record in caplog.records if record.name.startswith("concurrent")] == []


class _FatalError(LoopHeldError):
    """As a bug that no `except Exception` stops, and that no boundary around a handler contains."""


async def test_a_trace_ends_though_the_close_is_broken_off() -> None:
    def fail(_: Closed) -> None:
        raise _FatalError

    exporter = InMemorySpanExporter()
    session = session_of(Agent("x"), TelemetryOptions(tracer_provider=providers(BatchSpanProcessor(exporter))))
    session.on(Closed, fail)
    await session.start(LocalTransport(LoopClock()))
    tasks = [task for task in asyncio.all_tasks() if session.id in task.get_name()]
    await session.close()
    ends = [task.exception() for task in tasks if task.done() and not task.cancelled()]  # no other code reads it
    (error,) = (error for error in ends if error is not None)
    assert isinstance(error, BaseExceptionGroup)
    assert error.subgroup(_FatalError) is not None
    sent = {span.name: span for span in exporter.get_finished_spans()}
    assert (sent["session"].attributes or {})["vivavoce.close.reason"] == "user_initiated"
