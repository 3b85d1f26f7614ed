"""Without `capture_content` no word of a call leaves the process, down to the bytes; with it, all do.

In this call each party says a word of its own that occurs nowhere else: the caller, the agent, its instructions, tools,
and every failure. The bytes are those of the real OTLP exporters, received by a server; report, page and records are
the written files.
"""

from __future__ import annotations

import io
import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from kit.servers.otlp_endpoint import otlp_endpoint
from vivavoce.agents import Agent, AgentSession, CompletedTurn, SessionOptions, ToolError, function_tool
from vivavoce.agents.events import (
    EVENT_TYPES,
    ErrorOccurred,
    HistoryItemAdded,
    HistoryItemRemoved,
    HistoryItemReplaced,
    SessionEvent,
    SpeechIn,
    SpeechOut,
    ToolCalled,
    ToolStarted,
    TurnCompleted,
    UserTranscript,
)
from vivavoce.agents.reports.page import render
from vivavoce.agents.telemetry import TelemetryOptions
from vivavoce.agents.telemetry.logs.logs import ContextFilter, JsonFormatter
from vivavoce.agents.testing import Caller, ScriptedLLM, ScriptedRealtimeModel, ScriptedSTT, ScriptedTTS, ScriptedVAD
from vivavoce.agents.testing.caller import Recognises
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.errors import whole_text
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities
from vivavoce.pipelines.testing import VirtualClock, run_virtual

SAID = {
    "caller": "zibbolar",
    "interim": "quavvink",
    "typed": "drombuxa",
    "room text": "felquorn",
    "agent": "hastrimole",
    "say": "jorvittel",
    "reply": "kelmoodra",
    "instructions": "lurvashen",
    "argument": "mogtweedle",
    "result": "nuxparrow",
    "tool error": "oblivarch",
    "unknown tool": "pruxillia",
}
"""Speaker -> word. With `capture_content` each is present."""
QUOTED = {
    "tool raises": "quimberdo",
    "hook raises": "rostavink",
    "hook refuses": "sproddler",
    "model raises": "tramvexil",
    "on_exit raises": "ulmostrad",
}
"""Likewise, in errors that quote the word; with `capture_content` logs have them if they have tracebacks."""
W = {**SAID, **QUOTED}


class Clerk(Agent):
    """Knows a word of its own, and fails with others."""

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        if "seven" in turn.text:
            raise ValueError(W["hook raises"])
        if "eight" in turn.text:
            raise ToolError(W["hook refuses"])

    async def on_exit(self) -> None:
        raise RuntimeError(W["on_exit raises"])

    @function_tool
    async def look_up(self, what: str) -> str:
        """Look it up."""
        return W["result"]

    @function_tool
    async def refuse(self) -> str:
        """Refuse it."""
        raise ToolError(W["tool error"])

    @function_tool
    async def break_down(self) -> str:
        """Fail."""
        raise ValueError(W["tool raises"])


CALLS = [
    ToolCall(call_id="c1", name="look_up", arguments=json.dumps({"what": W["argument"]})),
    ToolCall(call_id="c2", name="refuse", arguments="{}"),
    ToolCall(call_id="c3", name="break_down", arguments="{}"),
    ToolCall(call_id="c4", name=W["unknown tool"], arguments="{}"),
]
SCRIPT: list[Any] = [
    [0.1, *CALLS],
    [0.1, f"It is {W['agent']}."],
    [0.1, "Two."],
    [0.1, "Three."],
    [0.1, "Four."],
    [0.1, ValueError(W["model raises"])],
    *[[0.1, "More."]] * 4,
]


def cascading() -> tuple[Pipeline, Recognises, ScriptedLLM]:
    stt, llm = ScriptedSTT(), ScriptedLLM(*SCRIPT)

    def recognise(text: str, is_final: bool, item_id: str) -> None:
        (stt.final if is_final else stt.interim)(text)

    return CascadingPipeline(stt=stt, llm=llm, tts=ScriptedTTS(), vad=ScriptedVAD()), recognise, llm


def realtime() -> tuple[Pipeline, Recognises, ScriptedRealtimeModel]:
    capabilities = RealtimeCapabilities(turn_detection=frozenset({"local"}))
    model = ScriptedRealtimeModel(*SCRIPT, capabilities=capabilities)

    def recognise(text: str, is_final: bool, item_id: str) -> None:
        model.transcript(text, item_id=item_id, is_final=is_final)

    return RealtimePipeline(model, vad=ScriptedVAD()), recognise, model


Make = Callable[[], tuple[Pipeline, Recognises, ScriptedLLM | ScriptedRealtimeModel]]
PIPELINES = pytest.mark.parametrize("make", [cascading, realtime])

OF_CONTENT = {
    HistoryItemAdded,
    HistoryItemReplaced,
    HistoryItemRemoved,
    SpeechIn,
    SpeechOut,
    ToolCalled,
    ToolStarted,
    UserTranscript,
}
"""Events that inform an application of the conversation."""


def plain(event: SessionEvent) -> bytes:
    """Return an event as an application would write it down; of an error, the exception itself is its own affair."""
    kept = [f for f in fields(event) if not (isinstance(event, ErrorOccurred) and f.name == "error")]
    record = event.record.to_json() if isinstance(event, TurnCompleted) else None
    return repr(([(f.name, getattr(event, f.name)) for f in kept], record)).encode()


