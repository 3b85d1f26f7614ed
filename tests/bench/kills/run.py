"""An hour of calls that come and go on workers that are killed at random: no job lost or doubled, nothing left.

    .venv/bin/python tests/bench/kills/run.py --minutes 3              # a first look
    .venv/bin/python tests/bench/kills/run.py --minutes 60 --seed 16   # the proof; 3 callers take a third of a core

A real LiveKit server, two hosts (`vivavoce start`: guardian, worker, two job processes; one crash-safe store), and a
few cheap callers (`../calls/callers`, Go) that speak, listen and hang up at random times; a part of the calls is ended
by the agent. Every 12 to 30 s one of these happens, as the seed decides:

    process   `kill -9` of a job process, mostly one with a call
    worker    `kill -9` of a worker: its guardian starts another one, or the other host has the call first
    nursery   `kill -9` of the process that forks the job processes
    guardian  `kill -9` of a guardian: its worker drains; a new host is started
    rolling   a new host is started, then an old one gets SIGTERM and drains

The ledger (`ledger.py`) is kept from three sides: the callers' program (whose voice they hear), a file of the
application (each job's begin and end), and a relay in front of the server (assignments and reports of jobs); the
server's list of participants is asked every second. At the end nothing may be left: no process, no job without an end,
no record of a call, no room, no file in the folder for temporary files. The exit status is 1 if there is a fault.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from livekit import api
from livekit.protocol.agent import JobStatus, ServerMessage, WorkerMessage
from livekit.protocol.agent_dispatch import RoomAgentDispatch
from livekit.protocol.room import RoomConfiguration

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from bench.calls.speech_file import make_speech  # noqa: E402 - found only by the path above
from bench.kills.hosts import Host  # noqa: E402 - found only by the path above
from bench.kills.ledger import Ledger, Offer  # noqa: E402 - found only by the path above
from bench.kills.tap import tapping  # noqa: E402 - found only by the path above
from kit.e2e.crash_app import owners  # noqa: E402 - found only by the path above
from kit.e2e.room_endpoint import RoomEndpoint  # noqa: E402 - found only by the path above
from kit.servers.livekit_server import running_livekit_server  # noqa: E402 - found only by the path above

NAME = "kills"
KINDS = {"process": 0.45, "worker": 0.3, "nursery": 0.07, "guardian": 0.06, "rolling": 0.12}
PAUSE = (12.0, 30.0)
"""Seconds between two kills."""
CALL = (12.0, 60.0)
"""Seconds of a call that its caller ends."""
AGENT_CALL = (8.0, 25.0)
"""Seconds of a call that the agent ends."""
STAYS = 15.0
"""Seconds for which a caller stays after the agent has ended the call: no other agent may come."""
AGENT_ENDED_SHARE = 0.3
DRAIN = 90.0
"""Seconds that calls may continue while their worker drains; longer than any call."""
REGISTER_LIMIT = 90.0
SETTLE_LIMIT = 60.0
"""Seconds at the end for rooms to close and processes to end."""
LIVEKIT_AGENT = 4


class Run:
    """The whole run: hosts, callers, kills, and the ledger."""

    def __init__(self, options: argparse.Namespace, folder: Path, server: RoomEndpoint, stack: ExitStack) -> None:
        self._options = options
        self._folder = folder
        self._server = server
        self._stack = stack
        self._random = random.Random(options.seed)
        self._until = time.time() + 60 * options.minutes
        self._ledger = Ledger()
        self._all_hosts: list[Host] = []
        self._hosts: list[Host] = []
        """Those that take calls."""
        self._leaving: list[tuple[Host, float]] = []
        self._environment: dict[str, str] = {}
        self._callers: subprocess.Popen[str] | None = None
        self._active: set[str] = set()
        self._many: dict[str, int] = {}

    async def run(self) -> int:
        """Run for the given time; return the exit status."""
        (self._folder / "tmp").mkdir(parents=True)
        async with tapping(self._server.url, self._on_worker) as tap:
            self._environment = {
                "LIVEKIT_URL": tap.url,
                "LIVEKIT_API_KEY": self._server.api_key,
                "LIVEKIT_API_SECRET": self._server.api_secret,
                "XDG_STATE_HOME": str(self._folder / "state"),
                "KILLS_BOOK": str(self._folder / "book.jsonl"),
                "KILLS_NAME": NAME,
                "KILLS_DRAIN": str(DRAIN),
            }
            for _ in range(2):
                await self._start_host()
            self._callers = self._start_callers()
            watchers = [asyncio.create_task(one) for one in (self._read_book(), self._watch_rooms(), self._report())]
            slots = [asyncio.create_task(self._caller(number)) for number in range(self._options.callers)]
            kills = asyncio.create_task(self._kill_at_random())
            await asyncio.gather(kills, *slots)
            left = await self._end()
            for watcher in watchers:
                watcher.cancel()
            await asyncio.gather(*watchers, return_exceptions=True)
        return self._print_ledger(left)

    def write_logs(self) -> None:
        """Save the output of each host, and the offers of each call."""
        (self._folder / "offers.json").write_text(json.dumps(self._ledger.offers(), indent=1))
        for host in self._all_hosts:
            (self._folder / f"host-{host.number}.log").write_text(host.command.seen)

    # --- callers

    def _start_callers(self) -> subprocess.Popen[str]:
        command = [self._options.program, "-url", self._server.url, "-speech", str(self._folder / "speech.ogg")]
        log = self._stack.enter_context((self._folder / "callers.log").open("w"))
        program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        self._stack.callback(program.wait)
        self._stack.callback(program.kill)
        loop = asyncio.get_running_loop()

        def read() -> None:
            assert program.stdout is not None
            for line in program.stdout:
                loop.call_soon_threadsafe(self._ledger.caller_said, json.loads(line))

        threading.Thread(target=read, daemon=True).start()
        return program

    async def _caller(self, slot: int) -> None:
        chance = random.Random(f"{self._options.seed}/{slot}")
        number = 0
        while time.time() < self._until:
            await asyncio.sleep(chance.uniform(0.0, 4.0))
            number += 1
            room = f"{NAME}-{slot}-{number}"
            agent_ends = chance.random() < AGENT_ENDED_SHARE
            seconds = chance.uniform(*(AGENT_CALL if agent_ends else CALL))
            self._dial(room, agent_ends, seconds)
            if agent_ends:
                limit = time.time() + 120.0
                while not self._ledger.has_agent_ended(room) and time.time() < limit:  # noqa: ASYNC110 - a file's news
                    await asyncio.sleep(0.2)
                if time.time() >= limit:
                    self._ledger.faults.append(f"{room}: the agent did not end the call within 120 s")
                seconds = STAYS
            await asyncio.sleep(seconds)
            self._say(f"hang-up {room}")
            self._active.discard(room)
            self._ledger.calls[room].ended = time.time()

    def _dial(self, room: str, agent_ends: bool, seconds: float) -> None:
        agent = RoomAgentDispatch(agent_name=NAME, metadata=f"{seconds:.1f}" if agent_ends else "")
        token = self._server.token("caller", room, config=RoomConfiguration(agents=[agent]))
        self._ledger.called(room, time.time(), agent_ends=agent_ends)
        self._active.add(room)
        self._say(f"call {room} {token}")

    def _say(self, line: str) -> None:
        assert self._callers is not None
        assert self._callers.stdin is not None
        self._callers.stdin.write(line + "\n")
        self._callers.stdin.flush()

    # --- kills

    async def _kill_at_random(self) -> None:
        await asyncio.sleep(15.0)
        while time.time() < self._until - 20.0:
            kind = self._random.choices(list(KINDS), list(KINDS.values()))[0]
            await self._kill(kind)
            await asyncio.sleep(self._random.uniform(*PAUSE))

    async def _kill(self, kind: str) -> None:
        host = self._random.choice(self._hosts)
        calls = {job.pid for job in self._ledger.running()}
        processes = host.job_processes()
        if kind == "process":
            busy = [one for every in self._hosts for one in every.job_processes() if one in calls]
            target = self._random.choice(busy or processes or [0])
            if target and host.signal(target, signal.SIGKILL):
                self._note(kind, [target])
        elif kind == "worker":
            if host.signal(host.worker(), signal.SIGKILL):
                self._note(kind, processes)
        elif kind == "nursery":
            if host.signal(host.nursery(), signal.SIGKILL):
                self._note(kind, [])
        elif kind == "guardian":
            host.signal(host.guardian, signal.SIGKILL)
            self._note(kind, [])
            self._leaves(host)
            await self._start_host()
        else:
            await self._start_host()
            host.signal(host.guardian, signal.SIGTERM)
            self._note(kind, [])
            self._leaves(host)

    def _note(self, kind: str, pids: list[int]) -> None:
        kill = self._ledger.killed(time.time(), kind, pids, os.getloadavg()[0])
        print(json.dumps({"at": round(kill.at, 2), "kill": kind, "rooms": kill.rooms, "load": kill.load}), flush=True)

    def _leaves(self, host: Host) -> None:
        self._hosts.remove(host)
        self._leaving.append((host, time.time() + DRAIN + 30.0))

    async def _start_host(self) -> None:
        host = Host(len(self._all_hosts) + 1, self._folder, self._stack, **self._environment)
        self._all_hosts.append(host)
        limit = time.time() + REGISTER_LIMIT
        while not host.registrations:
            if time.time() > limit:
                raise RuntimeError(f"host {host.number} did not register:\n{host.command.seen}")
            await asyncio.sleep(0.1)
        self._hosts.append(host)

    # --- watching

    def _on_worker(self, connection: int, message: WorkerMessage | ServerMessage | None) -> None:
        now = time.time()
        if message is None:
            self._ledger.connection_lost(connection, now)
        elif isinstance(message, ServerMessage):
            if message.HasField("availability"):
                job = message.availability.job
                self._ledger.offered(job.room.name, Offer(now, job.id, connection, os.getloadavg()[0]))
            elif message.HasField("assignment"):
                self._ledger.assigned(message.assignment.job.id, connection, now)
        elif message.HasField("availability"):
            answer = message.availability
            self._ledger.answered(answer.job_id, connection, now, is_taken=answer.available)
        elif message.update_job.status in (JobStatus.JS_SUCCESS, JobStatus.JS_FAILED):
            outcome = message.update_job.error or "success"
            self._ledger.reported(message.update_job.job_id, connection, now, outcome)

    async def _read_book(self) -> None:
        path, place = self._folder / "book.jsonl", 0
        while True:
            await asyncio.sleep(0.1)
            if not path.exists():
                continue
            with path.open("rb") as book:
                book.seek(place)
                lines = book.read().splitlines(keepends=True)
            for line in lines:
                if line.endswith(b"\n"):
                    place += len(line)
                    self._ledger.job_said(json.loads(line))

    async def _watch_rooms(self) -> None:
        async with api.LiveKitAPI(self._server.url, self._server.api_key, self._server.api_secret) as client:
            while True:
                await asyncio.sleep(1.0)
                for room in list(self._active):
                    try:
                        found = await client.room.list_participants(api.ListParticipantsRequest(room=room))
                    except api.TwirpError:
                        continue  # the room has just closed, or is not open yet
                    agents = [one.identity for one in found.participants if one.kind == LIVEKIT_AGENT]
                    alive = self._ledger.agents_present(room, agents, time.time())
                    self._many[room] = self._many.get(room, 0) + 1 if alive > 1 else 0
                    if self._many[room] == 2:
                        self._ledger.faults.append(f"{room}: {alive} agents for 2 s: {agents}")
                self._check_leaving()

    def _check_leaving(self) -> None:
        for host, limit in list(self._leaving):
            if host.is_over:
                self._leaving.remove((host, limit))
                status = host.command.process.returncode
                if status not in (0, -signal.SIGKILL):
                    self._ledger.faults.append(f"host {host.number} ended with status {status}")
            elif time.time() > limit:
                self._leaving.remove((host, limit))
                self._ledger.faults.append(f"host {host.number} has not ended: {host.command.family()}")

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(60.0)
            held = [asdict(one) for host in self._hosts for one in host.held()]
            line = {"at": round(time.time(), 1), **self._ledger.counts(), "held": held, "load": os.getloadavg()[0]}
            print(json.dumps(line), flush=True)

    # --- the end

    async def _end(self) -> list[str]:
        left = []
        limit = time.time() + SETTLE_LIMIT
        async with api.LiveKitAPI(self._server.url, self._server.api_key, self._server.api_secret) as client:
            while rooms := (await client.room.list_rooms(api.ListRoomsRequest())).rooms:
                if time.time() > limit:
                    left.append(f"rooms are left: {[room.name for room in rooms]}")
                    break
                await asyncio.sleep(1.0)
        if kept := owners(self._folder / "state"):
            left.append(f"{len(kept)} records of calls are left")
        for host in list(self._hosts):
            host.signal(host.guardian, signal.SIGTERM)
            self._leaves(host)
        while self._leaving:
            self._check_leaving()
            await asyncio.sleep(0.5)
        # onnxruntime keeps one file of that name for all processes.
        if files := [str(path) for path in (self._folder / "tmp").rglob("*") if path.name != ".ses"]:
            left.append(f"files are left: {files}")
        state = {path.name for path in (self._folder / "state" / "vivavoce").iterdir()}
        if extra := state - {"sessions.db"}:
            left.append(f"files are left beside the store: {sorted(extra)}")
        return left

    def _print_ledger(self, left: list[str]) -> int:
        gaps = self._ledger.gaps()
        shown: dict[str, Any] = {kind: sorted(round(gap, 1) for gap in found) for kind, found in gaps.items()}
        words = sorted(self._ledger.first_words())
        ledger = {
            **self._ledger.counts(),
            "seconds_to_first_words": [round(words[len(words) * part // 100], 1) for part in (0, 50, 95, 99)],
            "seconds_from_a_kill_to_the_agent": shown,
            "hosts": len(self._all_hosts),
        }
        print(json.dumps(ledger), flush=True)
        faults = [*self._ledger.judged(), *left]
        for fault in faults:
            print("FAULT", fault, flush=True)
        print(f"{len(faults)} faults", flush=True)
        return 1 if faults else 0


def main() -> int:
    """Run as the module's docstring says."""
    parser = argparse.ArgumentParser(description="Calls that come and go on workers that are killed at random.")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--callers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=16)
    parser.add_argument("--program", default="", help="the built callers; empty: build them")
    parser.add_argument("--folder", type=Path, default=None, help="where logs go; none: a folder that is removed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vivavoce-kills-") as temporary, ExitStack() as stack:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        make_speech(folder / "speech.ogg")
        if not options.program:
            options.program = str(folder / "callers")
            source = HERE.parent / "calls" / "callers"
            subprocess.run(["go", "build", "-o", options.program, "."], cwd=source, check=True)
        server = stack.enter_context(running_livekit_server(folder / "server.log"))
        endpoint = RoomEndpoint(url=server.url, api_key=server.api_key, api_secret=server.api_secret, kind="livekit")
        run = Run(options, folder, endpoint, stack)
        try:
            return asyncio.run(run.run())
        finally:
            run.write_logs()


if __name__ == "__main__":
    sys.exit(main())
