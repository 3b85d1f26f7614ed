"""Socket: a websocket with its two tasks: one sends the posted messages, in order, one reads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from vivavoce.pipelines.core.boundary import as_provider_error
from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError, ProviderTimeoutError, describe
from vivavoce.pipelines.core.owned_tasks import OwnedTasks
from vivavoce.pipelines.net.client import CLOSE_LIMIT, Client, Query
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.outbox import KeepAlive, Outbox

if TYPE_CHECKING:
    from vivavoce.pipelines.net.websocket import WebSocket

logger = logging.getLogger(__name__)

REASON_LIMIT = 0.5
"""Seconds in which a connection that takes no more bytes may still say why."""

Message = str | bytes
"""One frame of text or of bytes."""

OnMessage = Callable[[Message], None]
"""Called with each message, in order; a ProviderError that it raises ends the connection."""

OnLost = Callable[[ProviderError], None]
"""Called once with the reason of the end, unless the end is `aclose()`."""


class Socket:
    """One connection, with an owner that closes it.

    Args:
        websocket: Carries the connection.
        failures: Makes the errors.
        on_message, on_lost: As the types say.
        component: The component whose audio is lost if the server is too slow, such as `"stt"`.
    """

    def __init__(
        self,
        websocket: WebSocket,
        failures: Failures,
        *,
        on_message: OnMessage,
        on_lost: OnLost,
        component: str,
        keep_alive: KeepAlive[Message] | None = None,
    ) -> None:
        self._websocket = websocket
        self._failures = failures
        self._on_message = on_message
        self._on_lost = on_lost
        self._outbox: Outbox[Message] = Outbox(failures.provider, component, keep_alive)
        self._is_over = False
        self._lost: ProviderError | None = None
        self._changed = asyncio.Event()
        self._tasks = OwnedTasks(f"{failures.provider} socket")
        self._reader: asyncio.Task[None] | None = None

    @property
    def is_lost(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._is_over

    @property
    def protocol(self) -> str | None:
        """The subprotocol that the server chose."""
        return self._websocket.protocol

    def start(self) -> None:
        """Begin to send and to read."""
        self._reader = self._tasks.task(self._read(), "reader")
        self._tasks.start(self._send(self._reader), "sender")

    async def until(self, holds: Callable[[], bool], limit: float) -> None:
        """Wait until `holds()`, which is asked after each message: the server has accepted the settings.

        Raises:
            ProviderError: The connection was lost, or `limit` seconds passed.
        """
        try:
            async with asyncio.timeout(limit):
                while not holds():
                    if self._lost is not None:
                        raise self._lost
                    self._changed.clear()
                    await self._changed.wait()
            return
        except TimeoutError:
            text = f"connected, but the session was not ready within {limit} s"
        raise ProviderTimeoutError(text, provider=self._failures.provider, retryable=True)

    def post(self, message: Message, *, is_audio: bool = False) -> bool:
        """Send this after earlier messages; return False for one that is dropped, as each is after the end."""
        return not self._is_over and self._outbox.post(message, is_audio=is_audio)

    async def aclose(self, *last: Message) -> None:
        """End both tasks, send `last` if that is possible, and close the websocket. Calling it twice is fine."""
        is_usable = not self._is_over and self._reader is not None
        self._is_over = True
        self._tasks.cancel()
        try:
            await self._tasks.finish(CLOSE_LIMIT)
            async with asyncio.timeout(CLOSE_LIMIT):
                for message in last if is_usable else ():
                    await self._send_one(message)
                await self._websocket.close()
        except TimeoutError:
            logger.debug("%s: the server does not answer the close", self._failures.provider)
        except Exception as error:  # noqa: BLE001 - it is over in any case
            logger.debug("%s: closing the websocket failed: %s", self._failures.provider, type(error).__name__)
        finally:
            self._websocket.abort()  # a close that was cut leaves it open

    async def _send_one(self, message: Message) -> None:
        if isinstance(message, str):
            await self._websocket.send_str(message)
        else:
            await self._websocket.send_bytes(message)

    async def _send(self, reader: asyncio.Task[None]) -> None:
        try:
            await self._outbox.run(self._send_one)
        except ProviderError as error:
            self._lose(error)
        except Exception as error:  # noqa: BLE001 - aiohttp lets errors of the system through
            await asyncio.wait({reader}, timeout=REASON_LIMIT)  # the server's own reason may have come
            self._lose(self._failures.lost(error))

    async def _read(self) -> None:
        try:
            while (message := await self._receive()) is not None:
                self._on_message(message)
                self._changed.set()
        except ProviderError as error:
            self._lose(error)
        except Exception as error:  # noqa: BLE001 - the boundary to the plugin's code: the connection counts as lost
            logger.warning("%s: reading a message failed: %s", self._failures.provider, describe(error))
            self._lose(as_provider_error(error, self._failures.provider, retryable=True))

    async def _receive(self) -> Message | None:
        """Return the next message, or None at the end, whose reason is noted."""
        from aiohttp import WSMsgType

        got = await self._websocket.receive()
        if got.type in (WSMsgType.TEXT, WSMsgType.BINARY):
            data: Message = got.data
            return data
        if got.type is WSMsgType.CLOSE:
            self._lose(self._failures.closed(got.data or 1005, got.extra or ""))
        elif got.type is WSMsgType.ERROR and isinstance(got.data, TimeoutError):
            text = "the connection was lost: the server answers no pings"
            self._lose(ProviderConnectionError(text, provider=self._failures.provider))
        elif got.type is WSMsgType.ERROR:
            self._lose(self._failures.lost(got.data))
        else:
            self._lose(self._failures.closed(1006))
        return None

    def _lose(self, error: ProviderError) -> None:
        if not self._is_over:
            self._is_over, self._lost = True, error
            self._outbox.clear()
            self._changed.set()
            self._on_lost(error)


async def open_socket(
    client: Client,
    path: str,
    query: Query,
    failures: Failures,
    *,
    on_message: OnMessage,
    on_lost: OnLost,
    component: str,
    keep_alive: KeepAlive[Message] | None = None,
    headers: Mapping[str, str] | None = None,
    protocols: Sequence[str] = (),
) -> Socket:
    """Connect, and return the socket; it sends and reads after `start()`.

    Args:
        query: Parameters of the URL, such as the model.
        on_message, on_lost, component, keep_alive: As for `Socket`.
    Raises:
        ProviderError: It cannot connect; `retryable` says whether another try is useful.
    """
    websocket = await client.websocket(path, query, failures, headers=headers, protocols=protocols)
    return Socket(
        websocket, failures, on_message=on_message, on_lost=on_lost, component=component, keep_alive=keep_alive
    )
