"""The cost of a memory in Redis: M1 (answer delay) and M3 (CPU of 20 sessions) with it and without, in one run.

Run by hand, on a machine without other work: `PYTHONPATH=.paths:tests python tests/bench/memory_cost.py <folder>`, with
the folder of the benchmark's harness. The ways take turns, so that both meet the same load. Needs redis-server.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from kit.servers.redis_server import running_redis_server

DELAYS = 620.0
"""Milliseconds of the simulated providers, and of the frame that carries the silence."""
ADAPTER = Path(__file__).with_name("adapter.py")


def measured(scenario: str, arguments: dict[str, Any], harness: Path, store: str) -> dict[str, Any]:
    """Return the result of a scenario in a process of its own."""
    environment = os.environ | {"BENCH_STORE": store}
    environment["PYTHONPATH"] = os.pathsep.join([str(harness), environment.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(ADAPTER), scenario, "--args", json.dumps(arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert not result["failed"], result
    return result


def main() -> None:
    """Measure, and print the medians and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("harness", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--sessions", type=int, default=20)
    given = parser.parse_args()
    delays: dict[str, list[float]] = {"without": [], "with": []}
    cpu: dict[str, list[float]] = {"without": [], "with": []}
    with running_redis_server() as server:
        for _ in range(given.rounds):
            for way, store in (("without", ""), ("with", server.url)):
                m1 = measured("m1", {"variant": "real", "turns": given.turns}, given.harness, store)
                delays[way].append(m1["raw_ms"]["median"])
                m3 = measured("m3", {"n": given.sessions, "seconds": given.seconds}, given.harness, store)
                cpu[way].append(m3["cpu_s_per_session_min"])
    overhead = {way: [each - DELAYS for each in found] for way, found in delays.items()}
    rows = {"M1 overhead, ms": overhead, "M1 voice-to-voice, ms": delays, "M3 CPU s/session-min": cpu}
    for name, found in rows.items():
        without, used = median(found["without"]), median(found["with"])
        print(f"{name}: without {without:.3f}, with Redis {used:.3f}: {used / without:.2f} x ({found})")


if __name__ == "__main__":
    main()
