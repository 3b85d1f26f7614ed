"""The cost of telemetry for a call: CPU a session-minute, exporters included, and voice-to-voice latency.

    PYTHONPATH=.paths .venv/bin/python tests/bench/tracing_cost.py                   # ~ 8 minutes on a quiet machine
    PYTHONPATH=.paths .venv/bin/python tests/bench/tracing_cost.py --seconds 20 --rounds 1 --sessions 4

Sessions with scripted providers hold conversations in real time, side by side in one process, without telemetry and
with traces, metrics and logs to an OTLP endpoint over HTTP. The endpoint is another process, so that its work does not
count; that of the threads that export does. A turn takes about 6 s, every third has a tool call. Latency is the
session's `e2e_latency`, from the true end of speech to the first frame played.

The cost of a session-minute differs by a tenth from process to process, and by a quarter with the load of the machine.
So a process without telemetry and one with it run at the same time, each on a core, and the mean difference of such
pairs is judged. The exit status says whether both bars hold. Simplicity counts more than a lower figure.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import statistics
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio

from vivavoce.agents import Agent, AgentSession, SessionOptions, function_tool
from vivavoce.agents.telemetry import Telemetry, TelemetryOptions
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, ScriptedTTSOptions, SessionHarness
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.llm.tools import ToolCall

CPU_BAR = 50.0
"""Milliseconds a session-minute."""
LATENCY_BAR = 0.5
"""Milliseconds, between the medians."""
TURN = 6.0
"""Seconds from one turn of the caller to the next."""
FRAME = 0.02
"""Seconds; a caller's sound begins and ends with one."""
ANSWER = ["There is a table at the window for you. ", 0.2, "Shall I book it?"]
"""Comes in pieces, as from any model that streams: the first sentence is spoken before the model is done."""


class Desk(Agent):
    """Answers, and looks a table up now and then."""

    @function_tool
    async def look_up(self, day: str) -> str:
        """Look a day up."""
        return f"{day} is free"


