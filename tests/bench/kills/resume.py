"""Where the seconds go between `kill -9` of the only worker and the agent's next words.

    .venv/bin/python tests/bench/kills/resume.py --rounds 5
    .venv/bin/python tests/bench/kills/resume.py --first     # as root: before all other work of a busy machine

One host (`vivavoce start`) on a real LiveKit server and one caller; the worker is killed in the call. Each line shows
the seconds from the kill to: the guardian's next worker, its process that forks (`nursery`), the first job process, the
registration, the begin of the call's new job (`job`), its agent in the room (`joined`), its session (`started`), and
the agent's voice at the caller (`voice`); and the load of the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from livekit.protocol.agent_dispatch import RoomAgentDispatch
from livekit.protocol.room import RoomConfiguration

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from bench.calls.speech_file import make_speech  # noqa: E402 - found only by the path above
from bench.kills.hosts import Host  # noqa: E402 - found only by the path above
from kit.e2e.room_endpoint import RoomEndpoint  # noqa: E402 - found only by the path above
from kit.servers.livekit_server import running_livekit_server  # noqa: E402 - found only by the path above

NAME = "kills"
LIMIT = 60.0
TALK = 8.0
"""Seconds of the call before the kill."""


class Watch:
    """The steps of one resume, in seconds after the kill."""

    def __init__(self, host: Host, book: Path, voices: list[float]) -> None:
        self._host = host
        self._book = book
        self._voices = voices
        self._dead = host.worker()
        self._jobs = len(self._events("begin"))
        self._killed_at = time.time()
        host.signal(self._dead, signal.SIGKILL)

    async def steps(self) -> dict[str, float]:
        """Wait for each step and return its time."""
        took = {
            "worker": await self._until(lambda: self._host.worker() not in (None, self._dead)),
            "nursery": await self._until(lambda: self._host.nursery() is not None),
            "process": await self._until(lambda: bool(self._host.forked())),
            "registered": await self._until(lambda: self._host.registrations == 2),
        }
        for name, event in {"job": "begin", "joined": "joined", "started": "started"}.items():
            await self._until(lambda event=event: len(self._events(event)) > self._jobs)  # type: ignore[misc]
            took[name] = self._events(event)[-1]["at"] - self._killed_at
        begun = took["job"] + self._killed_at
        await self._until(lambda: any(at > begun for at in self._voices))
        took["voice"] = next(at for at in self._voices if at > begun) - self._killed_at
        return took

    def _events(self, kind: str) -> list[dict[str, Any]]:
        lines = self._book.read_text().splitlines() if self._book.exists() else []
        return [told for line in lines if (told := json.loads(line))["event"] == kind]

    async def _until(self, fits: Callable[[], bool]) -> float:
        while not fits():
            if time.time() - self._killed_at > LIMIT:
                raise TimeoutError(f"not within {LIMIT:g} s; the host said:\n{self._host.command.seen}")
            await asyncio.sleep(0.01)
        return time.time() - self._killed_at


def put_first(pid: int) -> None:
    """Let the session of that process run before the sessions of other work (Linux, root); see sched(7), autogroup."""
    Path(f"/proc/{pid}/autogroup").write_text("-20")


async def round_of(server: RoomEndpoint, program: str, speech: Path, *, is_first: bool) -> dict[str, float]:
    """Kill a worker in a call and return the steps until the agent is back."""
    with tempfile.TemporaryDirectory(prefix="vivavoce-resume-") as name, ExitStack() as stack:
        folder = Path(name)
        (folder / "tmp").mkdir()
        book, room = folder / "book.jsonl", f"resume-{time.time_ns()}"
        environment = {
            "LIVEKIT_URL": server.url,
            "LIVEKIT_API_KEY": server.api_key,
            "LIVEKIT_API_SECRET": server.api_secret,
            "XDG_STATE_HOME": str(folder / "state"),
            "KILLS_BOOK": str(book),
            "KILLS_NAME": NAME,
            "KILLS_DRAIN": "1",
        }
        host = Host(1, folder, stack, **environment)
        if is_first:
            put_first(host.guardian)
        await asyncio.to_thread(host.command.read_until, "registered as")
        config = RoomConfiguration(agents=[RoomAgentDispatch(agent_name=NAME)])
        caller = Caller([program, "-url", server.url, "-speech", str(speech)], stack)
        caller.call(room, server.token("caller", room, config=config))
        while not caller.heard:  # noqa: ASYNC110 - another thread hears them
            await asyncio.sleep(0.1)
        await asyncio.sleep(TALK)
        steps = await Watch(host, book, caller.heard).steps()
        host.signal(host.guardian, signal.SIGTERM)
        await asyncio.to_thread(host.command.process.wait, 30)
        return steps


class Caller:
    """The callers' program with one call, and when the agent's voice began in it, each time."""

    def __init__(self, command: list[str], stack: ExitStack) -> None:
        self.heard: list[float] = []
        pipe = subprocess.PIPE
        self._program = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        stack.callback(self._program.wait)
        stack.callback(self._program.kill)
        threading.Thread(target=self._read, daemon=True).start()

    def call(self, room: str, token: str) -> None:
        """Dial."""
        assert self._program.stdin is not None
        self._program.stdin.write(f"call {room} {token}\n")
        self._program.stdin.flush()

    def _read(self) -> None:
        assert self._program.stdout is not None
        for line in self._program.stdout:
            told = json.loads(line)
            if told.get("event") == "voice":
                self.heard.append(told["at"])


def main() -> int:
    """Run as the module's docstring says."""
    parser = argparse.ArgumentParser(description="Where the seconds of a resumed call go.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--first", action="store_true", help="run before all other work of the machine")
    parser.add_argument("--program", default="", help="the built callers; empty: build them")
    options = parser.parse_args()
    if options.first:
        if os.getsid(0) != os.getpid():
            os.setsid()
        put_first(os.getpid())
    with tempfile.TemporaryDirectory(prefix="vivavoce-resume-") as name, running_livekit_server() as server:
        folder = Path(name)
        make_speech(folder / "speech.ogg")
        program = options.program or str(folder / "callers")
        if not options.program:
            source = HERE.parent / "calls" / "callers"
            subprocess.run(["go", "build", "-o", program, "."], cwd=source, check=True)
        endpoint = RoomEndpoint(url=server.url, api_key=server.api_key, api_secret=server.api_secret, kind="livekit")
        found = []
        for _ in range(options.rounds):
            steps = asyncio.run(round_of(endpoint, program, folder / "speech.ogg", is_first=options.first))
            found.append(steps)
            shown = {step: round(seconds, 2) for step, seconds in steps.items()}
            print(json.dumps({**shown, "load": round(os.getloadavg()[0], 1)}), flush=True)
        medians = {step: round(statistics.median(one[step] for one in found), 2) for step in found[0]}
        print(json.dumps({"median": medians}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
