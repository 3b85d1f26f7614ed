"""The cost of a request to a peer, beside an echo of aiohttp's WebSockets alone: round trips and CPU, in one run.

    PYTHONPATH=.paths:tests python tests/bench/peer_cost.py    # some seconds

The other ends are in another process: an echo, and a session behind a `PeerServer`, whose handler answers with the
question; one more session is in the process that asks. Messages are JSON of about the same length. Blocks of round
trips, one after the other, take turns, so that all meet the same load. Median and 95th percentile of a round trip, and
the median CPU of a block for each, of both processes together, in microseconds.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import aiohttp
from aiohttp import web

from kit.talking_peers import Question, running, talker
from vivavoce.agents.peers import Peer, PeerServer

BLOCKS, BLOCK = 40, 100
WORDS = "how much is the tax on a house of two rooms " * 4
ECHOED = Question(words=WORDS).model_dump_json()


async def serve() -> None:
    """Be the other ends, until the process is killed."""

    async def echo(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(compress=False)
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(message.data)
        return socket

    app = web.Application()
    app.router.add_get("/", echo)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with answering() as url:
        print(f"http://127.0.0.1:{runner.addresses[0][1]}/", url, flush=True)
        await asyncio.Event().wait()


@asynccontextmanager
async def answering() -> AsyncIterator[str]:
    """Run a session that answers each question with the question; yield its URL."""
    async with PeerServer() as server, running(talker("desk")) as desk:
        server.add(desk)

        @desk.peers.on_message(Question)
        async def answer(peer: Peer, question: Question) -> Question:
            return question

        yield server.url_of(desk)


def cpu(process: int) -> float:
    """Return the seconds of CPU of this process and of that one's main thread."""
    nanoseconds = int(Path(f"/proc/{process}/schedstat").read_text().split()[0])
    return time.process_time() + nanoseconds / 1e9


async def measure(child: asyncio.subprocess.Process, echo_url: str, peer_url: str) -> None:
    async with (
        aiohttp.ClientSession() as client,
        client.ws_connect(echo_url) as socket,
        answering() as own_url,
        running(talker()) as asker,
    ):
        peer, own = await asker.peers.connect(peer_url), await asker.peers.connect(own_url)

        async def echo() -> None:
            await socket.send_str(ECHOED)
            assert (await socket.receive()).data == ECHOED

        async def request(peer: Peer) -> None:
            assert (await peer.request(Question(words=WORDS)))["words"] == WORDS

        calls: dict[str, Callable[[], Awaitable[None]]] = {
            "echo of aiohttp alone": echo,
            "request to a peer": partial(request, peer),
            "request to a peer of this process": partial(request, own),
        }
        taken: dict[str, list[float]] = {name: [] for name in calls}
        used: dict[str, list[float]] = {name: [] for name in calls}
        for block in range(BLOCKS + 2):
            for name, call in [*calls.items()][:: 1 if block % 2 else -1]:
                before, seconds = cpu(child.pid), []
                for _ in range(BLOCK):
                    began = time.perf_counter()
                    await call()
                    seconds.append(time.perf_counter() - began)
                if block >= 2:  # the first two warm up
                    used[name].append(cpu(child.pid) - before)
                    taken[name] += seconds
        print(f"{BLOCKS * BLOCK} round trips of {len(ECHOED)} bytes {'':4} median   95 %    CPU, \u00b5s")
        for name, seconds in taken.items():
            ordered = sorted(seconds)
            middle, most = statistics.median(ordered), ordered[int(0.95 * len(ordered))]
            print(f"{name:36} {1e6 * middle:6.0f} {1e6 * most:6.0f} {1e6 * statistics.median(used[name]) / BLOCK:6.0f}")


async def main() -> None:
    child = await asyncio.create_subprocess_exec(sys.executable, __file__, "serve", stdout=asyncio.subprocess.PIPE)
    try:
        assert child.stdout is not None
        await measure(child, *(await child.stdout.readline()).decode().split())
    finally:
        child.kill()
        await child.wait()


if __name__ == "__main__":
    asyncio.run(serve() if sys.argv[1:] == ["serve"] else main())
