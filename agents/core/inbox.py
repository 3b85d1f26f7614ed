"""Inbox: the one way into a session's decision loop, from any thread, and the loop's wait for input or deadline."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

import anyio
import anyio.lowlevel

from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.core.clock import Clock, TimerHandle
from vivavoce.pipelines.core.errors import SessionClosedError, SessionError

T = TypeVar("T")

THREAD_LIMIT = 10.0
"""Seconds that a thread waits for the loop."""
ENDED = "the session's event loop has ended"


class Barrier:
    """A place in the inbox. Awaiting it waits until all entries before it are decided, and then for `then()`.

    Not awaiting it is fine.
    """

    __slots__ = ("_then", "reached")

    def __init__(self, then: Callable[[], Awaitable[None]]) -> None:
        self._then = then
        self.reached = asyncio.Event()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._wait().__await__()

    def reach(self) -> None:
        """Mark that all entries before it are decided."""
        self.reached.set()

    async def _wait(self) -> None:
        await self.reached.wait()
        await self._then()


class LoopCall(Barrier):
    """A function that the loop's own task calls in its turn, such as one that begins tasks.

    It is dropped when the inbox is closed.
    """

    __slots__ = ("_do",)

    def __init__(self, do: Callable[[], None]) -> None:
        super().__init__(anyio.lowlevel.checkpoint)
        self._do = do

    def reach(self) -> None:
        try:
            self._do()
        finally:
            super().reach()


class InterruptedFromThread:
    """The result of `interrupt()` in a thread: the interruption is under way, but a thread has no loop to wait on."""

    def __await__(self) -> Generator[Any, None, None]:
        raise SessionError(
            "interrupt() was called in a thread, where it acts but cannot be awaited; to wait until the audio has "
            "stopped, await it on the session's loop"
        )


Entry = i.TurnInput | Barrier


class Inbox:
    """Takes inputs for one session's loop, in order. Posting is synchronous and decides nothing.

    `bind()` ties it to the session's event loop. From then on other threads may post and call too; before, all calls
    are made where they are asked for.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: deque[Entry] = deque()
        self._wake = asyncio.Event()
        self._timer: TimerHandle | None = None
        self._timer_at: float | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    # --- from any thread

    def bind(self) -> None:
        """Bind the inbox to the running event loop; called once, when the session starts."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    @property
    def is_bound(self) -> bool:
        """Whether the session was started."""
        return self._loop is not None

    @property
    def is_here(self) -> bool:
        """Whether the calling code is on the session's event loop, and not in another thread."""
        return threading.get_ident() == self._thread

    @property
    def is_own_loop(self) -> bool:
        """Whether the calling task runs on the session's event loop, and not on another one."""
        return asyncio.get_running_loop() is self._loop

    def check_running(self) -> None:
        """Check that the session's event loop runs.

        Raises:
            SessionClosedError: It does not, so that it decides nothing more.
        """
        if self._loop is not None and not self._loop.is_running():
            raise SessionClosedError(ENDED)

    def post(self, entry: Entry) -> None:
        """Append an input and wake the loop; from another thread, soon.

        Raises:
            SessionClosedError: The event loop has ended.
        """
        if self._loop is None or threading.get_ident() == self._thread:
            self._put(entry)
        else:
            self.on_loop(lambda: self._put(entry))

    def call(self, do: Callable[[], None]) -> None:
        """Have the loop's own task call `do`, after all entries before it."""
        self.post(LoopCall(do))

    def barrier(self, then: Callable[[], Awaitable[None]]) -> Barrier:
        """Append a barrier, which can be awaited: all entries before it are decided, and `then()` has returned."""
        entry = Barrier(then)
        self.post(entry)
        return entry

    def on_loop(self, function: Callable[[], object]) -> None:
        """Call `function` on the event loop: at once from there, soon from another thread, which does not wait.

        Raises:
            SessionClosedError: The event loop has ended.
        """
        if self._loop is None or self.is_here:
            function()
            return
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError as error:
            raise SessionClosedError(ENDED) from error

    def result_of(self, function: Callable[[], T]) -> T:
        """Call `function` on the event loop and return its result; another thread waits for it.

        Args:
            function: Returns at once.
        Raises:
            SessionClosedError: The event loop has ended.
            SessionError: The event loop was held up for `THREAD_LIMIT` seconds.
        """
        if self._loop is None or self.is_here:
            return function()
        done: Future[T] = Future()

        def make() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                done.set_result(function())
            except Exception as error:  # noqa: BLE001 - raised in the thread that waits
                done.set_exception(error)

        self.on_loop(make)
        try:
            return done.result(THREAD_LIMIT)
        except FutureTimeoutError as error:
            done.cancel()
            raise SessionError(f"the session's event loop was held up for {THREAD_LIMIT:g} s") from error

    # --- for the loop

    def __bool__(self) -> bool:
        return bool(self._entries)

    def take(self) -> Entry:
        """Return the oldest entry."""
        return self._entries.popleft()

    def wake(self) -> None:
        """Wake the loop, which then hands out the events that were noted."""
        self._wake.set()

    async def wait(self, deadline: float | None) -> None:
        """Wait for an entry, a wake or `deadline` (session clock)."""
        if self._entries:
            return
        self._wake = asyncio.Event()
        self._arm(deadline)
        await self._wake.wait()

    def close(self) -> None:
        """Drop the timer and all entries; a task that awaits a barrier continues."""
        self._arm(None)
        for entry in self._entries:
            if isinstance(entry, Barrier):
                entry.reached.set()
        self._entries.clear()

    def _put(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._wake.set()

    def _arm(self, deadline: float | None) -> None:
        if deadline == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = None if deadline is None else self._clock.call_at(deadline, self._on_deadline)

    def _on_deadline(self) -> None:
        self._timer = self._timer_at = None
        self._wake.set()
