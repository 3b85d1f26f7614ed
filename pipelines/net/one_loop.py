"""OneLoop: a thing that belongs to one event loop, such as a client with its connections, made with the first use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from vivavoce.pipelines.core.errors import ConfigurationError

T = TypeVar("T")


class OneLoop(Generic[T]):
    """Makes the thing with the first use, and closes it.

    Args:
        name: The component's name for errors, such as `"openai.LLM"`.
        make: Makes it, in the running loop.
        close: Closes it.
        closes_lost: Whether to call `close`, in another loop, also after the end of its own, which closes the sockets.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], T],
        close: Callable[[T], Awaitable[object]],
        *,
        closes_lost: bool = False,
    ) -> None:
        self._name = name
        self._make = make
        self._close = close
        self._closes_lost = closes_lost
        self._thing: T | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False

    def here(self) -> T:
        """Return the thing.

        Raises:
            ConfigurationError: It is closed, or belongs to another loop.
        """
        self.check_open()
        if self._thing is None:
            self._loop = asyncio.get_running_loop()
            self._thing = self._make()
        self._check_loop()
        return self._thing

    def check_open(self) -> None:
        """Refuse a request after the close.

        Raises:
            ConfigurationError: It is closed.
        """
        if self._is_closed:
            raise ConfigurationError(f"this {self._name} is closed; make another one")

    async def aclose(self) -> None:
        """Close it; requests that still run fail.

        Raises:
            ConfigurationError: It belongs to another event loop, which still runs.
        """
        is_lost = self._loop is not None and self._loop.is_closed()
        if self._thing is not None and not is_lost:
            self._check_loop()
        self._is_closed = True
        thing, self._thing = self._thing, None
        if thing is not None and (self._closes_lost or not is_lost):
            await self._close(thing)

    def _check_loop(self) -> None:
        if self._loop is not asyncio.get_running_loop():
            raise ConfigurationError(
                "needed the event loop of the first request, which holds the connections, got another one; make an "
                f"{self._name} for each event loop"
            )
