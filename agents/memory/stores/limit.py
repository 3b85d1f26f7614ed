"""The limit of a call to a store."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

import anyio

from vivavoce.pipelines.core.errors import StoreUnavailable

T = TypeVar("T")

CALL_LIMIT = 10.0
"""Seconds in which SqliteStore and RedisStore end each call, even if its caller sets no limit."""


async def within(seconds: float, call: Awaitable[T]) -> T:
    """Return the result of a call to a store.

    Raises:
        StoreUnavailable: It did not end within `seconds`.
    """
    with anyio.move_on_after(seconds):
        return await call
    raise StoreUnavailable(f"the store did not answer within {seconds:g} s; is it up, and reachable?")
