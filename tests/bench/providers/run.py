"""The cost of our plugins beside livekit-agents' of the same vendors.

    PYTHONPATH=tests .venv/bin/python tests/bench/providers/run.py --rounds 2

One recogniser (Deepgram), one language model (Anthropic) and one voice (Cartesia), each through both libraries, one
after the other, against the same server on loopback. For each message: the time from the server's socket to the
application. For each load: the CPU of the client's process. Rounds alternate which library comes first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

from bench.providers.server import Server
from kit.servers import install

HERE = Path(__file__).resolve().parent
SIDES = ("vivavoce", "livekit")
LIMIT = 120.0


async def run_side(side: str, url: str) -> dict[str, Any]:
    """Run one side's process; return what it printed."""
    python = sys.executable if side == "vivavoce" else str(install.livekit_agents_python())
    environment = {**os.environ, "NO_PROXY": "127.0.0.1", "PYTHONPATH": str(HERE.parents[1])}
    child = await asyncio.create_subprocess_exec(
        python, str(HERE / f"{side}_side.py"), url, stdout=asyncio.subprocess.PIPE, env=environment
    )
    out, _ = await asyncio.wait_for(child.communicate(), LIMIT)
    if child.returncode:
        raise SystemExit(f"{side} failed")
    told: dict[str, Any] = json.loads(out.splitlines()[-1])
    return told


def rows(side: str, told: dict[str, Any], server: Server) -> list[str]:
    """Return one line for each kind of provider."""
    lines = []
    for kind, one in told.items():
        seen = {int(number): moment for number, moment in one["seen"].items()}
        delays = {number: (moment - server.sent[number]) * 1000 for number, moment in seen.items()}
        firsts = sorted(delay for number, delay in delays.items() if number in server.firsts)
        every = sorted(delays.values())
        p95 = every[int(len(every) * 0.95)]
        lines.append(
            f"{side:9} {kind:6} messages {len(every):5}  median {statistics.median(every):6.2f} ms  p95 {p95:6.2f}"
            f"  first or final: median {statistics.median(firsts):6.2f}  CPU {one['cpu']:5.2f} s"
        )
    return lines


async def main(rounds: int) -> None:
    """Measure."""
    for number in range(rounds):
        for side in SIDES if number % 2 == 0 else SIDES[::-1]:
            server = Server()
            async with server.running() as url:
                told = await run_side(side, url)
            print("\n".join(rows(side, told, server)), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    asyncio.run(main(parser.parse_args().rounds))
