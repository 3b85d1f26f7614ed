"""Service: one long-running part of a session (pipeline, transport) in a task of the session's group."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio
from anyio.abc import TaskGroup, TaskStatus

from vivavoce.pipelines.core.errors import SessionError
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors


class Runnable(Protocol):
    """The part that a service runs."""

    def __call__(self, *, task_status: TaskStatus[None]) -> Awaitable[None]: ...


class Service:
    """Starts, watches and stops one long-running part.

    `TaskGroup.start()` would wait for a part that ignores its cancellation, so that readiness is waited for here.

    Args:
        on_crash: Called with the name and an exception that ends it after it had started.
    """

    def __init__(self, name: str, run: Runnable, *, on_crash: Callable[[str, Exception], None]) -> None:
        self._name = name
        self._run = run
        self._on_crash = on_crash
        self._scope = anyio.CancelScope()
        self._known = anyio.Event()
        self._ended: anyio.Event | None = None
        self._has_started = False
        self._failure: Exception | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it was started and has ended."""
        return self._ended is not None and self._ended.is_set()

    async def start(self, group: TaskGroup, limit: float) -> None:
        """Start it and wait until it is ready.

        Raises:
            SessionError: It is not ready within `limit` seconds, or ended without getting ready.
            VoiceError: Its own error.
        """
        self._ended = anyio.Event()
        group.start_soon(self._serve, name=self._name)
        try:
            with anyio.fail_after(limit):
                await self._known.wait()
        except TimeoutError as error:
            self._scope.cancel()
            raise SessionError(f"{self._name} was not ready within {limit:g} s") from error
        except anyio.get_cancelled_exc_class():
            self._scope.cancel()
            raise
        if self._failure is not None:
            raise self._failure
        if not self._has_started:
            raise SessionError(f"{self._name} ended before it was ready")

    def started(self, value: None = None) -> None:
        """Note that the part is ready; the part calls this as its task status."""
        self._has_started = True
        self._known.set()

    async def stop(self) -> None:
        """Cancel it and wait for its end; the caller bounds it."""
        self._scope.cancel()
        if self._ended is not None:
            await self._ended.wait()

    async def _serve(self) -> None:
        assert self._ended is not None
        try:
            with self._scope, strays_as_errors(f"the {self._name}"):
                await self._run(task_status=self)
        except Exception as error:  # noqa: BLE001 - a crash closes the session in order; before the start it is raised
            if not self._has_started:
                self._failure = error
            else:
                self._on_crash(self._name, error)
        finally:
            self._known.set()
            self._ended.set()
