"""Fixtures: room servers in this process, and raw clients of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiohttp import ClientSession

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.signal_client import Clients, StartServer
from vivavoce.agents.dev_room import RoomServer, RoomServerOptions


@pytest.fixture
async def start_server() -> AsyncIterator[StartServer]:
    """Start room servers on free ports; `start_server(max_rooms=1)`."""
    servers: list[RoomServer] = []

    async def start(**options: Any) -> RoomEndpoint:
        server = RoomServer(RoomServerOptions(**{"port": 0, **options}))
        await server.start()
        servers.append(server)
        given = server.options
        return RoomEndpoint(url=server.url, api_key=given.api_key, api_secret=given.api_secret, kind="embedded")

    yield start
    for server in servers:
        await server.aclose()


@pytest.fixture
async def server(start_server: StartServer) -> RoomEndpoint:
    return await start_server()


@pytest.fixture
async def clients() -> AsyncIterator[Clients]:
    async with ClientSession() as http, AsyncExitStack() as stack:
        yield Clients(http, stack)
