"""Two sessions of one process, side by side: no span, metric, log, event, report or page of one mentions the other.

All parts and texts of a session have its name; the exported data is searched for the other's, item by item of the bytes
of the real OTLP exporters.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from kit.servers.otlp_endpoint import otlp_endpoint
from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.reports.page import render
from vivavoce.agents.telemetry import Telemetry, TelemetryOptions
from vivavoce.agents.telemetry.logs.log_export import SessionLogHandler
from vivavoce.agents.testing import ScriptedLLM, ScriptedRealtimeModel, ScriptedSTT, ScriptedTTS, ScriptedVAD
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.errors import ProviderConnectionError
from vivavoce.pipelines.llm.base import Usage
from vivavoce.pipelines.llm.tools import Tool, ToolCall, function_tool
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities
from vivavoce.pipelines.realtime_model.fallback import FallbackRealtime
from vivavoce.pipelines.testing import VirtualClock, run_virtual

NAMES = ("ariel", "prospero")
mine = logging.getLogger("my.app")


def script(name: str) -> list[Any]:
    """A tool call, and the text about it; the same again."""
    call = ToolCall(call_id=f"call of {name}", name=f"ask_{name}", arguments=json.dumps({"what": name}))
    answer = [0.1, f"Said by {name}.", Usage(input_tokens=7 if name == NAMES[0] else 9, output_tokens=3)]
    return [[0.1, call], answer, [0.1, call], answer]


def named(kind: type[Any], name: str) -> type[Any]:
    """Return a kind of provider under a name of its own."""
    return type(f"{kind.__name__}Of{name}", (kind,), {"provider": f"{name} provider", "model": f"{name} model"})


def cascading(name: str) -> Pipeline:
    return CascadingPipeline(
        stt=named(ScriptedSTT, name)(),
        llm=named(ScriptedLLM, name)(*script(name)),
        tts=named(ScriptedTTS, name)(),
        vad=named(ScriptedVAD, name)(),
    )


def realtime(name: str) -> Pipeline:
    capabilities = RealtimeCapabilities(turn_detection=frozenset({"local"}))
    model = named(ScriptedRealtimeModel, name)
    down, up = model(capabilities=capabilities), model(*script(name), capabilities=capabilities)
    down.fail_open(ProviderConnectionError(f"{name} is down", provider=f"{name} provider"))
    return RealtimePipeline(FallbackRealtime([down, up]), vad=named(ScriptedVAD, name)())


MAKES = {"cascading": cascading, "realtime": realtime}


def tool_of(name: str) -> Tool[..., Any]:
    """A sync tool, which runs in a thread, logs there and fails."""

    @function_tool(name=f"ask_{name}")
    def ask(what: str) -> str:
        """Ask."""
        mine.info("looking for %s", what, extra={"owner": name})
        raise ValueError(f"nothing of {name}")

    return ask


@pytest.fixture(autouse=True)
def logs() -> Iterator[None]:
    """Everything that anybody logs is made, and the application's own sent."""
    handler, loggers = SessionLogHandler(), [logging.getLogger("vivavoce"), mine]
    levels = [logger.level for logger in loggers]
    mine.addHandler(handler)
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
    yield
    mine.removeHandler(handler)
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


Items = list[tuple[str, Any]]
"""Items of one endpoint: "span", "log" or a metric's name, and the decoded message."""


def read(received: list[tuple[str, bytes]]) -> Items:
    return [found for path, body in received for found in _items(path, body)]


def session_of(item: Any) -> str:
    """Return the session that a span or a log record names."""
    return next((one.value.string_value for one in item.attributes if one.key == "vivavoce.session.id"), "")


def _items(path: str, body: bytes) -> Iterator[tuple[str, Any]]:
    if path == "/v1/traces":
        for spans in ExportTraceServiceRequest.FromString(body).resource_spans:
            yield from (("span", span) for scope in spans.scope_spans for span in scope.spans)
    elif path == "/v1/logs":
        for logs in ExportLogsServiceRequest.FromString(body).resource_logs:
            yield from (("log", log) for scope in logs.scope_logs for log in scope.log_records)
    else:
        for found in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for metric in (metric for scope in found.scope_metrics for metric in scope.metrics):
                kind = getattr(metric, metric.WhichOneof("data") or "")
                yield from ((metric.name, point) for point in kind.data_points)


def names_in(sent: bytes) -> set[str]:
    return {name for name in NAMES if name.encode() in sent.lower()}


