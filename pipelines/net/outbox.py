"""Outbox: the messages that wait for a connection, which takes them in order; audio beyond a limit is dropped."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, NoReturn, TypeVar

from vivavoce.pipelines.core.errors import ProviderConnectionError
from vivavoce.pipelines.core.incidents import dropping

logger = logging.getLogger(__name__)

SEND_LIMIT = 10.0
"""Seconds for which a connection may accept no byte."""

MAX_QUEUED = 2000
"""Messages that wait to be sent; further audio is dropped (40 s of it)."""

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class KeepAlive(Generic[M]):
    """A message that is sent after `after` seconds without another one, so that the server keeps the connection."""

    after: float
    message: M


class Outbox(Generic[M]):
    """The queue of one connection.

    Args:
        provider: Name for errors and logs.
        component: The component whose audio is lost if the server is too slow, such as `"stt"`.
    """

    def __init__(self, provider: str, component: str, keep_alive: KeepAlive[M] | None = None) -> None:
        self._provider = provider
        self._keep_alive = keep_alive
        self._tell_dropped = dropping(component)
        self._queue: deque[M] = deque()
        self._has_more = asyncio.Event()
        self._dropped = 0
        self._is_sending = False
        self._moved_at = 0.0
        """When the last message was sent, or the first one after a pause began to be."""

    def post(self, message: M, *, is_audio: bool = False) -> bool:
        """Send this after earlier messages; return False for audio that is dropped."""
        if is_audio and len(self._queue) >= MAX_QUEUED:
            self._dropped += 1
            self._tell_dropped()
            if self._dropped == 1:
                logger.warning("%s: the connection is too slow; audio is dropped", self._provider)
            return False
        self._queue.append(message)
        self._has_more.set()
        return True

    def clear(self) -> None:
        """Forget the messages that wait."""
        self._queue.clear()

    async def run(self, send: Callable[[M], Awaitable[object]]) -> NoReturn:
        """Send until cancelled.

        Raises:
            ProviderConnectionError: Nothing could be sent for `SEND_LIMIT` seconds.
            Exception: Of `send`.
        """
        clock = asyncio.get_running_loop().time
        self._moved_at = clock()
        try:
            async with asyncio.timeout(None) as limit:
                self._watch(limit)
                while True:
                    while self._queue:
                        self._is_sending = True
                        await send(self._queue.popleft())
                        self._is_sending, self._moved_at = False, clock()
                    self._has_more.clear()
                    await self._has_more.wait()
                    self._moved_at = clock()
        except TimeoutError:
            if not limit.expired():
                raise
        finally:
            self._timer.cancel()
        text = f"the connection was lost: nothing could be sent for {SEND_LIMIT} s"
        raise ProviderConnectionError(text, provider=self._provider)

    def _watch(self, limit: asyncio.Timeout) -> None:
        """Look whether a limit has passed, and look again when the next one may have.

        One timer for all messages: a timeout around each was a fifth of what a call's audio cost.
        """
        loop = asyncio.get_running_loop()
        rest = loop.time() - self._moved_at
        if self._is_sending and rest >= SEND_LIMIT:
            limit.reschedule(loop.time())
            return
        wait = SEND_LIMIT - rest if self._is_sending else SEND_LIMIT
        alive = self._keep_alive
        if alive is not None and not self._is_sending:
            if rest >= alive.after:
                self.post(alive.message)
                rest = 0.0
            wait = min(wait, alive.after - rest)
        self._timer = loop.call_later(wait, self._watch, limit)
