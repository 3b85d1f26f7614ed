"""Telemetry of calls in a real collector, in none, and to endpoints that misbehave: the caller never notices."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest

from kit.servers.otel_collector import Collector, running_collector
from vivavoce.agents import Agent, SessionOptions, function_tool
from vivavoce.agents.events import TurnCompleted, UserStateChanged
from vivavoce.agents.telemetry import TelemetryOptions
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, ScriptedTTSOptions, SessionHarness
from vivavoce.pipelines.llm.tools import ToolCall

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

PROTOCOLS = pytest.mark.parametrize(
    "protocol",
    ["http/protobuf", pytest.param("grpc", marks=pytest.mark.test_all("one protocol is enough for make test"))],
)
EXPORT_TIMEOUT = 10.0
"""Seconds that a call would lose if it waited for an export that gets no answer."""
SECRET = "sk-very-secret"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "traces.py"
ASKS = ToolCall(call_id="c1", name="look_up", arguments='{"day": "Monday"}')


class Desk(Agent):
    @function_tool
    async def look_up(self, day: str) -> str:
        """Look a day up."""
        return f"{day} is free"


def make_call(collector_url: str, protocol: Any = "http/protobuf", **options: Any) -> SessionHarness:
    telemetry = TelemetryOptions(
        endpoint=collector_url,
        protocol=protocol,
        headers={"authorization": SECRET},
        attributes={"tenant": "a"},
        **options,
    )
    llm = ScriptedLLM([0.05, ASKS], [0.05, "It is free."])
    tts = ScriptedTTS(first_byte=0.05, options=ScriptedTTSOptions(duration=0.4))
    harness = SessionHarness(Desk("Be brief."), llm, tts=tts, options=SessionOptions(telemetry=telemetry))
    harness.caller.says("is monday free", 0.5, 1.0, final_at=1.1)
    return harness


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """Have a call in virtual time: the imports of the first call would block the loop in real time."""
    harness = SessionHarness(Desk("Be brief."), ScriptedLLM([ASKS], ["Yes."]), tts=ScriptedTTS())
    harness.caller.says("is monday free", 0.2, 0.6, final_at=0.7)
    harness.run(until=3.0)


async def have(harness: SessionHarness, during: Any = None) -> None:
    """Have the call, and check that it went as a call without telemetry does."""
    async with harness:
        if during is not None:
            await harness.next(UserStateChanged)
            during()
        await harness.next(TurnCompleted, limit=30)
    (turn,) = harness.session.turns
    assert turn.outcome == "completed"
    assert turn.e2e_latency is not None
    assert turn.e2e_latency < EXPORT_TIMEOUT  # 0.55 on an idle machine
    assert harness.close_report is not None
    assert harness.close_report.is_clean
    assert harness.close_report.seconds < EXPORT_TIMEOUT  # the flush's limit is 1 s


async def received(collector: Collector, *names: str) -> list[dict[str, Any]]:
    """Return the spans once those of these names have arrived."""
    for _ in range(200):
        spans = collector.spans()
        if set(names) <= {span["name"] for span in spans} and "vivavoce.sessions.closed" in collector.metrics():
            return spans
        await anyio.sleep(0.1)
    raise AssertionError(f"the collector had {names} to receive, has {[span['name'] for span in spans]}")


def tree(spans: list[dict[str, Any]], parent: str) -> list[Any]:
    below = sorted((s for s in spans if s.get("parentSpanId", "") == parent), key=lambda s: int(s["startTimeUnixNano"]))
    return [(span["name"], tree(spans, span["spanId"])) for span in below]


@PROTOCOLS
async def test_the_collector_holds_the_tree_the_metrics_and_the_logs_of_a_call(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "vivavoce")
    with running_collector() as collector:
        url = collector.grpc_url if protocol == "grpc" else collector.http_url
        harness = make_call(url, protocol)
        await have(harness)
        spans = await received(collector, "session")
        ((root, below),) = tree(spans, "")
        assert root == "session"
        names = [name for name, _ in below]
        assert names[-1] == "session_close"
        assert sorted(names[:-1]) == ["room participant_linked", "session_start", "turn"]
        turn = dict(below)["turn"]
        assert sorted(name for name, _ in turn) == sorted(
            ["user_speech", "stt", "end_of_turn", "chat", "execute_tool look_up", "chat", "tts", "playout"]
        )
        assert len({span["traceId"] for span in spans}) == 1
        (record,) = harness.session.turns
        (line,) = [log for log in collector.logs() if log["body"].startswith(record.turn_id)]
        assert (line["severityText"], line["logger"]) == ("INFO", "vivavoce.agents.core.log")
        assert line["attributes"]["vivavoce.session.id"] == harness.session.id
        assert line["attributes"]["vivavoce.turn.id"] == record.turn_id
        assert line["attributes"]["tenant"] == "a"
        assert line["resource"]["service.name"] == "vivavoce"
        assert line["traceId"] == spans[0]["traceId"]
        assert SECRET not in repr(collector.logs())
        assert "monday" not in repr(collector.logs()).lower()
        by_id = {span["spanId"]: span for span in spans}
        for span in spans:
            assert span["attributes"]["tenant"] == "a"
            assert span["attributes"]["vivavoce.session.id"] == harness.session.id
            assert span["resource"]["service.name"] == "vivavoce"
            parent = by_id.get(span.get("parentSpanId", ""))
            if parent is not None:
                where = f"{span['name']} in {parent['name']}"
                assert int(parent["startTimeUnixNano"]) <= int(span["startTimeUnixNano"]), where
                assert int(span["endTimeUnixNano"]) <= int(parent["endTimeUnixNano"]), where
        assert SECRET not in repr(spans)
        (told,) = [span["attributes"] for span in spans if span["name"] == "turn"]
        assert told["vivavoce.turn.e2e_latency"] == pytest.approx(record.e2e_latency)
        stages = sum(value for name, value in told.items() if name.startswith("vivavoce.stage."))
        assert stages == pytest.approx(record.e2e_latency)
        metrics = collector.metrics()
        (latency,) = metrics["vivavoce.turn.e2e_latency"]["histogram"]["dataPoints"]
        assert latency["sum"] == pytest.approx(record.e2e_latency)
        (turns,) = metrics["vivavoce.turns"]["sum"]["dataPoints"]
        assert turns["asInt"] == "1"
        assert {"gen_ai.client.operation.duration", "vivavoce.tts.first_byte", "vivavoce.session.duration"} <= set(
            metrics
        )


@PROTOCOLS
async def test_a_collector_that_is_not_there_is_not_noticed(protocol: str) -> None:
    with running_collector(is_started=False) as collector:
        await have(make_call(collector.grpc_url if protocol == "grpc" else collector.http_url, protocol))


@PROTOCOLS
async def test_a_collector_that_freezes_in_mid_call_is_not_noticed(protocol: str) -> None:
    with running_collector() as collector:
        url = collector.grpc_url if protocol == "grpc" else collector.http_url
        await have(make_call(url, protocol), during=collector.freeze)
        collector.thaw()


async def test_a_collector_that_is_killed_and_started_again_in_mid_call_has_what_came_after() -> None:
    def again() -> None:
        collector.kill()
        collector.start()

    with running_collector() as collector:
        await have(make_call(collector.http_url), during=again)
        spans = await received(collector, "session", "turn", "tts")
        assert len({span["traceId"] for span in spans}) == 1


@contextmanager
def misbehaving(status: int, body: bytes) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers.get("content-length", 0)))
            if not status:
                self.wfile.write(body)
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@pytest.mark.parametrize(
    ("status", "body"),
    [(429, b""), (503, b""), (200, b"\xff<html>garbage"), (0, b"this is no HTTP\r\n\r\n")],
    ids=["429", "503", "garbage", "no HTTP"],
)
async def test_an_endpoint_that_refuses_or_talks_garbage_is_not_noticed(status: int, body: bytes) -> None:
    with misbehaving(status, body) as (url, asked):
        await have(make_call(url))
        assert "/v1/traces" in asked


@pytest.mark.test_all("an example in a process of its own")
async def test_the_example_sends_its_call_and_keeps_back_what_it_redacts() -> None:
    with running_collector() as collector:
        environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.http_url}
        example = EXAMPLE
        done = await anyio.run_process([sys.executable, str(example)], env=environment)
        assert re.search(rb"spans delivered: [1-9]\d*, lost: 0\n", done.stdout)
        spans = await received(collector, "session", "execute_tool free_tables")
        (tool,) = [span["attributes"] for span in spans if span["name"] == "execute_tool free_tables"]
        assert tool["gen_ai.tool.call.result"] == "3"
        assert "gen_ai.tool.call.arguments" not in tool
        assert {span["resource"]["service.name"] for span in spans} == {"tables"}
