"""Service: one long-running part of a session (pipeline, transport) in a task of the session's group."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskGroup, TaskStatus

from vivavoce.pipelines.core.errors import SessionError


class Runnable(Protocol):
    """What a service runs."""

    def __call__(self, *, task_status: TaskStatus[None]) -> Awaitable[None]: ...


class Service:
    """Starts, watches and stops one long-running part.

    Args:
        on_crash: Told of an exception that ends it after it had started.
    """

    def __init__(self, name: str, run: Runnable, *, on_crash: Callable[[str, Exception], None]) -> None:
        self._name = name
        self._run = run
        self._on_crash = on_crash
        self._scope = anyio.CancelScope()
        self._ended: anyio.Event | None = None
        self._has_started = False

    async def start(self, group: TaskGroup, limit: float) -> None:
        """Start it and wait until it is ready.

        Raises:
            SessionError: It is not ready within `limit` seconds.
            VoiceError: Whatever it raised itself.
        """
        self._ended = anyio.Event()
        try:
            with anyio.fail_after(limit):
                await group.start(self._serve, name=self._name)
        except TimeoutError as error:
            raise SessionError(f"{self._name} was not ready within {limit:g} s") from error
        self._has_started = True

    async def stop(self) -> None:
        """Cancel it and wait for its end; the caller bounds it."""
        self._scope.cancel()
        if self._has_started and self._ended is not None:
            await self._ended.wait()

    async def _serve(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        assert self._ended is not None
        try:
            with self._scope:
                await self._run(task_status=task_status)
        except Exception as error:  # noqa: BLE001 - a crash closes the session in order; before the start it is raised
            if not self._has_started:
                raise
            self._on_crash(self._name, error)
        finally:
            self._ended.set()