@contextmanager
def written_logs() -> Iterator[io.StringIO]:
    """Lines of JSON, as `vivavoce start` writes them, of every level."""
    out, handler, logger = io.StringIO(), logging.StreamHandler(), logging.getLogger("vivavoce")
    handler.setStream(out)
    handler.addFilter(ContextFilter())
    handler.setFormatter(JsonFormatter())
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield out
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def have(make: Make, folder: Path, *, capture: bool) -> dict[str, bytes]:
    """Have the call; return all that left the process, by where it went."""
    pipeline, recognise, model = make()
    left: dict[str, list[bytes]] = defaultdict(list)

    async def main(url: str) -> None:
        clock = VirtualClock()
        room = LocalTransport(clock)
        options = SessionOptions(
            clock=clock,
            preemptive=False,
            capture_content=capture,
            telemetry=TelemetryOptions(endpoint=url),
            report_path=folder / "report.json",
        )
        session = AgentSession[None](Clerk(f"Never say {W['instructions']}."), pipeline, options=options)
        for kind in EVENT_TYPES:
            session.on(
                kind, lambda event: left["inside" if type(event) in OF_CONTENT else "events"].append(plain(event))
            )
        session.on(ErrorOccurred, lambda event: left["inside"].append(whole_text(event.error).encode()))
        caller = Caller(recognise)
        caller.says(f"one {W['caller']}", 0.5, 1.0, interims=[(0.8, W["interim"])])
        caller.types(f"three {W['room text']}", 9.0)
        async with session:
            await session.start(room)
            caller.begin(room, clock)
            await anyio.sleep(5.0)
            session.input.text(f"two {W['typed']}")
            await anyio.sleep(8.0)
            await session.say(f"Hear: {W['say']}.")
            await session.reply(f"Tell of {W['reply']}.")
            for text in ("five", "six", "seven", "eight"):
                session.input.text(text)
                await anyio.sleep(4.0)
            caller.stop()
        left["inside"] += [f"{one.instructions} {one.extra_instructions}".encode() for one in model.requests]
        left["inside"] += [repr(asdict(item)).encode() for item in session.history.items]
        left["room"] += [record.encode() for record in room.turn_records]
        report = session.report()
        left["page"].append(render(report).encode())
        left["records"].append(repr([turn.to_json() for turn in session.turns]).encode())

    with written_logs() as lines, otlp_endpoint() as endpoint:
        run_virtual(main(endpoint.url))
    for path, body in endpoint.received:
        left[path].append(body)
    left["log lines"].append(lines.getvalue().encode())
    left["report"].append(next(folder.glob("report*.json")).read_bytes())
    return {where: b"".join(parts) for where, parts in left.items()}


def found(left: dict[str, bytes], words: dict[str, str]) -> dict[str, set[str]]:
    """Return the speakers whose words are in each place."""
    return {
        where: whose
        for where, sent in left.items()
        if (whose := {name for name, word in words.items() if word.encode() in sent.lower()})
    }


HANDED = set(W) - {"on_exit raises"}
"""Content that the application itself receives as it happens: the conversation, its own errors."""
KEPT = {"caller", "typed", "room text", "agent", "say", "argument", "result", "tool error", "unknown tool"}
TOLD = {
    "/v1/traces": {*KEPT, *QUOTED, "instructions", "reply"},
    "/v1/logs": set(QUOTED),
    "log lines": set(QUOTED),
    "records": KEPT,
    "report": KEPT,
    "page": KEPT,
    "room": KEPT,
    "events": KEPT,
}
"""Where which words are with `capture_content`; never are any in metrics."""


@PIPELINES
def test_without_capture_content_no_word_of_a_call_leaves_the_process(make: Make, tmp_path: Path) -> None:
    left = have(make, tmp_path, capture=False)
    assert found(left, W) == {"inside": HANDED}
    names = {span.name for span in spans_of(left["/v1/traces"])}
    assert names >= {"session", "turn", "stt", "tts", "playout", "say", "reply", "execute_tool _unknown", "on_exit"}
    points = ExportMetricsServiceRequest.FromString(left["/v1/metrics"]).resource_metrics[0].scope_metrics[0].metrics
    assert "vivavoce.tool.calls" in {metric.name for metric in points}
    (logs,) = ExportLogsServiceRequest.FromString(left["/v1/logs"]).resource_logs
    assert sum(len(scope.log_records) for scope in logs.scope_logs) > len(QUOTED)
    assert set(left) == {*TOLD, "/v1/metrics", "inside"}


@PIPELINES
def test_with_capture_content_the_words_of_that_call_are_told_where_they_belong(make: Make, tmp_path: Path) -> None:
    left = have(make, tmp_path, capture=True)
    assert found(left, W) == {**TOLD, "inside": HANDED}


def spans_of(sent: bytes) -> list[Any]:
    """Return the spans of a request, or of several: concatenated protobuf messages are their sum."""
    batches = ExportTraceServiceRequest.FromString(sent).resource_spans
    return [span for batch in batches for scope in batch.scope_spans for span in scope.spans]
