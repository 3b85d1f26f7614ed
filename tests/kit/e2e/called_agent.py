"""Runs the agent that `vivavoce call` is tried on (`call_agent.py`), good or with a fault, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kit.e2e.room_endpoint import RoomEndpoint

AGENT = Path(__file__).with_name("call_agent.py")


@asynccontextmanager
async def running_agent(server: RoomEndpoint, name: str, fault: str = "") -> AsyncIterator[None]:
    account = {"url": server.url, "api_key": server.api_key, "api_secret": server.api_secret}
    arguments = json.dumps({**account, "agent_name": name, "fault": fault, "drain_timeout": 0.2})
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(AGENT), arguments, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(40):
            assert await process.stdout.readline() == b"registered\n"
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        async with asyncio.timeout(20):
            await process.communicate()
