"""RedisVersion: prepares the connections of a RedisStore, and refuses a server that is too old."""

from __future__ import annotations

import re
from typing import Any

from vivavoce.pipelines.core.errors import StoreError

OLDEST = (6, 2)
"""The oldest version of Redis that has all commands which the store calls."""


class RedisVersion:
    """The version of a server; the first connection asks for it.

    Args:
        refused: Redis' base class of errors.
        denied: Its class for a wrong password, or none.
    """

    def __init__(self, refused: type[Exception], denied: type[Exception]) -> None:
        self._refused = refused
        self._denied = denied
        self._is_new_enough = False

    @property
    def is_known(self) -> bool:
        """Whether the server has accepted a connection, and with it the password."""
        return self._is_new_enough

    async def connected(self, connection: Any) -> None:
        """Prepare a new connection.

        Raises:
            StoreError: The server is too old.
        """
        await connection.on_connect()
        if not self._is_new_enough:
            version = await self._asked(connection)
            if version and tuple(map(int, version.split(".")[:2])) < OLDEST:
                await connection.disconnect()
                raise too_old(version)
            self._is_new_enough = True

    async def _asked(self, connection: Any) -> str:
        """Return the version; empty if the server does not tell it."""
        await connection.send_command("INFO", "server")
        try:
            answer: bytes | str = await connection.read_response()
        except self._refused as error:
            if connection.is_connected and not isinstance(error, self._denied):
                return ""
            raise
        text = answer.decode(errors="replace") if isinstance(answer, bytes) else answer
        found = re.search(r"^redis_version:(\d+\.\d+[.\d]*)", text, re.MULTILINE)
        return found[1] if found else ""


def knows_no_hello(error: Exception) -> bool:
    """Return whether a server has refused the first command of a connection, which Redis has from version 6 on."""
    return re.search("unknown command .?HELLO", str(error)) is not None


def too_old(version: str) -> StoreError:
    """Return the error for a server of that version."""
    needed = ".".join(map(str, OLDEST))
    return StoreError(f"RedisStore needs Redis {needed} or newer, got Redis {version}; update the server")
