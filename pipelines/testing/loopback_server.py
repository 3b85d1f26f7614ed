"""LoopbackServer: the life of a server for tests that speaks by websockets. It needs aiohttp."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

import anyio
from aiohttp import web

LIMIT = 10.0
"""Seconds for which a test waits for a message."""


class Abortable(Protocol):
    """The server's half of a websocket."""

    def abort(self) -> object:
        """End the connection without a close."""
        ...


Connection = TypeVar("Connection", bound=Abortable)


class LoopbackServer(ABC, Generic[Connection]):
    """Listens on a free port of loopback from `async with` on; its end cuts all connections.

    Args:
        path: Stands behind the port in `url`, such as `"/v1"`.
    """

    def __init__(self, *, path: str = "") -> None:
        self.url = ""
        """Such as `"http://127.0.0.1:40123"`, as `base_url` of the plugin."""
        self.connections: list[Connection] = []
        """All connections, oldest first, also closed ones."""
        self._path = path
        self._changed = anyio.Event()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        self._route(app.router)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}{self._path}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        for connection in self._all_connections():
            connection.abort()
        await self._runner.cleanup()

    @property
    def websocket_url(self) -> str:
        """`url` with the scheme `ws`."""
        return "ws" + self.url.removeprefix("http")

    @property
    def connection(self) -> Connection:
        """The newest connection.

        Raises:
            LookupError: There was none.
        """
        if not self.connections:
            raise LookupError("no client has connected yet; wait with connected()")
        return self.connections[-1]

    async def connected(self, count: int = 1) -> Connection:
        """Wait until this many clients have connected, in all; return the newest connection.

        Raises:
            TimeoutError: Not within the limit of `until()`.
        """
        await self.until(lambda: len(self.connections) >= count)
        return self.connection

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until `holds()`, which is asked after each message.

        Raises:
            TimeoutError: Not within `LIMIT` seconds.
        """
        with anyio.fail_after(LIMIT):
            while not holds():
                await self._changed.wait()

    def changed(self) -> None:
        """Wake the code that waits in `until()`."""
        self._changed.set()
        self._changed = anyio.Event()

    @abstractmethod
    def _route(self, router: web.UrlDispatcher) -> None:
        """Add the server's addresses."""

    def _all_connections(self) -> Iterable[Abortable]:
        return self.connections
