"""WebSocket: aiohttp's websocket, which can also be cut at once. Imported with the first connection."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from aiohttp import ClientWebSocketResponse


class WebSocket(ClientWebSocketResponse):
    """One connection."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        connection = self._response.connection
        self._transport = connection.transport if connection is not None else None  # aiohttp forgets it in its close

    def abort(self) -> None:
        """Free the connection without a close; one that is closed stays as it is."""
        if self._transport is not None:
            cut(self._transport)  # a TLS connection would wait for the peer's goodbye
        self._set_closed()
        self._response.close()


def cut(transport: asyncio.Transport) -> None:
    """Free a connection without a close; one that has ended stays as it is."""
    with suppress(AttributeError):  # of a TLS connection that was closed twice, in Python 3.11.2 (Debian 12)
        transport.abort()
