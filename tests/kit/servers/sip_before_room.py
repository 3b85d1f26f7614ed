"""A server of rooms with a scripted SIP service: it answers the scripted methods, and a room server all else.

Media do not go through it: the clients send them to the room server's own ports.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
import anyio
from aiohttp import web
from aiohttp.test_utils import TestServer

from kit.e2e.room_endpoint import RoomEndpoint
from kit.servers.scripted_sip import Script, ScriptedSip
from vivavoce.agents.server_access import Credentials

HOP_BY_HOP = ("Host", "Connection", "Upgrade", "Content-Length", "Transfer-Encoding")


class SipBeforeRoom(ScriptedSip):
    """Scripted methods of the server API before a real room server.

    Args:
        scripts: By method, such as `"SIP/CreateSIPParticipant"`.
        room: The server that has everything else.
    """

    def __init__(self, scripts: Mapping[str, Script], room: RoomEndpoint, client: aiohttp.ClientSession) -> None:
        super().__init__(scripts)
        self._http = room.url.replace("ws", "http", 1)
        self._client = client

    async def take(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Upgrade", "").lower() == "websocket":
            return await self._socket(request)
        method = request.path.removeprefix("/twirp/livekit.")
        if method in self.scripts:
            return await self.answer(request)
        url, data = self._http + str(request.rel_url), await request.read()
        async with self._client.request(request.method, url, data=data, headers=_headers(request)) as answer:
            kind = answer.headers.get("Content-Type", "text/plain")
            return web.Response(status=answer.status, body=await answer.read(), headers={"Content-Type": kind})

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        headers = {name: value for name, value in _headers(request).items() if not name.startswith("Sec-WebSocket")}
        try:
            there = await self._client.ws_connect(self._http + str(request.rel_url), headers=headers, max_msg_size=0)
        except aiohttp.WSServerHandshakeError as refusal:
            return web.Response(status=refusal.status, text=refusal.message)
        here = web.WebSocketResponse(max_msg_size=0)
        await here.prepare(request)

        async def carry(
            source: web.WebSocketResponse | aiohttp.ClientWebSocketResponse,
            target: web.WebSocketResponse | aiohttp.ClientWebSocketResponse,
        ) -> None:
            try:
                async for message in source:
                    if message.type == aiohttp.WSMsgType.BINARY:
                        await target.send_bytes(message.data)
                    elif message.type == aiohttp.WSMsgType.TEXT:
                        await target.send_str(message.data)
            except ConnectionError:
                pass
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(carry, here, there)
            tasks.start_soon(carry, there, here)
        with anyio.move_on_after(1.0, shield=True):
            await there.close()
            await here.close()
        return here


def _headers(request: web.Request) -> dict[str, str]:
    return {name: value for name, value in request.headers.items() if name not in HOP_BY_HOP}


@asynccontextmanager
async def sip_before_room(scripts: Mapping[str, Script], room: RoomEndpoint) -> AsyncIterator[SipBeforeRoom]:
    """Serve on loopback; `credentials` of the result lead there, with the room server's key."""
    async with aiohttp.ClientSession(auto_decompress=True) as client:
        sip = SipBeforeRoom(scripts, room, client)
        app = web.Application()
        app.router.add_post("/twirp/livekit.{service}/{method}", sip.take)
        app.router.add_route("*", "/{path:.*}", sip.take)
        async with TestServer(app) as server:
            url = str(server.make_url("")).rstrip("/").replace("http", "ws", 1)
            sip.credentials = Credentials(url=url, api_key=room.api_key, api_secret=room.api_secret)
            yield sip
