"""A server of media streams in the test's process, and Twilio's side of its calls over real sockets."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import aiohttp
import anyio

from kit.telephone import Twilio, Wire
from vivavoce.agents import JobContext, TaskExecution, Worker, WorkerOptions
from vivavoce.agents.cli.serve.calls import Calls
from vivavoce.agents.cli.serve.server import CallServer
from vivavoce.agents.transports.media_stream.admission import Admission
from vivavoce.agents.transports.media_stream.twilio.webhook import TwilioWebhook, signature
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.ids import new_id

PUBLIC = "https://phone.example.com"
TOKEN = "12345"
STREAM = {"x-twilio-signature": signature(TOKEN, "wss://phone.example.com/twilio/stream", [])}


@dataclass
class Served:
    """A running server.

    Args:
        url: Its address on loopback.
        client: For requests and sockets to it.
    """

    url: str
    calls: Calls
    client: aiohttp.ClientSession

    async def ask(
        self, number: str = "+15550100", to: str = "+15550199", *, token: str = TOKEN
    ) -> aiohttp.ClientResponse:
        """Ask the webhook about a call."""
        fields = {"CallSid": new_id("CA"), "From": number, "To": to}
        signed = {"X-Twilio-Signature": signature(token, f"{PUBLIC}/twilio", fields.items())}
        return await self.client.post(f"{self.url}/twilio", data=fields, headers=signed)

    async def parameters(self, number: str = "+15550100", to: str = "+15550199") -> dict[str, str]:
        """Return the parameters of the stream in the answer."""
        answer = await self.ask(number, to)
        assert answer.status == 200
        stream = ElementTree.fromstring(await answer.text()).find("Connect/Stream")
        assert stream is not None
        assert stream.get("url") == "wss://phone.example.com/twilio/stream"
        return {str(each.get("name")): str(each.get("value")) for each in stream.iter("Parameter")}

    @asynccontextmanager
    async def phone(self, parameters: dict[str, str]) -> AsyncIterator[Twilio]:
        """Open a stream, as Twilio does."""
        wire = Wire()
        twilio = Twilio(wire, parameters=parameters)
        async with (
            self.client.ws_connect(f"{self.url}/twilio/stream", headers=STREAM) as websocket,
            anyio.create_task_group() as tasks,
        ):

            async def carry() -> None:
                while (message := await wire.receive()) is not None:
                    await websocket.send_str(str(message))
                await websocket.close()

            async def read() -> None:
                async for message in websocket:
                    wire.from_us.put_nowait(message.data)
                twilio.close_code = websocket.close_code
                wire.from_us.put_nowait(None)

            for work in (carry, read, twilio.run):
                tasks.start_soon(work)
            twilio.begin()
            yield twilio
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def served(
    entrypoint: Callable[[JobContext], Awaitable[None]],
    *,
    limit: int = 50,
    public: str = PUBLIC,
    port: int = 0,
    heartbeat: float = 20.0,
) -> AsyncIterator[Served]:
    """Serve an app's calls.

    Args:
        public: The address that Twilio signs; the sockets are opened on loopback all the same.
        heartbeat: Seconds between pings.
    """
    worker = Worker(entrypoint, options=WorkerOptions(executor=TaskExecution()))
    clock = LoopClock()
    async with anyio.create_task_group() as tasks, aiohttp.ClientSession() as client:
        calls = Calls(worker, clock, limit=limit, tasks=tasks)
        server = CallServer(TwilioWebhook(TOKEN, clock.wall), calls, Admission(clock.now), public, heartbeat=heartbeat)
        port = await tasks.start(server.run, "127.0.0.1", port)
        yield Served(f"http://127.0.0.1:{port}", calls, client)
        calls.stop("the test ends")
        await calls.wait_over()
        tasks.cancel_scope.cancel()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


async def until(condition: Any, limit: float = 5.0) -> None:
    with anyio.fail_after(limit):
        while not condition():  # noqa: ASYNC110 - over a real socket
            await anyio.sleep(0.01)