def check_spans_and_logs(items: Items, names: set[str]) -> None:
    """Each is one session's, in its trace and in its words."""
    of_trace: dict[bytes, set[str]] = {}
    for what, item in items:
        if what in ("span", "log"):
            assert session_of(item) in {f"session of {name}" for name in names}, item
            assert names_in(item.SerializeToString()) == {session_of(item).removeprefix("session of ")}, item
            of_trace.setdefault(item.trace_id, set()).add(session_of(item))
    assert sorted(map(sorted, of_trace.values())) == [[f"session of {name}"] for name in sorted(names)]
    looked = [session_of(item) for what, item in items if what == "log" and "looking for" in item.body.string_value]
    assert sorted(looked) == sorted(f"session of {name}" for name in names for _ in range(2))


async def call(name: str, pipeline: Pipeline, telemetry: TelemetryOptions | Telemetry, folder: Path) -> list[str]:
    """Have a call of two turns; return its reports and events, as text."""
    clock, written = VirtualClock(), list[str]()
    options = SessionOptions(
        clock=clock,
        capture_content=True,
        preemptive=False,
        telemetry=telemetry,
        report_path=folder / name / "report.json",
    )
    agent = Agent(f"You are {name}.", tools=[tool_of(name)])
    session = AgentSession[None](agent, pipeline, options=options, id=f"session of {name}")
    room = LocalTransport(clock)
    session.on("error", lambda event: written.append(repr(event)))
    session.on("turn_completed", lambda event: written.append(repr(event.record.to_json())))
    async with session:
        await session.start(room)
        for _ in range(2):
            session.input.text(f"this is {name}")
            await asyncio.sleep(3.0)  # noqa: TID251 - virtual, and not the session's own
    report = session.report()
    (saved,) = (folder / name).glob("report*.json")
    return [*written, *room.turn_records, json.dumps(report.to_json()), render(report), saved.read_text()]


Kinds = tuple[str, str]
PAIRS = pytest.mark.parametrize(
    "kinds", [("cascading", "realtime"), ("cascading", "cascading"), ("realtime", "realtime")], ids=" and ".join
)


@PAIRS
def test_sessions_with_telemetry_of_their_own_tell_nothing_of_each_other(kinds: Kinds, tmp_path: Path) -> None:
    with otlp_endpoint() as first, otlp_endpoint() as second:
        at = dict(zip(NAMES, (first, second), strict=True))

        def own(name: str) -> TelemetryOptions:
            return TelemetryOptions(endpoint=at[name].url, attributes={"tenant": name})

        async def both() -> list[list[str]]:
            calls = (
                call(name, MAKES[kind](name), own(name), tmp_path) for name, kind in zip(NAMES, kinds, strict=True)
            )
            return list(await asyncio.gather(*calls))

        texts = run_virtual(both())
    for name, kind, written in zip(NAMES, kinds, texts, strict=True):
        assert [names_in(text.encode()) for text in written] == [{name}] * len(written)
        items = read(at[name].received)
        check_spans_and_logs(items, {name})
        for what, item in items:
            assert names_in(item.SerializeToString()) <= {name}, what
        metrics = {what for what, _ in items}
        assert metrics >= {"vivavoce.turns", "vivavoce.tool.calls", "gen_ai.client.token.usage"}
        assert ("vivavoce.fallbacks" in metrics) is (kind == "realtime")


@PAIRS
def test_sessions_that_share_their_telemetry_are_told_apart_in_every_item(kinds: Kinds, tmp_path: Path) -> None:
    with otlp_endpoint() as endpoint:

        async def both() -> list[list[str]]:
            telemetry = Telemetry(TelemetryOptions(endpoint=endpoint.url))
            calls = (
                call(name, MAKES[kind](name), telemetry, tmp_path) for name, kind in zip(NAMES, kinds, strict=True)
            )
            texts = list(await asyncio.gather(*calls))
            await telemetry.aclose(clock=VirtualClock())
            return texts

        texts = run_virtual(both())
    for name, written in zip(NAMES, texts, strict=True):
        assert [names_in(text.encode()) for text in written] == [{name}] * len(written)
    items = read(endpoint.received)
    check_spans_and_logs(items, set(NAMES))
    for what, item in items:
        assert len(names_in(item.SerializeToString())) <= 1, what
    for metric in ("vivavoce.turns", "vivavoce.tool.calls", "gen_ai.client.token.usage"):
        seen = [names_in(item.SerializeToString()) for what, item in items if what == metric]
        assert {name for names in seen for name in names} == set(NAMES), metric
        assert set() not in seen, metric
