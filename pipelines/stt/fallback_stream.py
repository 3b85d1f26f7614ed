"""FallbackStream: one session's recognition by one recogniser after the other.

It moves audio and events, opens and closes streams; `FallbackMachine` decides. Each open stream is read in a task of
its own, so that no stream waits for another one to open, to answer or to close. All of them belong to the one task that
a FallbackStream has from its making until `aclose()`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

import anyio
from anyio.abc import TaskGroup

from vivavoce.pipelines.core.boundary import as_provider_error, guarded
from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError, describe
from vivavoce.pipelines.core.incidents import dropped_frames
from vivavoce.pipelines.core.members import Member, Members, final_error
from vivavoce.pipelines.core.owned_tasks import OwnedTasks
from vivavoce.pipelines.core.watchdog import Watchdog
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.resample import Resampler
from vivavoce.pipelines.stt.audio_times import AudioTimes
from vivavoce.pipelines.stt.base import (
    STT,
    STT_EVENTS,
    STTCapabilities,
    STTEagerEndOfTurn,
    STTEvent,
    STTFinal,
    STTInterim,
    STTStream,
)
from vivavoce.pipelines.stt.fallback_acts import MemberTraits
from vivavoce.pipelines.stt.fallback_machine import FallbackMachine

logger = logging.getLogger(__name__)

CLOSE_LIMIT = 0.7
"""Seconds that closing a member's stream may take."""
END_LIMIT = 0.9
"""Seconds that closing all of them may take; the pipeline gives a stream 1 s."""


class _Branch:
    """A member's stream, from its opening to its close.

    Args:
        among: The members of which the first one is opened.
    """

    def __init__(self, number: int, among: frozenset[int] = frozenset()) -> None:
        self.number = number
        self.among = among
        self._scope: anyio.CancelScope | None = None
        self._is_left = False
        self.failure: ProviderError | None = None
        """Of one of its methods; it gets no further calls."""
        self.member: Member[STT] | None = None
        self.stream: STTStream | None = None
        self.resampler: Resampler | None = None
        self.times = AudioTimes()
        """The positions of its audio in the audio of the fallback's stream."""

    @property
    def provider(self) -> str:
        """Name for errors."""
        assert self.member is not None
        return self.member.component.provider

    def enter(self) -> anyio.CancelScope:
        """Return the scope of its task."""
        self._scope = anyio.CancelScope()
        if self._is_left:
            self._scope.cancel()
        return self._scope

    def leave(self) -> None:
        """End its task."""
        self._is_left = True
        if self._scope is not None:
            self._scope.cancel()

    def opens(self, member: Member[STT]) -> None:
        """Note that a stream of that member is being opened."""
        self.member = member

    def speech_started(self, ago: float) -> None:
        """Report speech to it."""
        self.call(lambda stream: stream.speech_started(ago))

    def flush(self) -> None:
        """Have it settle the utterance."""
        self.call(lambda stream: stream.flush())

    def begin(self, stream: STTStream, rate: int) -> None:
        """Use this stream, which is open."""
        assert self.member is not None
        self.stream, wanted = stream, self.member.component.capabilities.sample_rate
        self.resampler = None if wanted == rate else Resampler(rate, wanted)

    def push(self, frame: AudioFrame, position: float) -> None:
        """Have it hear a frame.

        Args:
            position: Of the frame's end in the audio of the fallback's stream.
        """
        self.times.push(frame.duration, position)
        frame = frame if self.resampler is None else self.resampler.push(frame)
        if frame.data:
            self.call(lambda stream: stream.push(frame))

    def call(self, call: Callable[[STTStream], None]) -> None:
        """Call a method of its stream; the branch breaks if that raises."""
        if self.failure is not None:  # the next stream gets the kept calls
            return
        assert self.stream is not None
        try:
            call(self.stream)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary to the recogniser's code: the next one takes over
            self.failure = as_provider_error(error, self.provider, retryable=True)
            self.leave()


