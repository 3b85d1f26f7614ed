"""A worker that registers and answers no offer, as one does whose event loop is blocked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import ClientSession
from livekit import api
from livekit.protocol import agent as wire

from kit.e2e.room_endpoint import RoomEndpoint


class SilentWorker:
    """The offers that it has received."""

    def __init__(self) -> None:
        self.offers = 0
        self.offered = asyncio.Event()


@asynccontextmanager
async def silent_worker(server: RoomEndpoint, agent_name: str) -> AsyncIterator[SilentWorker]:
    """Register it for as long as the context is open."""
    token = api.AccessToken(server.api_key, server.api_secret).with_grants(api.VideoGrants(agent=True)).to_jwt()
    headers = {"Authorization": f"Bearer {token}"}
    worker = SilentWorker()
    async with ClientSession() as session, session.ws_connect(f"{server.url}/agent", headers=headers) as socket:
        register = wire.RegisterWorkerRequest(
            type=wire.JT_ROOM, agent_name=agent_name, allowed_permissions={"agent": True}
        )
        await socket.send_bytes(wire.WorkerMessage(register=register).SerializeToString())
        assert wire.ServerMessage.FromString((await socket.receive()).data).HasField("register")

        async def listen() -> None:
            async for frame in socket:
                if wire.ServerMessage.FromString(frame.data).HasField("availability"):
                    worker.offers += 1
                    worker.offered.set()

        listening = asyncio.create_task(listen())
        try:
            yield worker
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
