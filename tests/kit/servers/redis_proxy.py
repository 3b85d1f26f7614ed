"""Stands between a client and redis-server on a Unix socket: it waits before a command, or cuts behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import SocketStream


@asynccontextmanager
async def redis_between(
    server: Path, folder: Path, command: bytes, *, before: Callable[[], Awaitable[object]] | None = None
) -> AsyncIterator[str]:
    """Serve a URL for clients of a server.

    Args:
        command: Part of a client's message.
        before: Called before the server receives that message; None: the connection ends when the server has carried it
            out, so that neither the reply nor a later message gets through.
    """

    async def serve(client: SocketStream) -> None:
        async with client, await anyio.connect_unix(server) as redis:
            async for message in client:
                if before is not None and command in message:
                    await before()
                await redis.send(message)
                reply = await redis.receive()
                if before is None and command in message:
                    return
                await client.send(reply)

    async with await anyio.create_unix_listener(folder / "between.sock") as listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, serve)
            yield f"unix://{folder / 'between.sock'}"
            tasks.cancel_scope.cancel()