class FallbackStream(STTStream):
    """Recognises with one member's stream after the other. It carries out the acts of its machine.

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
        self._clock = members.clock
        self._machine = FallbackMachine(
            self,
            [_traits(stt) for stt in members.components],
            member.number,
            self._clock.now(),
            final_limit=final_limit,
            kept_seconds=kept_seconds,
        )
        self._audio = self._machine.audio
        self._watchdog = Watchdog(self._clock, self._due)
        self._is_closed = False
        self._send, self._events = anyio.create_memory_object_stream[STTEvent | ProviderError](math.inf)
        self._order, self._orders = anyio.create_memory_object_stream[Callable[[TaskGroup], object]](math.inf)
        first = _Branch(0)
        first.opens(member)
        first.begin(stream, capabilities.sample_rate)
        self._branches = {0: first}
        self._hearing: tuple[_Branch, ...] = (first,)
        # Its task keeps the context of open(): whoever pushes a frame has another one, without a session's listeners.
        self._tasks = OwnedTasks("fallback stt")
        self._task = self._tasks.task(self._run(first), member.name)

    # --- the caller

    def push(self, frame: AudioFrame) -> None:
        self._audio.push(frame)  # also after the loss, until the next stream is opened
        for branch in self._hearing:
            branch.push(frame, self._audio.position)

    def speech_started(self, ago: float) -> None:
        self._machine.speech_started(ago, self._clock.now())
        self._each(lambda branch: branch.speech_started(ago))

    def speech_ended(self) -> None:
        self._machine.speech_ended(self._clock.now())
        self._each(lambda branch: branch.call(lambda stream: stream.speech_ended()))

    def voice_paused(self) -> None:
        self._each(lambda branch: branch.call(lambda stream: stream.voice_paused()))

    def voice_resumed(self) -> None:
        self._each(lambda branch: branch.call(lambda stream: stream.voice_resumed()))

    def flush(self) -> None:
        """End the utterance; its final transcript is due within the limit."""
        self._machine.flush(self._clock.now())
        self._each(_Branch.flush)

    def discard(self) -> None:
        self._machine.discard(self._clock.now())
        self._each(lambda branch: branch.call(lambda stream: stream.discard()))

    def _each(self, call: Callable[[_Branch], None]) -> None:
        for branch in self._hearing:
            call(branch)
        self._watch()

    def replay(
        self, push: Callable[[AudioFrame], None], speech_started: Callable[[float], None], flush: Callable[[], None]
    ) -> None:
        """Make the calls again that no final has settled."""
        self._audio.replay(lambda frame, _: push(frame), speech_started, flush)

    # --- inputs and acts of the machine

    def _due(self) -> None:
        now, serving = self._clock.now(), self._machine.serving
        better = None if serving is None else self._members.better_than(self._members.numbered(serving))
        self._machine.due(now, None if better is None else better.number)
        self._watch()

    def _lost(self, branch: _Branch, error: ProviderError) -> None:
        """End a branch that failed."""
        if branch.number in self._branches:
            self.close(branch.number)
            assert branch.member is not None
            self._machine.lost(branch.number, branch.member.number, error, self._clock.now())
            self._watch()

    def emit(self, event: STTEvent) -> None:
        """Pass an event on: interims and judgements only if all members give them."""
        if isinstance(event, STTEagerEndOfTurn) and event.text and not self._can.emits_end_of_turn:
            event = STTInterim(text=event.text)
        if isinstance(event, STTInterim):
            is_common = self._can.emits_interims
        else:
            is_common = isinstance(event, STTFinal) or self._can.emits_end_of_turn
        if is_common:
            self._send.send_nowait(event)

    def open(self, stream: int, among: frozenset[int]) -> None:
        branch = self._branches[stream] = _Branch(stream, among)
        self._order.send_nowait(lambda group: group.start_soon(self._serve, branch))

    def let_hear(self, stream: int, begin: int = 0, end: int | None = None) -> None:
        branch = self._branches[stream]
        if end is None:
            self._hearing = (*self._hearing, branch)
        self._audio.replay(branch.push, branch.speech_started, branch.flush, begin=begin, end=end)

    def pause(self, stream: int) -> None:
        self._hearing = tuple(one for one in self._hearing if one.number != stream)

    def close(self, stream: int) -> None:
        self.pause(stream)
        if (branch := self._branches.pop(stream, None)) is not None:
            branch.leave()

    def fails(self, member: int, *, is_slow: bool) -> None:
        self._members.fails(self._members.numbered(member), is_slow=is_slow)

    def works(self, member: int) -> None:
        self._members.works(self._members.numbered(member))

    def take_over(self, member: int, failures: Sequence[tuple[int, ProviderError]], dropped: int) -> None:
        successor = self._members.numbered(member)
        self._members.serves(successor)

        def report(_: TaskGroup) -> None:
            logger.info("stt %s serves from here on", successor.name)
            for number, error in failures:
                if number != member:
                    self._members.report(self._members.numbered(number), error, successor)
            if dropped:
                dropped_frames("stt", dropped)

        self._order.send_nowait(report)

    def give_up(self, errors: Sequence[ProviderError]) -> None:
        self._send.send_nowait(final_error(errors))
        self._end()

    def _watch(self) -> None:
        deadline = None if self._is_closed else self._machine.deadline
        if deadline is None:
            self._watchdog.disarm()
        else:
            self._watchdog.arm(max(0.0, deadline - self._clock.now()))

    # --- the task

    async def _run(self, first: _Branch) -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._serve, first)
                async for order in self._orders:
                    order(group)
        finally:
            if not self._is_closed:
                self._end()

    async def _serve(self, branch: _Branch) -> None:
        """Open a stream, unless the branch has one, read it to its end and close it."""
        try:
            with branch.enter():
                if branch.stream is not None or await self._open(branch):
                    await self._read(branch)
            if branch.failure is not None:
                self._lost(branch, branch.failure)
        finally:
            if branch.stream is not None:
                await self._close(branch.stream)

    async def _open(self, branch: _Branch) -> bool:
        member = self._members.first_of(branch.among)
        if member is None:
            self._machine.none_left(branch.number, self._clock.now())
            self._watch()
            return False
        branch.opens(member)
        try:
            stream = await self._open_member(member)
        except ProviderError as error:
            self._lost(branch, error)
            return False
        branch.begin(stream, self._can.sample_rate)
        if branch.number not in self._branches:  # its cancellation was swallowed
            return False
        self._machine.opened(branch.number, member.number, self._clock.now())
        self._watch()
        return True

    async def _read(self, branch: _Branch) -> None:
        assert branch.stream is not None
        error: ProviderError = ProviderConnectionError("the stream ended by itself", provider=branch.provider)
        try:
            async with aclosing(guarded(branch.stream.events, STT_EVENTS, branch.provider, retryable=True)) as events:
                async for event in events:
                    if branch.number not in self._branches:
                        return
                    if isinstance(event, STTInterim | STTFinal) and event.words:
                        event = replace(event, words=branch.times.words(event.words))
                    self._machine.event(branch.number, event, self._clock.now())
                    self._watch()
        except ProviderError as failure:
            error = failure
        self._lost(branch, error)

    async def _close(self, stream: STTStream) -> None:
        with anyio.move_on_after(CLOSE_LIMIT, shield=True) as scope:
            try:
                await stream.aclose()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a foreign close must not hide why the stream is closed
                logger.warning("closing a recogniser's stream failed: %s", describe(error))
        if scope.cancelled_caught:
            logger.warning("closing a recogniser's stream took more than %g s", CLOSE_LIMIT)

    # --- the reader

    async def events(self) -> AsyncGenerator[STTEvent, None]:
        """Yield the events of one recogniser after the other, until closed.

        Raises:
            ProviderError: The present one is lost, and none can be opened.
        """
        try:
            async for event in self._events:
                if isinstance(event, ProviderError):
                    raise event
                yield event
        except anyio.ClosedResourceError:
            return

    def _end(self) -> None:
        self._is_closed = True
        self._watchdog.close()
        for number in list(self._branches):
            self.close(number)
        self._order.close()
        self._send.close()

    async def aclose(self) -> None:
        if not self._is_closed:
            self._end()
        try:
            await self._tasks.finish(END_LIMIT)
            if self._task.done() and not self._task.cancelled() and (failure := self._task.exception()) is not None:
                raise failure
        finally:
            self._orders.close()
            self._events.close()


def _traits(stt: STT) -> MemberTraits:
    can = stt.capabilities
    return MemberTraits(stt.provider, needs_flush=can.needs_flush, emits_interims=can.emits_interims)
