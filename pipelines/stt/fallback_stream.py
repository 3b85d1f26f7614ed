"""FallbackStream: one session's recognition by one recogniser after the other.

It needs no task of its own: the reader of `events()` waits for the present stream, opens the next one and goes back to
a preferred one. Frames are pushed to the present stream by plain calls, as everywhere.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing

import anyio

from vivavoce.pipelines.core.boundary import as_provider_error, guarded
from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError, ProviderTimeoutError, describe
from vivavoce.pipelines.core.incidents import dropped_frames
from vivavoce.pipelines.core.members import Member, Members, final_error
from vivavoce.pipelines.core.watchdog import Watchdog
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.resample import Resampler
from vivavoce.pipelines.stt.base import (
    STT,
    STT_EVENTS,
    STTCapabilities,
    STTEndOfTurn,
    STTEvent,
    STTFinal,
    STTInterim,
    STTStream,
)
from vivavoce.pipelines.stt.unsettled_audio import UnsettledAudio

logger = logging.getLogger(__name__)

STABLE_AFTER = 5.0
"""A stream that lived this many seconds ends a row of failures."""

ROUNDS = 2
"""How often each member may fail in a row."""

CLOSE_LIMIT = 1.0
"""Seconds that closing a stream may take."""


class FallbackStream(STTStream):
    """Recognises with one member's stream after the other.

    Args:
        member, stream: The first one, open.
        open_member: Opens a stream of a member, within a limit.
        capabilities: Those of the fallback.
    """

    def __init__(
        self,
        members: Members[STT],
        member: Member[STT],
        stream: STTStream,
        *,
        open_member: Callable[[Member[STT]], Awaitable[STTStream]],
        capabilities: STTCapabilities,
        final_limit: float,
        kept_seconds: float,
    ) -> None:
        self._members = members
        self._open_member = open_member
        self._can = capabilities
        self._final_limit = final_limit
        self._audio = UnsettledAudio(kept_seconds, needs_flush=capabilities.needs_flush)
        self._interim = ""
        self._suspects: list[Member[STT]] = []
        """Members that heard no word in speech in which the present one listens for words."""
        self._scope: anyio.CancelScope | None = None
        self._failure: ProviderError | None = None
        self._is_slow = False
        self._is_closed = False
        self._row: list[ProviderError] = []
        """Failures since a stream worked."""
        self._use(member, stream)

    def _use(self, member: Member[STT], stream: STTStream) -> None:
        self._member, self._present = member, stream
        self._failure, self._is_slow = None, False
        self._opened_at = self._members.clock.now()
        self._resampler = Resampler(self._can.sample_rate, member.component.capabilities.sample_rate)
        self._watchdog = Watchdog(self._members.clock, self._is_late)

    # --- the caller

    def push(self, frame: AudioFrame) -> None:
        """Take one frame."""
        if not self._is_closed:
            self._audio.push(frame)
            self._push(frame)

    def speech_started(self, ago: float) -> None:
        """Speech began."""
        if not self._is_closed:
            self._audio.speech_started(ago)
            self._speech_started(ago)

    def flush(self) -> None:
        """The utterance is over; its final transcript is due within the limit."""
        if not self._is_closed:
            self._audio.flush(self._members.clock.now())
            self._flush()
            self._watch()

    def discard(self) -> None:
        """Forget the utterance."""
        if not self._is_closed:
            self._audio.discard()
            self._interim = ""
            self._watchdog.disarm()
            self._call(self._present.discard)

    def _push(self, frame: AudioFrame) -> None:
        if self._failure is None:
            resampled = self._resampler.push(frame)
            if resampled.data:
                self._call(self._present.push, resampled)

    def _speech_started(self, ago: float) -> None:
        self._call(self._present.speech_started, ago)

    def _flush(self) -> None:
        self._call(self._present.flush)

    def _call(self, call: Callable[..., None], *args: object) -> None:
        if self._failure is not None:  # the next stream is on its way, and gets the kept calls
            return
        try:
            call(*args)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary to the recogniser's code: the next one takes over
            self._fail(as_provider_error(error, self._member.component.provider, retryable=True))

    def _fail(self, error: ProviderError) -> None:
        if self._failure is None:
            self._failure = error
            self._watchdog.close()
            if self._scope is not None:
                self._scope.cancel()

    # --- limits

    def _watch(self) -> None:
        """Expect the final of the oldest utterance that ended, within the limit."""
        owed = self._audio.oldest_owed
        if owed is None or owed.flushed_at is None:
            self._watchdog.disarm()
        elif self._failure is None:
            self._watchdog.arm(max(0.0, owed.flushed_at + self._final_limit - self._members.clock.now()))

    def _is_late(self) -> None:
        owed = self._audio.oldest_owed
        if owed is not None and not owed.has_words and self._suspects:
            self._is_noise()
            return
        if owed is not None and not owed.has_words:
            self._suspects.append(self._member)
        self._is_slow = True
        problem = f"no final transcript within {self._final_limit:g} s of the end of speech"
        self._fail(ProviderTimeoutError(problem, provider=self._member.component.provider, retryable=True))

    def _is_noise(self) -> None:
        """No recogniser hears words in that sound: none is to blame."""
        self._audio.forget_ended()
        self._watchdog = Watchdog(self._members.clock, self._is_late)
        for member in self._suspects:
            self._members.is_back(member)
        self._suspects.clear()

    # --- events

    async def events(self) -> AsyncGenerator[STTEvent, None]:
        """Yield the events of one recogniser after the other, until closed.

        Raises:
            ProviderError: The present one is lost, and none can be opened.
        """
        while not self._is_closed:
            async with aclosing(self._events_of_present()) as events:
                async for event in events:
                    yield event
            if self._is_closed:
                return
            failure = self._failure
            assert failure is not None, "a stream ends by a failure, or because it is left or closed"
            if self._interim and not self._audio.has_audio:  # its words can be had in no other way
                yield STTFinal(text=self._interim)
            self._interim = ""
            await self._take_next(failure)

    async def _events_of_present(self) -> AsyncGenerator[STTEvent, None]:
        """Yield the events of the present streams, until one fails; a preferred one may replace the present one."""
        while not self._is_closed:
            present, provider = self._present, self._member.component.provider
            async with aclosing(guarded(present.events, STT_EVENTS, provider, retryable=True)) as events:
                while present is self._present:
                    event = await self._event(events)
                    if event is None:
                        return
                    if self._note(event):
                        yield event
                    if not isinstance(event, STTInterim) and self._audio.is_quiet:
                        await self._go_back()

    async def _event(self, events: AsyncIterator[STTEvent]) -> STTEvent | None:
        """Return the next event; None if the stream failed or was closed."""
        if self._failure is not None or self._is_closed:
            return None
        event: STTEvent | None = None
        try:
            with anyio.CancelScope() as self._scope:
                event = await anext(events, None)
        except ProviderError as error:
            self._fail(error)
        finally:
            self._scope = None
        if event is None and not self._is_closed:
            problem = "the stream ended by itself"
            self._fail(ProviderConnectionError(problem, provider=self._member.component.provider))
        return event

    def _note(self, event: STTEvent) -> bool:
        """Take an event; return whether it is passed on."""
        if isinstance(event, STTEndOfTurn):
            return self._can.emits_end_of_turn
        if event.text.strip():
            self._members.works(self._member)
            self._suspects.clear()
            self._row.clear()
        if isinstance(event, STTInterim):
            self._interim = event.text
            self._audio.interim()
        else:
            self._interim = ""
            self._audio.final(has_text=bool(event.text.strip()))
            self._watch()
        return True

    # --- another recogniser

    async def _take_next(self, failure: ProviderError) -> None:
        """Open the stream of the next recogniser that works; the one that failed is tried last.

        Raises:
            ProviderError: None can be opened.
        """
        lost, errors = self._member, self._row
        if self._members.clock.now() - self._opened_at >= STABLE_AFTER:
            errors.clear()
        errors.append(failure)
        self._members.fails(lost, is_slow=self._is_slow)
        await self._close(self._present)
        if len(errors) >= ROUNDS * len(self._members.components):  # they open, and fail at once
            raise final_error(errors)
        for member, _ in self._members.line():
            if member is not lost:
                self._members.report(lost, errors[-1], member)
            try:
                stream = await self._open_member(member)
            except ProviderError as error:
                self._members.fails(member)
                lost = member
                errors.append(error)
                continue
            await self._serve_with(member, stream)
            return
        raise final_error(errors)

    async def _go_back(self) -> None:
        """Use a preferred recogniser again, if one works."""
        better = self._members.better_than(self._member)
        if better is None:
            return
        try:
            stream = await self._open_member(better)
        except ProviderError as error:
            self._members.fails(better)
            logger.info("stt %s cannot be used again yet: %s", better.name, error)
            return
        left = self._present
        logger.info("stt %s is used again", better.name)
        await self._serve_with(better, stream)
        await self._close(left)

    async def _serve_with(self, member: Member[STT], stream: STTStream) -> None:
        if self._is_closed:
            await self._close(stream)
            return
        self._watchdog.close()
        if (dropped := self._audio.take_dropped()) > 0:
            dropped_frames("stt", dropped)
        self._use(member, stream)
        self._audio.restart(self._members.clock.now())
        self._audio.replay(self._push, self._speech_started, self._flush)
        self._watch()

    async def _close(self, stream: STTStream) -> None:
        with anyio.move_on_after(CLOSE_LIMIT, shield=True) as scope:
            try:
                await stream.aclose()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a foreign close must not hide why the stream is closed
                logger.warning("closing a recogniser's stream failed: %s", describe(error))
        if scope.cancelled_caught:
            logger.warning("closing a recogniser's stream took more than %g s", CLOSE_LIMIT)

    async def aclose(self) -> None:
        """End the present stream."""
        if not self._is_closed:
            self._is_closed = True
            self._watchdog.close()
            self._audio.discard()
        await self._present.aclose()
