"""FallbackStream: one session's recognition by one recogniser after the other.

It moves audio and events, opens and closes streams; `FallbackMachine` decides. Each open stream is read in a task of
its own, so that no stream waits for another one to open, to answer or to close. All of them belong to the one task that
a FallbackStream has from its making until `aclose()`.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

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
from vivavoce.pipelines.stt.fallback_decisions import (
    Close,
    Decision,
    Emit,
    GiveUp,
    MarkFailed,
    MarkWorking,
    MemberTraits,
    Open,
    Pause,
    Replay,
    TakeOver,
)
from vivavoce.pipelines.stt.fallback_machine import FallbackMachine

logger = logging.getLogger(__name__)

CLOSE_LIMIT = 0.7
"""Seconds that closing a member's stream may take."""
END_LIMIT = 0.9
"""Seconds that closing all of them may take; the pipeline gives a stream 1 s."""


class _Branch:
    """A member's stream, from its opening to its close."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._scope: anyio.CancelScope | None = None
        self.is_left = False
        """Whether the branch broke, or is not needed any more."""
        self.member: Member[STT] | None = None
        self.stream: STTStream | None = None
        self.resampler: Resampler | None = None

    def enter(self) -> anyio.CancelScope:
        """Return the scope of its task."""
        self._scope = anyio.CancelScope()
        if self.is_left:
            self._scope.cancel()
        return self._scope

    def leave(self) -> None:
        """End its task."""
        self.is_left = True
        if self._scope is not None:
            self._scope.cancel()

    def opens(self, member: Member[STT]) -> None:
        """Note that a stream of that member is being opened."""
        self.member = member

    def begin(self, stream: STTStream, rate: int) -> None:
        """Use this stream, which is open."""
        assert self.member is not None
        self.stream, member = stream, self.member
        wanted = member.component.capabilities.sample_rate
        self.resampler = None if wanted == rate else Resampler(rate, wanted)


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
        self._clock = members.clock
        self._machine = FallbackMachine(
            [_traits(stt) for stt in members.components],
            member.number,
            self._clock.now(),
            final_limit=final_limit,
            kept_seconds=kept_seconds,
        )
        self._audio = self._machine.audio
        self._watchdog = Watchdog(self._clock, self._due)
        self._undone: deque[Decision] = deque()
        self._is_deciding = False
        self._is_closed = False
        self._send, self._events = anyio.create_memory_object_stream[STTEvent | ProviderError](math.inf)
        self._order, self._orders = anyio.create_memory_object_stream[Open | TakeOver](math.inf)
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
        if not self._is_closed:
            for branch in self._hearing:
                self._push(branch, frame)

    def speech_started(self, ago: float) -> None:
        self._do(self._machine.speech_started(ago, self._clock.now()))
        if not self._is_closed:
            for branch in self._hearing:
                self._speech_started(branch, ago)

    def speech_ended(self) -> None:
        self._machine.speech_ended(self._clock.now())
        if not self._is_closed:
            for branch in self._hearing:
                assert branch.stream is not None
                self._call(branch, branch.stream.speech_ended)
            self._watch()

    def flush(self) -> None:
        """End the utterance; its final transcript is due within the limit."""
        self._machine.flush(self._clock.now())
        if not self._is_closed:
            for branch in self._hearing:
                self._flush(branch)
            self._watch()

    def discard(self) -> None:
        self._do(self._machine.discard(self._clock.now()))
        if not self._is_closed:
            for branch in self._hearing:
                assert branch.stream is not None
                self._call(branch, branch.stream.discard)

    def replay(
        self, push: Callable[[AudioFrame], None], speech_started: Callable[[float], None], flush: Callable[[], None]
    ) -> None:
        """Make the calls again that no final has settled."""
        self._audio.replay(push, speech_started, flush)

    def _push(self, branch: _Branch, frame: AudioFrame) -> None:
        assert branch.stream is not None
        if branch.resampler is None:
            self._call(branch, branch.stream.push, frame)
        elif (resampled := branch.resampler.push(frame)).data:
            self._call(branch, branch.stream.push, resampled)

    def _speech_started(self, branch: _Branch, ago: float) -> None:
        assert branch.stream is not None
        self._call(branch, branch.stream.speech_started, ago)

    def _flush(self, branch: _Branch) -> None:
        assert branch.stream is not None
        self._call(branch, branch.stream.flush)

    def _call(self, branch: _Branch, call: Callable[..., None], *args: object) -> None:
        if branch.is_left:  # the next stream gets the kept calls
            return
        try:
            call(*args)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary to the recogniser's code: the next one takes over
            assert branch.member is not None
            self._lost(branch, as_provider_error(error, branch.member.component.provider, retryable=True))

    # --- decisions

    def _due(self) -> None:
        now, serving = self._clock.now(), self._machine.serving
        better = None if serving is None else self._members.better_than(self._members.numbered(serving))
        self._do(self._machine.due(now, None if better is None else better.number))

    def _lost(self, branch: _Branch, error: ProviderError) -> None:
        """End a branch that failed."""
        if branch.number in self._branches:
            self._leave(branch.number)
            assert branch.member is not None
            self._do(self._machine.lost(branch.number, branch.member.number, error, self._clock.now()))

    def _leave(self, number: int) -> None:
        branch = self._branches.pop(number, None)
        if branch is not None:
            self._hearing = tuple(one for one in self._hearing if one is not branch)
            branch.leave()

    def _do(self, decisions: Sequence[Decision]) -> None:
        """Carry decisions out, in order; one of them may lead to further ones."""
        self._undone.extend(decisions)
        if self._is_deciding or self._is_closed:
            return
        self._is_deciding = True
        try:
            while self._undone and not self._is_closed:
                self._do_one(self._undone.popleft())
        finally:
            self._is_deciding = False
        self._watch()

    def _do_one(self, decision: Decision) -> None:
        match decision:
            case Emit(event=event):
                self._emit(event)
            case Open():
                self._branches[decision.stream] = _Branch(decision.stream)
                self._order.send_nowait(decision)
            case TakeOver():
                self._members.serves(self._members.numbered(decision.member))
                self._order.send_nowait(decision)
            case Replay(stream=number):
                if (branch := self._branches.get(number)) is not None:
                    self._replay(branch, decision)
            case Pause(stream=number):
                self._hearing = tuple(one for one in self._hearing if one.number != number)
            case Close(stream=number):
                self._leave(number)
            case MarkFailed(member=number, is_slow=is_slow):
                self._members.fails(self._members.numbered(number), is_slow=is_slow)
            case MarkWorking(member=number):
                self._members.works(self._members.numbered(number))
            case GiveUp(errors=errors):
                self._send.send_nowait(final_error(errors))
                self._end()

    def _emit(self, event: STTEvent) -> None:
        """Pass an event on: judgements only if all members give them."""
        if isinstance(event, STTInterim | STTFinal) or self._can.emits_end_of_turn:
            self._send.send_nowait(event)
        elif isinstance(event, STTEagerEndOfTurn) and event.text:
            self._send.send_nowait(STTInterim(text=event.text))

    def _replay(self, branch: _Branch, order: Replay) -> None:
        if order.end is None:
            self._hearing = (*self._hearing, branch)
        self._audio.replay(
            lambda frame: self._push(branch, frame),
            lambda ago: self._speech_started(branch, ago),
            lambda: self._flush(branch),
            begin=order.begin,
            end=order.end,
        )

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
                group.start_soon(self._serve, first, frozenset[int]())
                async for order in self._orders:
                    self._carry_out(order, group)
        finally:
            if not self._is_closed:
                self._end()

    def _carry_out(self, order: Open | TakeOver, group: TaskGroup) -> None:
        if isinstance(order, Open):
            if (branch := self._branches.get(order.stream)) is not None:
                group.start_soon(self._serve, branch, order.among)
            return
        successor = self._members.numbered(order.member)
        logger.info("stt %s serves from here on", successor.name)
        for number, error in order.failures:
            if number != order.member:
                self._members.report(self._members.numbered(number), error, successor)
        if order.dropped:
            dropped_frames("stt", order.dropped)

    async def _serve(self, branch: _Branch, among: frozenset[int]) -> None:
        """Open a stream of one of these members, unless the branch has one, read it to its end and close it."""
        try:
            with branch.enter():
                if branch.stream is not None or await self._open(branch, among):
                    await self._read(branch)
        finally:
            if branch.stream is not None:
                await self._close(branch.stream)

    async def _open(self, branch: _Branch, among: frozenset[int]) -> bool:
        member = self._members.first_of(among)
        if member is None:
            self._do(self._machine.none_left(branch.number, self._clock.now()))
            return False
        branch.opens(member)
        try:
            stream = await self._open_member(member)
        except ProviderError as error:
            self._lost(branch, error)
            return False
        branch.begin(stream, self._can.sample_rate)
        self._do(self._machine.opened(branch.number, member.number, self._clock.now()))
        return True

    async def _read(self, branch: _Branch) -> None:
        assert branch.member is not None
        assert branch.stream is not None
        provider = branch.member.component.provider
        error: ProviderError = ProviderConnectionError("the stream ended by itself", provider=provider)
        try:
            async with aclosing(guarded(branch.stream.events, STT_EVENTS, provider, retryable=True)) as events:
                async for event in events:
                    self._do(self._machine.event(branch.number, event, self._clock.now()))
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
            self._leave(number)
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