def make_parts(seconds: float, offset: float) -> SessionHarness:
    """Return the caller and the pipeline of a call; offsets keep the turns of calls apart."""
    asks = ToolCall(call_id="c1", name="look_up", arguments='{"day": "Monday"}')
    starts = [offset + TURN * number for number in range(int((seconds - offset) // TURN))]
    script: list[Any] = []
    for number in range(len(starts)):
        script += [[0.05, asks]] if number % 3 == 2 else []
        script.append([0.05, *ANSWER])
    tts = ScriptedTTS(first_byte=0.05, options=ScriptedTTSOptions(duration=2.0))
    harness = SessionHarness(Desk("Be brief."), ScriptedLLM(*script), tts=tts)
    for start in starts:
        harness.caller.says("is there a table on monday", start + 0.2, start + 1.4, final_at=start + 1.5)
    return harness


async def have(parts: SessionHarness, seconds: float, options: SessionOptions) -> list[float]:
    """Have the call in an otherwise unwatched session, and return its latencies in seconds."""
    transport = LocalTransport(options.clock, participant=parts.caller.identity)
    async with AgentSession[None](parts.agent, parts.pipeline, options=options) as session:
        parts.caller.begin(transport, options.clock)
        await session.start(transport)
        await anyio.sleep(seconds)
        parts.caller.stop()
    assert parts.caller.error is None, repr(parts.caller.error)
    return [turn.e2e_latency for turn in session.turns if turn.e2e_latency is not None]


async def measure(endpoint: str, sessions: int, seconds: float) -> dict[str, Any]:
    """Return CPU seconds and latencies of so many calls side by side; without an endpoint nothing is traced."""
    telemetry = Telemetry(TelemetryOptions(endpoint=endpoint)) if endpoint else None
    options = SessionOptions(telemetry=telemetry, preemptive=False)
    logging.getLogger("vivavoce").setLevel(logging.INFO if endpoint else logging.WARNING)
    logging.getLogger().addHandler(logging.NullHandler())
    await have(make_parts(3 * TURN, 3.0), 3 * TURN, options)  # loads and warms the parts of a first call
    calls = [make_parts(seconds, round(TURN * number / sessions / FRAME) * FRAME) for number in range(sessions)]
    latencies: list[float] = []

    async def one(parts: SessionHarness) -> None:
        latencies.extend(await have(parts, seconds, options))

    gc.collect()
    began, loop_began = time.process_time(), time.thread_time()
    async with anyio.create_task_group() as group:
        for call in calls:
            group.start_soon(one, call)
    if telemetry is not None:
        assert await telemetry.aclose(10.0)
        assert telemetry.dropped_spans == telemetry.dropped_logs == 0
    cpu, of_loop = time.process_time() - began, time.thread_time() - loop_began
    return {"cpu": cpu, "loop": of_loop, "latencies": latencies}


class Sink(BaseHTTPRequestHandler):
    """Takes everything."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def serve() -> None:
    """Be the endpoint, and print where."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    print(server.server_address[1], flush=True)
    server.serve_forever()


def child(endpoint: str, arguments: argparse.Namespace) -> subprocess.Popen[str]:
    """Begin to measure in a process of its own."""
    command = [sys.executable, __file__, "--sessions", str(arguments.sessions), "--seconds", str(arguments.seconds)]
    return subprocess.Popen([*command, "--measure", endpoint], stdout=subprocess.PIPE, text=True)


def found_by(process: subprocess.Popen[str], minutes: float) -> dict[str, float]:
    """Wait for it, and return its figures: milliseconds of CPU a session-minute, and of latency."""
    printed, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"a process that measures ended with {process.returncode}")
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return {
        "cpu": found["cpu"] * 1000 / minutes,
        "loop": found["loop"] * 1000 / minutes,
        "latency": statistics.median(found["latencies"]) * 1000,
        "turns": len(found["latencies"]),
    }


def compare(arguments: argparse.Namespace) -> int:
    """Measure pairs, print the results, and return the exit status."""
    sink = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    minutes = arguments.sessions * arguments.seconds / 60
    costs: list[dict[str, float]] = []
    running: dict[str, subprocess.Popen[str]] = {}
    try:
        assert sink.stdout is not None
        endpoint = f"http://127.0.0.1:{int(sink.stdout.readline())}"
        for number in range(arguments.rounds):
            order = ["", endpoint] if number % 2 else [endpoint, ""]  # neither always begins
            running = {where: child(where, arguments) for where in order}
            found = {where: found_by(process, minutes) for where, process in running.items()}
            for where in ("", endpoint):
                name = "traced" if where else "plain "
                told = (
                    "{cpu:8.1f} ms CPU/session-min ({loop:.1f} on the loop) {latency:9.3f} ms latency ({turns} turns)"
                )
                print(name, told.format(**found[where]), flush=True)
            assert found[""]["turns"] == found[endpoint]["turns"] > 0, "a call lost a turn"
            costs.append({key: found[endpoint][key] - found[""][key] for key in found[""]})
    finally:
        for process in (*running.values(), sink):  # the other one of a pair whose first one failed, too
            process.terminate()
            process.wait(10)
    mean = {key: statistics.fmean(cost[key] for cost in costs) for key in costs[0]}
    spread = {key: statistics.stdev(cost[key] for cost in costs) if len(costs) > 1 else 0.0 for key in costs[0]}
    bars = {"cpu": CPU_BAR, "loop": None, "latency": LATENCY_BAR}
    for key, bar in bars.items():
        judged = "" if bar is None else f", bar {bar:g}"
        print(f"cost   {key:8}{mean[key]:8.2f} ms (standard deviation of {len(costs)} pairs {spread[key]:.2f}{judged})")
    return 0 if mean["cpu"] <= CPU_BAR and mean["latency"] < LATENCY_BAR else 1


def main() -> int:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=20, help="side by side in a process")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each call")
    parser.add_argument("--rounds", type=int, default=6, help="pairs")
    parser.add_argument("--measure", metavar="ENDPOINT", help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return 0
    if arguments.measure is not None:
        print(json.dumps(anyio.run(measure, arguments.measure, arguments.sessions, arguments.seconds)))
        return 0
    return compare(arguments)


if __name__ == "__main__":
    sys.exit(main())
