"""How soon a worker accepts an offered job while every session is busy; a server gives up after 3 s, the bar is 50 ms.

    .venv/bin/python tests/bench/acceptances.py                              # both executors, 3 minutes
    .venv/bin/python tests/bench/acceptances.py --executors task --sessions 50

A scripted server gives `vivavoce start` (this file is its app too) so many jobs, whose sessions answer without a pause
(scripted model and voice, a session plays in real time). Then it offers one more job after the other, which the worker
accepts and the server never assigns, and measures the time from the offer to the answer. The executor `task` has the
sessions on the worker's own event loop, `process` in job processes. The load of the machine is printed with each line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

HERE = Path(__file__)
sys.path.insert(0, str(HERE.parents[1]))

from kit.e2e.command import running  # noqa: E402 - found only by the path above
from kit.servers.agent_server import AgentServer  # noqa: E402 - found only by the path above
from vivavoce.agents import (  # noqa: E402 - as above
    Agent,
    AgentSession,
    JobContext,
    ProcessExecution,
    TaskExecution,
    Worker,
    WorkerOptions,
)
from vivavoce.agents.transports.local import LocalTransport  # noqa: E402 - as above
from vivavoce.pipelines import CascadingPipeline  # noqa: E402 - as above
from vivavoce.pipelines.core.clock import LoopClock  # noqa: E402 - as above
from vivavoce.pipelines.testing import ScriptedLLM, ScriptedTTS  # noqa: E402 - as above

ANSWER = "These are ten words that the agent says to nobody."
OFFERS = 100
PAUSE = 0.2
"""Seconds between two offers."""
SETTLE = 5.0
"""Seconds for the last sessions to begin."""
BAR = 50.0
"""Milliseconds."""


async def entrypoint(ctx: JobContext) -> None:
    """Answer without a pause until the job ends."""
    pipeline = CascadingPipeline(llm=ScriptedLLM(default=[0.1, ANSWER]), tts=ScriptedTTS())
    session = AgentSession[None](Agent("Answer."), pipeline)
    await session.start(LocalTransport(LoopClock()))
    while not ctx.reason:
        await session.reply("Say something.")


def no_load() -> float:
    """Have the worker accept whatever the machine's load is: the time is the question."""
    return 0.0


worker = Worker(
    entrypoint,
    options=WorkerOptions(
        executor=TaskExecution() if os.environ.get("ACCEPTANCES_EXECUTOR") == "task" else ProcessExecution(),
        max_jobs=10_000,
        drain_timeout=0.1,
        load=no_load,
        healing=False,
        crash_safety=None,
    ),
)


async def measure(executor: str, sessions: int, folder: Path) -> dict[str, float | str]:
    """Return the times of the answers of a worker with so many busy sessions."""
    async with AgentServer() as server:
        account = {
            "LIVEKIT_URL": server.url,
            "LIVEKIT_API_KEY": server.api_key,
            "LIVEKIT_API_SECRET": server.api_secret,
            "ACCEPTANCES_EXECUTOR": executor,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])),
        }
        with running(folder, "start", str(HERE), **account) as command:
            await asyncio.to_thread(command.read_until, "registered as")
            for number in range(sessions):
                await server.start(f"AJ_{number}")
            await asyncio.sleep(SETTLE)
            waits = []
            for number in range(OFFERS):
                asked_at = time.monotonic()
                answer = await server.offer(f"AJ_more_{number}")
                waits.append((time.monotonic() - asked_at) * 1000)
                assert answer.available
                await asyncio.sleep(PAUSE)
            assert "failed" not in command.seen, command.seen
    return {
        "executor": executor,
        "sessions": sessions,
        "median_ms": round(median(waits), 1),
        "p95_ms": round(quantiles(waits, n=20)[-1], 1),
        "max_ms": round(max(waits), 1),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> int:
    """Run as the module's docstring says; the exit status is 1 if a 95th percentile is above the bar."""
    parser = argparse.ArgumentParser(description="How soon a busy worker accepts jobs.")
    parser.add_argument("--executors", nargs="+", default=["process", "task"], choices=["process", "task"])
    parser.add_argument("--sessions", nargs="+", type=int, default=[10, 50, 100])
    options = parser.parse_args()
    is_late = False
    for executor in options.executors:
        for sessions in options.sessions:
            with tempfile.TemporaryDirectory(prefix="vivavoce-acceptances-") as folder:
                found = asyncio.run(measure(executor, sessions, Path(folder)))
            print(json.dumps(found), flush=True)
            is_late |= float(found["p95_ms"]) > BAR
    return 1 if is_late else 0


if __name__ == "__main__":
    sys.exit(main())
