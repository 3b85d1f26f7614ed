"""The cost of a memory in Redis: M1 (answer delay) and M3 (CPU of 20 sessions) with it and without, in one run.

Run by hand: `PYTHONPATH=.paths:tests python tests/bench/memory_cost.py <folder>`, with the folder of the benchmark's
harness. A process with a memory and one without run at the same time, so that both meet the same load; Redis is a third
one, which does not count. Needs redis-server.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from kit.servers.redis_server import running_redis_server

ADAPTER = Path(__file__).with_name("adapter.py")
DELAYS = 620.0
"""Milliseconds of the simulated providers, and of the frame that carries the silence."""


def begun(
    scenario: str, arguments: dict[str, Any], harness: Path, settings: Mapping[str, str]
) -> subprocess.Popen[str]:
    """Begin a scenario in a process of its own, with these variables of the adapter."""
    environment = {**os.environ, **settings}
    environment["PYTHONPATH"] = os.pathsep.join([str(harness), environment.get("PYTHONPATH", "")])
    call = [sys.executable, str(ADAPTER), scenario, "--args", json.dumps(arguments)]
    return subprocess.Popen(call, env=environment, stdout=subprocess.PIPE, text=True)


def measured(
    scenario: str, arguments: dict[str, Any], harness: Path, settings: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the results of a scenario without and with these variables of the adapter, in processes side by side."""
    processes = [begun(scenario, arguments, harness, each) for each in ({}, settings)]
    results: list[dict[str, Any]] = [json.loads(process.communicate()[0].splitlines()[-1]) for process in processes]
    assert not any(result["failed"] for result in results), results
    return results


def main() -> None:
    """Measure, and print the medians and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("harness", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--sessions", type=int, default=20)
    given = parser.parse_args()
    rows: dict[str, list[tuple[float, float]]] = {"M1 overhead, ms": [], "M3 CPU s/session-min": []}
    with running_redis_server() as server:
        for _ in range(given.rounds):
            store = {"BENCH_STORE": server.url}
            found = measured("m1", {"variant": "real", "turns": given.turns}, given.harness, store)
            without, used = (result["raw_ms"]["median"] - DELAYS for result in found)
            rows["M1 overhead, ms"].append((without, used))
            found = measured("m3", {"n": given.sessions, "seconds": given.seconds}, given.harness, store)
            without, used = (result["cpu_s_per_session_min"] for result in found)
            rows["M3 CPU s/session-min"].append((without, used))
    for name, pairs in rows.items():
        without, used = (median(column) for column in zip(*pairs, strict=True))
        print(f"{name}: without {without:.3f}, with Redis {used:.3f}: {used / without:.2f} x ({pairs})")


if __name__ == "__main__":
    main()
