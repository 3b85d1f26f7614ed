"""CheckedPool: connections to Redis that are alive when a command is sent. Importing this loads the package `redis`."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, RedisError, TimeoutError

from vivavoce.agents.memory.stores.redis_version import RedisVersion
from vivavoce.pipelines.core.clock import Clock

MAX_CONNECTIONS = 10_000
"""The default limit of Redis: each reader that waits for records has a connection, and a session has some readers."""

IDLE = 0.5
"""Seconds after which an idle connection is asked whether it is alive; the shortest `timeout` of a Redis is 1 s."""


def pool_of(url: str, clock: Clock, version: RedisVersion) -> CheckedPool:
    """Return the connections of a store.

    Raises:
        ValueError: The URL is malformed; the text may hold its password.
    """
    # No retries: after a lost reply, a second attempt could append twice. No limits of the socket: the store has some.
    return CheckedPool.from_url(
        url,
        clock=clock,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=None,
        socket_connect_timeout=None,
        max_connections=MAX_CONNECTIONS,
        redis_connect_func=version.connected,
    )


class CheckedPool(ConnectionPool):
    """Replaces connections that the server, or a machine between, has closed while they were idle.

    A command is sent once, since its first attempt may have been carried out though the reply was lost. A `PING` may be
    sent twice; so a command meets no connection that was closed before it.
    """

    def __init__(self, *, clock: Clock, **settings: Any) -> None:
        super().__init__(**settings)
        self._clock = clock
        self._released: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
        """The time of the last use of each connection."""

    @property
    def place(self) -> str:
        """The server's host and port, or its socket."""
        given = self.connection_kwargs
        return str(given.get("path") or f"{given.get('host', 'localhost')}:{given.get('port', 6379)}")

    async def ensure_connection(self, connection: Any) -> None:
        """Connect, or connect again if the connection is closed; called before each command."""
        await super().ensure_connection(connection)
        released = self._released.get(connection)
        if released is not None and self._clock.now() - released >= IDLE and not await _is_alive(connection):
            await connection.disconnect()
            await super().ensure_connection(connection)

    async def release(self, connection: Any) -> None:
        """Take a connection back from a call."""
        self._released[connection] = self._clock.now()
        await super().release(connection)


async def _is_alive(connection: Any) -> bool:
    try:
        await connection.send_command("PING")
        await connection.read_response()
    except (ConnectionError, TimeoutError, OSError):
        return False
    except RedisError:  # a refusal is an answer
        return True
    return True
