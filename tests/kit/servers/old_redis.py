"""A server that answers as a Redis of another version does when a client connects; it knows no other command."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import Listener, SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream


@asynccontextmanager
async def redis_of(
    version: str, socket: str = "", *, knows_hello: bool = True, tells: bool = True
) -> AsyncIterator[str]:
    """Serve the URL of a Redis of that version.

    Args:
        socket: Path of a Unix socket; empty: a port.
        knows_hello: Redis 5 and older do not.
        tells: Whether clients may ask for the version.
    """

    def answer(command: list[bytes]) -> bytes:
        match command[0].upper():
            case b"HELLO" if knows_hello:
                return b"%1\r\n+proto\r\n:3\r\n"
            case b"INFO" if tells:
                text = f"# Server\r\nredis_version:{version}\r\nredis_mode:standalone\r\n".encode()
                return b"$%d\r\n%s\r\n" % (len(text), text)
            case b"INFO":
                return b"-NOPERM this user has no permissions to run the 'info' command\r\n"
            case b"HGET":
                return b"$1\r\n1\r\n"
            case name:
                return b"-ERR unknown command '%s'\r\n" % name

    async def serve(client: SocketStream) -> None:
        async with client:
            messages = BufferedByteReceiveStream(client)

            async def line() -> bytes:
                return await messages.receive_until(b"\r\n", 1_000)

            while True:
                try:
                    count = int((await line())[1:])
                    command = [await messages.receive_exactly(int((await line())[1:]) + 2) for _ in range(count)]
                except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
                    return
                await client.send(answer([part[:-2] for part in command]))

    if socket:
        listener: Listener[SocketStream] = await anyio.create_unix_listener(socket)
        url = f"unix://{socket}"
    else:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        url = f"redis://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield url
        tasks.cancel_scope.cancel()
