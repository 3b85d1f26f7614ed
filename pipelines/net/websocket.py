"""WebSocket: aiohttp's websocket, which can also be cut at once. Imported with the first connection."""

from __future__ import annotations

from aiohttp import ClientWebSocketResponse


class WebSocket(ClientWebSocketResponse):
    """One connection."""

    def abort(self) -> None:
        """Free the connection without a close; one that is closed stays as it is."""
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()  # a TLS connection would wait for the peer's goodbye
        self._set_closed()
        self._response.close()
