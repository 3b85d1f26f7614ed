"""A TCP proxy on loopback with which a test cuts websockets without touching the media path."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class TcpProxy:
    """`async with TcpProxy(host, port) as proxy: … proxy.url; proxy.cut()`."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.connections = 0
        """How many have been made so far."""
        self._loses = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()

    def cut(self) -> None:
        """Break every connection, as a lost network does; new ones are let through."""
        for writer in self._writers:
            writer.transport.abort()

    def lose(self) -> None:
        """Drop from now on what clients send; the ends of their connections are passed on."""
        self._loses = True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            far_reader, far_writer = await asyncio.open_connection(self.host, self.port)
        except ConnectionError:
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        try:
            await asyncio.gather(self._copy(reader, far_writer, is_lossy=True), self._copy(far_reader, writer))
        finally:
            self._writers -= {writer, far_writer}

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_lossy: bool = False
    ) -> None:
        try:
            while data := await reader.read(65_536):
                if not (is_lossy and self._loses):
                    writer.write(data)
                    await writer.drain()
        except ConnectionError:
            pass
        writer.close()
