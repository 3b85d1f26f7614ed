"""Telephone calls on media streams: processor time of many at once, and their latency beside the same call in a room.

    python tests/bench/telephone_calls.py               # three minutes; --calls 50 --pairs 20 --seconds 20

1. Many calls at once: a server in a process of its own, with scripted providers and a scripted VAD; each caller speaks
   every four seconds. The figure is the server's processor time for each second of a call that it has carried, which
   other work of the machine changes little.
2. Pairs of calls, one on Twilio's wire and one in an embedded room, in turn, with the same agent and the same caller:
   from the last 20 ms of the caller's speech to the first sound of the agent that comes back.

It prints a line of JSON for each part.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import aiohttp
import anyio
import numpy as np
from livekit import rtc

from vivavoce.agents import Agent, AgentSession, JobContext, TaskExecution, Worker, WorkerOptions
from vivavoce.agents.dev_room import RoomProcess, RoomServerOptions
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedVAD
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.media import g711
from vivavoce.pipelines.media.frame import FRAME_SECONDS, AudioFrame
from vivavoce.pipelines.testing.scripted_vad import ScriptedVADStream
from vivavoce.pipelines.vad.base import VADEvent, VADOptions

sys.path.insert(0, str(Path(__file__).parents[1]))

from kit.call_server import Served, served  # noqa: E402 - found only by the path above
from kit.e2e.room_endpoint import RoomEndpoint  # noqa: E402 - found only by the path above
from kit.e2e.sdk_client import joined, tone  # noqa: E402 - found only by the path above
from kit.e2e.working import Working  # noqa: E402 - found only by the path above
from kit.line.answering import ToneVoice  # noqa: E402 - found only by the path above
from kit.telephone import Twilio  # noqa: E402 - found only by the path above

RATE = 16000
LOUD = 500
"""Sample value from which audio is sound."""
SPEECH = tone(300.0, 0.8, RATE)
SILENCE = AudioFrame(bytes(640), RATE)
EVERY = 4.0
"""Seconds from one speech of a caller to the next, where many call."""
TURNS = 100
LIMIT = 30.0
TICKS = os.sysconf("SC_CLK_TCK")


def is_loud(pcm: bytes) -> bool:
    return bool(np.abs(np.frombuffer(pcm, np.int16).astype(int)).max(initial=0) > LOUD)


class LoudVAD(ScriptedVAD):
    """The scripted VAD, which looks at one sample of a frame, given the loudest: so it hears tones, too."""

    def open(self) -> ScriptedVADStream:
        """Return a stream."""
        return _LoudStream(VADOptions())


class _LoudStream(ScriptedVADStream):
    def push(self, frame: AudioFrame) -> Sequence[VADEvent]:
        level = b"\x00\x10" if is_loud(frame.data) else b"\0\0"
        return super().push(AudioFrame(level * frame.samples, frame.sample_rate))


async def entrypoint(ctx: JobContext) -> None:
    stt, llm = ScriptedSTT(["a table please"] * TURNS), ScriptedLLM(*["for how many people"] * TURNS)
    pipeline = CascadingPipeline(vad=LoudVAD(), stt=stt, llm=llm, tts=ToneVoice())
    await AgentSession(Agent("Help."), pipeline).start()


# --- many at once


async def serve() -> None:
    """Serve until the input ends, with the address as the only line of output."""
    async with served(entrypoint, limit=1000) as server:
        print(server.url, flush=True)
        await anyio.to_thread.run_sync(sys.stdin.read)


async def many(count: int, seconds: float) -> dict[str, float]:
    """Return the server's processor time while so many calls talk."""
    pipe = subprocess.PIPE
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:  # noqa: ASYNC220 - nothing runs yet
        assert process.stdin is not None
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        heard, vendors = [0.0] * count, list[Twilio]()
        async with aiohttp.ClientSession() as client, anyio.create_task_group() as tasks:
            server = Served(url, None, client)  # type: ignore[arg-type]  # its calls are in another process
            speech = [(at * EVERY + 1.0, at * EVERY + 1.8) for at in range(TURNS)]

            async def hold(number: int) -> None:
                async with server.phone(await server.parameters()) as vendor:
                    vendors.append(vendor)
                    vendor.on_play = lambda pcm: heard.__setitem__(number, heard[number] + len(pcm) / 16000)
                    await vendor.talk(speech, until=EVERY * TURNS)

            for number in range(count):
                tasks.start_soon(hold, number)
                await anyio.sleep(EVERY / count)
            await anyio.sleep(EVERY)
            began, sent = cpu_of(process.pid), sum(vendor.sent for vendor in vendors)
            await anyio.sleep(seconds)
            spent = cpu_of(process.pid) - began
            carried = (sum(vendor.sent for vendor in vendors) - sent) * FRAME_SECONDS
            tasks.cancel_scope.cancel()
        process.stdin.close()
    return {
        "calls": count,
        "calls_seconds": round(carried),
        "cores": round(spent / carried * count, 3),
        "cores_a_call": round(spent / carried, 4),
        "calls_answered": sum(each > 0 for each in heard),
    }


