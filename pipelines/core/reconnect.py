"""Keeping a provider's stream open for a whole session: opening with tries, noticing a loss, opening again, closing."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Generic, Protocol, TypeVar

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.pipelines.core.boundary import Expected, as_provider_error, guarded, provider_errors
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError, ProviderTimeoutError
from vivavoce.pipelines.core.retry import RetryOptions, retry, wait_before_retry

logger = logging.getLogger(__name__)

CLOSE_LIMIT = 1.0
"""Seconds that closing a stream may take."""

STABLE_AFTER = 5.0
"""A stream that lived this many seconds gives the next one all tries again."""

USEFUL_AFTER = 0.1
"""So does a stream that reported something and lived this many seconds: it worked for a short time. Without this least
age, code that fails at each first event would be opened again and again, without a pause."""

E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)


class EventStream(Protocol[E_co]):
    """A stream that is kept open."""

    def events(self) -> AsyncIterator[E_co]:
        """Yield until closed, or raise ProviderError when lost."""
        ...

    async def aclose(self) -> None:
        """End it."""
        ...


S = TypeVar("S", bound=EventStream[object])


class ReconnectingStream(ABC, Generic[S, E]):
    """Serves one session with one stream after another.

    A stream counts as lost too when its code raises an exception other than a ProviderError, or reports something
    unexpected.

    Args:
        provider: Name for errors and logs.
        expected: The items that streams may yield.
        retries: Tries for opening; the first one after a loss is immediate, unless the provider asks to wait.
        open_limit: Seconds for one try.
        on_failure: Called with each loss: with True when another stream has taken over, with False when there will be
            none.
    """

    def __init__(
        self,
        provider: str,
        expected: Expected,
        *,
        clock: Clock,
        retries: RetryOptions,
        open_limit: float,
        on_failure: Callable[[ProviderError, bool], None],
    ) -> None:
        self._provider = provider
        self._expected = expected
        self._clock = clock
        self._retries = retries
        self._open_limit = open_limit
        self._on_failure = on_failure
        self._has_started = False
        self._lost: ProviderError | None = None
        self._serving: anyio.CancelScope | None = None
        self._broken: ProviderError | None = None
        self._has_reported = False
        """Whether the present stream has yielded anything."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._provider})"

    @abstractmethod
    async def _open(self) -> S:
        """Return a new stream, or raise ProviderError."""

    @abstractmethod
    def _begin(self, stream: S) -> None:
        """Use this stream from now on."""

    @abstractmethod
    def _take(self, event: E) -> None:
        """Handle an event of the stream."""

    @abstractmethod
    def _end(self) -> None:
        """Stop using the stream: it was lost, or the session ends."""

    @abstractmethod
    def _give_up(self) -> None:
        """There will be no stream any more."""

    def _is_replaced(self, stream: S) -> bool:
        """Whether the stream, which ended, was closed on purpose: then the next one is opened, and it is no loss."""
        return False

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Open a stream, call `task_status.started()`, and serve until cancelled.

        After the last try it stays idle: `on_failure(error, False)` has informed the session, which decides.

        Raises:
            ProviderError: The first stream cannot be opened.
        """
        try:
            while True:
                wait = await retry(lambda: self._serve(task_status), self._retries)
                if wait > 0:
                    await anyio.sleep(wait)
        except ProviderError as error:
            if not self._has_started:
                raise
            self._give_up()
            self._on_failure(error, False)
        await anyio.sleep_forever()

    async def _serve(self, task_status: TaskStatus[None]) -> float:
        """Serve with one stream until it is lost; return the seconds to wait for. A loss soon after opening raises, so
        that it counts as a try."""
        stream = await self._open_in_time()
        opened_at = self._clock.now()
        self._has_reported = False
        self._serving, self._broken = anyio.CancelScope(), None
        try:
            self._begin(stream)
            self._tell_started(task_status)
            with self._serving:
                await self._read(stream)
            if self._broken is not None:
                raise self._broken
            if not self._is_replaced(stream):
                raise ProviderConnectionError("the stream ended by itself", provider=self._provider)
            return 0.0
        except ProviderError as error:
            if self._is_replaced(stream):  # left on purpose: its error is no loss
                logger.debug("a stream that was replaced ended with: %s", error)
                return 0.0
            logger.warning("lost a stream: %s", error)
            self._lost = error
            is_stable = self._clock.now() - opened_at >= (USEFUL_AFTER if self._has_reported else STABLE_AFTER)
            wait = wait_before_retry(error, 0.0)
            if wait is None or not is_stable:
                raise
            return wait
        finally:
            self._end()
            if not self._is_replaced(stream):
                await self._close(stream)

    async def _read(self, stream: S) -> None:
        """Take the stream's events until it ends.

        Raises:
            ProviderError: It is lost.
        """
        events = guarded(stream.events, self._expected, self._provider, retryable=True)
        async with aclosing(events):
            async for event in events:
                self._has_reported = True
                self._take(event)  # type: ignore[arg-type]

    def _break(self, error: BaseException) -> None:
        """Count the present stream as lost: a synchronous call of it raised."""
        if self._broken is None:
            self._broken = as_provider_error(error, self._provider, retryable=True)
        if self._serving is not None:
            self._serving.cancel()

    async def _open_in_time(self) -> S:
        try:
            with anyio.fail_after(self._open_limit), provider_errors(self._provider, retryable=True):
                return await self._open()
        except TimeoutError as error:
            raise ProviderTimeoutError(f"no stream within {self._open_limit} s", provider=self._provider) from error

    def _tell_started(self, task_status: TaskStatus[None]) -> None:
        if not self._has_started:
            self._has_started = True
            task_status.started()
        elif self._lost is not None:
            lost, self._lost = self._lost, None
            self._on_failure(lost, True)

    async def _close(self, stream: S) -> None:
        with anyio.move_on_after(CLOSE_LIMIT, shield=True) as scope:
            try:
                await stream.aclose()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a foreign close must not hide why the stream is closed
                logger.exception("%s: closing a stream failed", self._provider)
                problem = f"closing a stream failed ({type(error).__name__})"
                self._on_failure(ProviderError(problem, provider=self._provider), True)
        if scope.cancelled_caught:
            slow = ProviderTimeoutError(f"closing a stream took more than {CLOSE_LIMIT} s", provider=self._provider)
            logger.warning("%s", slow)
            self._on_failure(slow, True)
