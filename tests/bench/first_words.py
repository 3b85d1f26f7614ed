"""Lost words of a caller who speaks at once: `python tests/bench/first_words.py [runs]`.

Each run is a session of a `SessionHarness` in real time, in a process of its own, so that its start is a cold one. The
recogniser has words only for audio that the VAD has heard. Exit status 1 if any words were lost.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys

from vivavoce.agents import Agent
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, SessionHarness

WORDS = "hello there"
SPEECH = (0.0, 0.2)
"""When the caller speaks, in seconds from the call of `start()`."""
LIMIT = 20.0
"""Seconds after which the words are lost."""


async def is_heard() -> bool:
    """Run one session; return whether the caller's words are in its history."""
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Fine."), stt=ScriptedSTT([WORDS]))
    harness.caller.makes_noise(*SPEECH)
    async with harness:
        while ("user", WORDS) not in harness.messages and harness.now < LIMIT:
            await harness.until(harness.now + 0.1)
    return ("user", WORDS) in harness.messages


def main() -> int:
    """Run so many sessions and say how many lost the words."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    one = [sys.executable, __file__, "--one"]
    lost = sum(subprocess.run(one, check=False).returncode != 0 for _ in range(runs))
    print(f"{lost} of {runs} cold starts lost the words of a caller who spoke from {SPEECH[0]} to {SPEECH[1]} s")
    return 1 if lost else 0


if __name__ == "__main__":
    raise SystemExit(not asyncio.run(is_heard()) if "--one" in sys.argv else main())