def cpu_of(pid: int) -> float:
    """Return the seconds of processor time of a process."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) / TICKS


# --- pairs


async def frames(after: float) -> AsyncIterator[AudioFrame]:
    """Yield the caller's audio in real time: silence, the speech, silence for ever."""
    began_at, number, first = anyio.current_time(), 0, round(after * 50)
    while True:
        number += 1
        await anyio.sleep_until(began_at + number / 50)
        yield SPEECH[number - first - 1] if first < number <= first + len(SPEECH) else SILENCE


class Watch:
    """The moments of one call: the caller's last loud frame, the agent's first one after it."""

    def __init__(self) -> None:
        self.said_at = 0.0
        self.answered = anyio.Event()
        self.latency = 0.0

    def said(self, frame: AudioFrame) -> None:
        if is_loud(bytes(frame.data)):
            self.said_at = time.perf_counter()

    def heard(self, pcm: bytes) -> None:
        if self.said_at and not self.answered.is_set() and is_loud(pcm):
            self.latency = time.perf_counter() - self.said_at
            self.answered.set()


async def on_stream(server: Served) -> float:
    watch = Watch()
    async with server.phone(await server.parameters()) as vendor, anyio.create_task_group() as tasks:
        vendor.on_play = watch.heard

        async def talk() -> None:
            async for frame in frames(1.0):
                watch.said(frame)
                half = frame.to_numpy().reshape(-1)[::2]
                vendor.send(g711.encode(half.tobytes(), "mulaw"))

        tasks.start_soon(talk)
        with anyio.fail_after(LIMIT):
            await watch.answered.wait()
        tasks.cancel_scope.cancel()
        vendor.hang_up()
        await vendor.over.wait()
    return watch.latency


async def in_room(endpoint: RoomEndpoint, room: str) -> float:
    watch = Watch()
    async with joined(endpoint, room, "caller") as peer, anyio.create_task_group() as tasks:
        source = await peer.microphone(RATE)

        async def talk() -> None:
            async for frame in frames(1.0):
                watch.said(frame)
                await source.capture_frame(rtc.AudioFrame(bytes(frame.data), RATE, 1, frame.samples))

        async def listen() -> None:
            while True:
                await peer.until(lambda: bool(peer.samples))
                watch.heard(peer.samples.pop(0).tobytes())

        tasks.start_soon(talk)
        tasks.start_soon(listen)
        with anyio.fail_after(LIMIT):
            await watch.answered.wait()
        tasks.cancel_scope.cancel()
    return watch.latency


@asynccontextmanager
async def both() -> AsyncIterator[tuple[Served, RoomEndpoint]]:
    async with AsyncExitStack() as stack:
        room = await stack.enter_async_context(RoomProcess(RoomServerOptions(port=0)))
        endpoint = RoomEndpoint(url=room.url, api_key=room.api_key, api_secret=room.api_secret, kind="embedded")
        options = WorkerOptions(
            url=room.url, api_key=room.api_key, api_secret=room.api_secret, executor=TaskExecution()
        )
        await stack.enter_async_context(Working(Worker(entrypoint, options=options)))
        yield await stack.enter_async_context(served(entrypoint)), endpoint


async def pairs(count: int) -> dict[str, Any]:
    """Return the latencies of both lines, in milliseconds."""
    stream, room = list[float](), list[float]()
    async with both() as (server, endpoint):
        for number in range(count):
            stream.append(await on_stream(server))
            room.append(await in_room(endpoint, f"bench-{number}"))
    return {"pairs": count, "stream": figures(stream), "room": figures(room)}


def figures(seconds: list[float]) -> dict[str, int]:
    ms = [1000 * each for each in seconds]
    return {"median_ms": round(median(ms)), "p95_ms": round(quantiles(ms, n=20, method="inclusive")[-1])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        anyio.run(serve)
        return
    if given.calls:
        print(json.dumps(anyio.run(many, given.calls, given.seconds)), flush=True)
    if given.pairs:
        print(json.dumps(anyio.run(pairs, given.pairs)), flush=True)


if __name__ == "__main__":
    main()
