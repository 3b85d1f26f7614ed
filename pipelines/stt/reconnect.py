"""Keeping a recogniser open for a whole session: reconnecting, and keeping the audio that comes meanwhile."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError, ProviderTimeoutError
from vivavoce.pipelines.core.retry import RetryOptions, retry
from vivavoce.pipelines.media.buffer import RecentFrames
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.base import STT, STTEvent, STTFinal, STTInterim, STTStream

logger = logging.getLogger(__name__)

KEPT_SECONDS = 10.0
"""Audio that is kept for the next stream while there is none."""

CLOSE_LIMIT = 1.0
"""Seconds that closing a stream may take."""

STABLE_AFTER = 5.0
"""A stream that lived this many seconds, or recognised something, gives its successor all tries anew."""


class Recognizer:
    """One session's recognition across as many streams as it takes.

    The words of a lost stream's interim are settled as a final one, since its successor will not hear them again.

    Args:
        stt: Shared; only the streams opened here are closed here.
        on_event: Takes what the recogniser reports.
        on_failure: Told of each lost stream, and whether another one has taken over.
        retries: Tries for opening; a successor's first try is immediate.
        open_limit: Seconds for one try.
    """

    def __init__(
        self,
        stt: STT,
        *,
        clock: Clock,
        on_event: Callable[[STTEvent], None],
        on_failure: Callable[[ProviderError, bool], None],
        retries: RetryOptions,
        open_limit: float,
    ) -> None:
        self._stt = stt
        self._clock = clock
        self._on_event = on_event
        self._on_failure = on_failure
        self._retries = retries
        self._open_limit = open_limit
        self._kept = RecentFrames(KEPT_SECONDS)
        self._stream: STTStream | None = None
        self._lost: ProviderError | None = None
        self._has_started = False
        self._speech_at: float | None = None
        self._is_flush_due = False
        self._interim = ""
        self.push: Callable[[AudioFrame], None] = self._kept.push
        """Takes one frame at the recogniser's rate: the open stream's own method, so that a frame costs one call."""

    def speech_started(self, ago: float) -> None:
        """Tell the recogniser that speech began `ago` seconds before the end of the newest frame."""
        self._speech_at = self._clock.now() - ago
        if self._stream is not None:
            self._stream.speech_started(ago)

    def flush(self) -> None:
        """Tell the recogniser that speech has ended."""
        self._speech_at = None
        if self._stream is not None:
            self._stream.flush()
        else:
            self._is_flush_due = True

    def discard(self) -> None:
        """Forget the current utterance."""
        self._interim = ""
        self._is_flush_due = False
        if self._stream is not None:
            self._stream.discard()
        else:
            self._kept.drain()

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Open a stream, call `task_status.started()`, and recognise until cancelled.

        After the last try it stays silent: `on_failure(error, False)` has told the session, which decides.

        Raises:
            ProviderError: The first stream cannot be had.
        """
        try:
            while True:
                await retry(lambda: self._recognize(task_status), self._retries)
        except ProviderError as error:
            if not self._has_started:
                raise
            self.push = _drop
            self._kept.drain()
            self._on_failure(error, False)
        await anyio.sleep_forever()

    async def _recognize(self, task_status: TaskStatus[None]) -> None:
        """Serve with one stream until it is lost. A loss soon after opening raises, so that it counts as a try."""
        stream = await self._open()
        opened_at = self._clock.now()
        has_heard = False
        try:
            self._take_over(stream, task_status)
            events = stream.events()
            try:
                async for event in events:
                    has_heard = True
                    self._interim = event.text if isinstance(event, STTInterim) else ""
                    self._on_event(event)
            finally:
                if isinstance(events, AsyncGenerator):
                    await events.aclose()
            raise ProviderConnectionError("the stream ended by itself", provider=self._stt.provider)
        except ProviderError as error:
            self._give_up(error)
            if not error.retryable or not (has_heard or self._clock.now() - opened_at >= STABLE_AFTER):
                raise
        finally:
            self._stream = None
            self.push = self._kept.push
            await self._close(stream)

    async def _open(self) -> STTStream:
        try:
            with anyio.fail_after(self._open_limit):
                return await self._stt.open()
        except TimeoutError as error:
            raise ProviderTimeoutError(f"no stream within {self._open_limit} s", provider=self._stt.provider) from error

    def _take_over(self, stream: STTStream, task_status: TaskStatus[None]) -> None:
        self._stream = stream
        self.push = stream.push
        for frame in self._kept.drain():
            stream.push(frame)
        if self._speech_at is not None:
            stream.speech_started(self._clock.now() - self._speech_at)
        if self._is_flush_due:
            self._is_flush_due = False
            stream.flush()
        if not self._has_started:
            self._has_started = True
            task_status.started()
        elif self._lost is not None:
            lost, self._lost = self._lost, None
            self._on_failure(lost, True)

    def _give_up(self, error: ProviderError) -> None:
        logger.warning("speech recognition lost its stream: %s", error)
        self._lost = error
        if self._interim:
            interim, self._interim = self._interim, ""
            self._on_event(STTFinal(text=interim))

    async def _close(self, stream: STTStream) -> None:
        with anyio.move_on_after(CLOSE_LIMIT, shield=True) as scope:
            try:
                await stream.aclose()
            except Exception:  # noqa: BLE001 - a foreign close must not hide why the stream is closed
                logger.exception("%s: closing a stream failed", self._stt.provider)
        if scope.cancelled_caught:
            logger.warning("%s: closing a stream took more than %s s", self._stt.provider, CLOSE_LIMIT)


def _drop(_: AudioFrame) -> None:
    """Take a frame when there is no recogniser any more."""
