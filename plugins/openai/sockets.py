"""Socket: a websocket of the official SDK with its two tasks: one sends the posted messages, in order, one reads."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from vivavoce.pipelines.core.errors import (
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderStatusError,
    ProviderTimeoutError,
)
from vivavoce.pipelines.core.incidents import dropping
from vivavoce.plugins.openai.client import Client
from vivavoce.plugins.openai.failures import REMEDIES
from vivavoce.plugins.openai.wire import PROVIDER, is_retryable

if TYPE_CHECKING:
    from openai.resources.realtime.realtime import AsyncRealtimeConnection
    from websockets.asyncio.client import ClientConnection

logger = logging.getLogger(__name__)

SEND_LIMIT = 10.0
"""Seconds for which the connection may accept no byte."""

CLOSE_LIMIT = 0.5
"""Seconds for closing the connection."""

MAX_QUEUED = 2000
"""Messages that wait to be sent; further audio is dropped (40 s of it)."""


class Socket:
    """One connection.

    Args:
        websocket: Carries the connection.
        on_frame: Called with each frame; a ProviderError that it raises ends the connection.
        on_lost: Called once with the reason of the end, unless it is `aclose()`.
        component: The component whose audio is lost if the server is too slow: "stt" or "realtime_model".
    """

    def __init__(
        self,
        connection: AsyncRealtimeConnection,
        websocket: ClientConnection,
        on_frame: Callable[[bytes], None],
        on_lost: Callable[[ProviderError], None],
        component: str,
    ) -> None:
        self._connection = connection
        self._websocket = websocket
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._tell_dropped = dropping(component)
        self._queue: deque[Mapping[str, Any]] = deque()
        self._has_more = asyncio.Event()
        self._dropped = 0
        self._is_over = False
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to send and to read."""
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._send(), name="openai realtime sender"),
            loop.create_task(self._read(), name="openai realtime reader"),
        ]

    def post(self, message: Mapping[str, Any]) -> None:
        """Send this after earlier messages; after the end of the connection it is dropped."""
        if self._is_over:
            return
        if len(self._queue) >= MAX_QUEUED and message["type"] == "input_audio_buffer.append":
            self._dropped += 1
            self._tell_dropped()
            if self._dropped == 1:
                logger.warning("openai: the connection is too slow; audio is dropped")
            return
        self._queue.append(message)
        self._has_more.set()

    async def aclose(self) -> None:
        """End both tasks and close the websocket. Calling it twice is fine."""
        self._is_over = True
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if not tasks:
            return
        try:
            await asyncio.wait(tasks)
            await self._say_goodbye()
        finally:
            self._websocket.transport.abort()  # a close that was cut leaves it open; on a closed one it has no effect
        await self._websocket.wait_closed()

    async def _send(self) -> None:
        try:
            while True:
                while self._queue:
                    text = json.dumps(self._queue.popleft())
                    async with asyncio.timeout(SEND_LIMIT):
                        await self._connection.send_raw(text)
                self._has_more.clear()
                await self._has_more.wait()
        except TimeoutError:
            self._lose(ProviderTimeoutError(f"nothing could be sent for {SEND_LIMIT} s", provider=PROVIDER))
        except Exception as error:  # noqa: BLE001 - the SDK lets errors of its websocket library through
            self._lose(lost(error))

    async def _read(self) -> None:
        try:
            while True:
                self._on_frame(await self._connection.recv_bytes())
        except ProviderError as error:
            self._lose(error)
        except Exception as error:  # noqa: BLE001 - the SDK lets errors of its websocket library through
            self._lose(lost(error))

    def _lose(self, error: ProviderError) -> None:
        if not self._is_over:
            self._is_over = True
            self._on_lost(error)

    async def _say_goodbye(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_LIMIT):
                await self._connection.close()
        except Exception as error:  # noqa: BLE001 - it is over in any case
            logger.debug("openai: closing the websocket failed: %s", type(error).__name__)


async def open_socket(
    client: Client,
    *,
    query: Mapping[str, str],
    on_frame: Callable[[bytes], None],
    on_lost: Callable[[ProviderError], None],
    component: str,
) -> Socket:
    """Connect to the server's `realtime` endpoint.

    Args:
        query: Parameters of the URL, such as the model.
        on_frame, on_lost, component: As for `Socket`.
    Raises:
        ProviderError: It cannot connect; the status determines whether another try is useful.
    """
    import openai
    import websockets.exceptions
    from websockets.asyncio.client import ClientConnection

    made: list[ClientConnection] = []

    def make(*args: Any, **named: Any) -> ClientConnection:
        made.append(ClientConnection(*args, **named))
        return made[-1]

    options = client.options
    passed_on: Any = {  # to websockets
        "open_timeout": options.connect_timeout,
        "close_timeout": CLOSE_LIMIT,
        "create_connection": make,  # the SDK shows nothing of it
    }
    try:
        manager = client.here().realtime.connect(
            extra_query=dict(query),
            extra_headers=client.headers,
            websocket_connection_options=passed_on,
        )
        return Socket(await manager.enter(), made[-1], on_frame, on_lost, component)
    except websockets.exceptions.InvalidStatus as error:
        raise _status_error(error.response.status_code, error.response.body) from None
    except TimeoutError:
        raise ProviderTimeoutError(f"no connection within {options.connect_timeout} s", provider=PROVIDER) from None
    except OSError as error:
        reason = f"{type(error).__name__}: {error.strerror}" if error.strerror else type(error).__name__
        raise ProviderConnectionError(f"no connection: {reason}", provider=PROVIDER) from None
    except websockets.exceptions.WebSocketException as error:
        raise ProviderProtocolError(
            f"no websocket: {type(error).__name__}", provider=PROVIDER, retryable=True
        ) from None
    except openai.OpenAIError as error:
        raise ProviderError(f"the SDK failed: {type(error).__name__}", provider=PROVIDER) from None


def lost(error: Exception) -> ProviderConnectionError:
    """Return the error of a connection that ended."""
    import websockets.exceptions

    reason = type(error).__name__
    if isinstance(error, websockets.exceptions.ConnectionClosed) and error.rcvd is not None:
        reason = f"the server closed it with code {error.rcvd.code}"
    return ProviderConnectionError(f"the connection was lost: {reason}", provider=PROVIDER)


def _status_error(status: int, body: bytes | None) -> ProviderStatusError:
    code = None
    try:
        code = json.loads(body or b"{}")["error"]["code"]
    except (ValueError, KeyError, TypeError):
        code = None
    parts = [f"status {status}" + (f", {code}" if isinstance(code, str) else ""), REMEDIES.get(status, "")]
    return ProviderStatusError(
        "; ".join(part for part in parts if part),
        provider=PROVIDER,
        status=status,
        retryable=is_retryable(status, code),
    )
