"""ReconnectingModel: one session's conversation with a realtime model, over one or more connections.

Each connection receives everything once: the history when it is opened, the items that are added while it opens, and
the audio that came meanwhile. A connection whose time runs out is replaced in a pause; the new one is opened before the
old one is closed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal, TypeAlias

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.pipelines.core.clock import Clock, TimerHandle
from vivavoce.pipelines.core.errors import (
    ProviderConnectionError,
    ProviderError,
    ProviderTimeoutError,
    describe,
    first_error,
)
from vivavoce.pipelines.core.incidents import dropping
from vivavoce.pipelines.core.reconnect import ReconnectingStream
from vivavoce.pipelines.core.retry import RetryOptions
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem, ChatMessage, FunctionCall, FunctionCallOutput
from vivavoce.pipelines.media.frame import AudioFrame, VideoFrame
from vivavoce.pipelines.realtime_model.base import RealtimeModel, RealtimeSetup
from vivavoce.pipelines.realtime_model.events import (
    RealtimeEnding,
    RealtimeEvent,
    RealtimeInputCommitted,
    RealtimeResumable,
    RealtimeTranscript,
)
from vivavoce.pipelines.realtime_model.guarded import EVENTS, GuardedConnection
from vivavoce.pipelines.realtime_model.kept_audio import KeptAudio
from vivavoce.pipelines.realtime_model.turn_items import TurnItems

logger = logging.getLogger(__name__)

KEPT_SECONDS = 10.0
"""Audio of the open turn that is kept for the next connection."""
RENEWAL_SHARE = 0.9
"""Share of a connection's known length after which it is replaced in the next pause."""
RENEWAL_MARGIN = 10.0
"""Seconds before a connection's announced end at which its replacement becomes due."""


LEAVING_LIMIT = 1.0
"""Seconds that the events of a connection may take to end once it is closed."""

ReplacedFor: TypeAlias = Literal["limit", "lost", "update"]


class ReconnectingModel(ReconnectingStream[GuardedConnection, RealtimeEvent]):
    """Keeps one session connected.

    Args:
        setup: Returns the present settings for a connection, given the handle to resume by.
        on_event: Called with the events of connections, except those that this class handles.
        on_replaced: Called for each connection but the first, with the seconds without one and the reason.
        clock, retries, open_limit, on_failure: As for ReconnectingStream.
    """

    def __init__(
        self,
        model: RealtimeModel,
        *,
        setup: Callable[[str], RealtimeSetup],
        on_event: Callable[[RealtimeEvent], None],
        on_replaced: Callable[[float, ReplacedFor], None],
        on_failure: Callable[[ProviderError, bool], None],
        clock: Clock,
        retries: RetryOptions,
        open_limit: float,
    ) -> None:
        super().__init__(
            model.provider, EVENTS, clock=clock, retries=retries, open_limit=open_limit, on_failure=on_failure
        )
        self._model = model
        self._setup = setup
        self._on_event = on_event
        self._on_replaced = on_replaced
        self._opened_with: dict[GuardedConnection, RealtimeSetup] = {}
        # Setups of connections still opening; changes made meanwhile are sent once they are open.
        self.known: set[str] = set()
        """Ids of calls and items of answers that the present connection has made."""
        self._audio = KeptAudio(KEPT_SECONDS, dropping("realtime_model"))
        self._resume = ""
        self._next: GuardedConnection | None = None
        self._replaced: GuardedConnection | None = None
        self._left: tuple[float, ReplacedFor] | None = None
        self._items = TurnItems()
        self._busy = 0
        self._is_due = self._must_replace = False
        self._has_given_up = False
        self._changed = anyio.Event()
        self._timer: TimerHandle | None = None
        self.is_user_silent = True
        """Whether the open turn has no speech yet."""
        self.connection: GuardedConnection | None = None

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Stay connected until cancelled.

        Raises:
            ProviderError: The first connection cannot be opened.
        """
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._replace_when_due)
                await super().run(task_status=task_status)
        except ExceptionGroup as failures:
            raise first_error(failures) from failures
        finally:
            self._set_timer(None)
            await self._close_next()

    async def live(self) -> GuardedConnection:
        """Return the connection, once one is up to date. The caller bounds the wait.

        Raises:
            ProviderConnectionError: No try is left.
        """
        while self.connection is None or (self._is_due and self._must_replace):
            if self._has_given_up:
                problem = "not connected, and no try is left"
                raise ProviderConnectionError(problem, provider=self._provider, retryable=False)
            await self._change()
        return self.connection

    # --- the conversation

    def push(self, frame: AudioFrame) -> None:
        """Take the caller's next frame."""
        self._audio.push(frame, is_heard=self.connection is not None)
        if self.connection is not None:
            self.connection.push(frame)

    def commit(self) -> None:
        """The turn is over: its audio is one item."""
        self._audio.commit(is_heard=self.connection is not None)
        if self.connection is not None:
            self.connection.commit()
        self._items.committed(is_told=self.connection is not None)

    def clear(self) -> None:
        """Forget the open turn's audio."""
        self._audio.clear()
        if self.connection is not None:
            self.connection.clear()
        self._delete(self._items.drop_open())

    def settle(self) -> None:
        """The words of the turn are known: a new connection receives them, and need not hear the audio."""
        self._audio.settle()

    def take_unheard(self) -> list[AudioFrame]:
        """Return and forget the audio of turns whose words are not known."""
        return self._audio.take()

    def show(self, frame: VideoFrame) -> None:
        """Show a current picture; without a model that takes video it is dropped."""
        if self.connection is not None and self.connection.capabilities.takes_video:
            self.connection.push_video(frame)

    def append(self, item: ChatItem) -> None:
        """Send an item that the model has neither heard nor said."""
        if self.connection is not None and self._is_news(item):
            self.connection.append(item)

    def bind(self, turn_id: str, last_item_id: str = "") -> None:
        """Assign the committed items to this turn, up to the item that the server named, if any."""
        self._items.bind(turn_id, last_item_id)

    def remove(self, turn_id: str, item_ids: Sequence[str]) -> None:
        """Remove a turn's audio from the remote conversation, and these items."""
        if self._items.is_last(turn_id):
            self._audio.settle()  # a new connection need not hear it either
        self._delete([*self._items.drop(turn_id), *item_ids])

    def _delete(self, item_ids: Sequence[str]) -> None:
        if self.connection is not None and self.connection.capabilities.deletes:
            for item_id in item_ids:
                self.connection.delete(item_id)

    @contextmanager
    def answering(self) -> Iterator[set[str]]:
        """Keep the connection while an answer is streamed; give the ids of calls and items that it has made.

        If it is lost in the meantime, the rest of the answer is not of the next connection.
        """
        self._busy += 1
        try:
            yield self.known
        finally:
            self._busy -= 1
            self._notify()

    # --- replacing

    def user_is(self, *, silent: bool) -> None:
        """Note whether the user has said anything since the last commit."""
        if silent != self.is_user_silent:
            self.is_user_silent = silent
            self._notify()

    def replace(self) -> None:
        """The connection is out of date: the next answer must use a new one."""
        self._is_due = self._must_replace = True
        self._notify()

    async def _replace_when_due(self) -> None:
        while True:
            while not (self._is_due and self.connection is not None and not self._busy and self.is_user_silent):
                await self._change()
            must = self._must_replace
            try:
                self._next = await self._open_in_time()
            except ProviderError as error:
                logger.warning("No connection to replace the one that ends: %s", describe(error))
                self._on_failure(error, True)
                self._is_due, self._must_replace = True, must
                await self._change()  # the old one serves on, until something else happens
                continue
            if self._busy or not self.is_user_silent or self.connection is None:
                await self._close_next()
                self._is_due, self._must_replace = True, must
                continue
            await self._leave_for_next(self.connection, "update" if must else "limit")

    async def _leave_for_next(self, old: GuardedConnection, reason: ReplacedFor) -> None:
        self._replaced, self._left = old, (self._clock.now(), reason)
        self.connection = None  # audio waits for the next one
        await self._close(old)  # which ends its events
        with anyio.move_on_after(LEAVING_LIMIT):
            await self._next_taken()
        if self._next is not None:
            problem = f"the events did not end within {LEAVING_LIMIT:g} s of the connection's close; it was left"
            error = ProviderTimeoutError(problem, provider=self._provider)
            logger.warning("%s", error)
            self._on_failure(error, True)
            self._leave()
            await self._next_taken()

    async def _next_taken(self) -> None:
        while self._next is not None:
            await self._change()

    async def _close_next(self) -> None:
        connection, self._next = self._next, None
        if connection is not None:
            del self._opened_with[connection]
            await self._close(connection)

    async def _change(self) -> None:
        changed = self._changed
        await changed.wait()

    def _notify(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def _end_in(self, seconds: float | None) -> None:
        self._set_timer(None if seconds is None else self._clock.now() + max(0.0, seconds))

    def _set_timer(self, when: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if when is None else self._clock.call_at(when, self._on_time)

    def _on_time(self) -> None:
        self._is_due = True
        self._notify()

    # --- for ReconnectingStream

    async def _open(self) -> GuardedConnection:
        if self._next is not None:
            connection, self._next = self._next, None
            return connection
        self._is_due = self._must_replace = False
        setup = self._setup(self._resume)
        setup = replace(setup, history=ChatContext([item for item in setup.history if _is_sent(item)]))
        connection = GuardedConnection(await self._model.open(setup), self._model, self._on_broken)
        self._opened_with[connection] = setup
        return connection

    def _on_broken(self, connection: GuardedConnection, error: Exception) -> None:
        if connection is self.connection:
            self._break(error)

    def _begin(self, stream: GuardedConnection) -> None:
        self.connection = stream
        self.known = set()
        self._bring_up_to_date(stream)
        self._items.begin(has_last=self._audio.send_to(stream, also_heard=self._replaced is None))
        limit = stream.capabilities.max_seconds
        self._end_in(None if limit is None else limit * RENEWAL_SHARE)
        self._replaced = None
        if self._left is not None:
            (at, reason), self._left = self._left, None
            self._on_replaced(self._clock.now() - at, reason)
        self._notify()

    def _take(self, event: RealtimeEvent) -> None:
        if isinstance(event, RealtimeResumable):
            self._resume = event.handle
        elif isinstance(event, RealtimeEnding):
            self._end_in(event.seconds_left - RENEWAL_MARGIN)
        else:
            if isinstance(event, RealtimeTranscript) and event.is_final and event.role == "user":
                self.settle()
            elif isinstance(event, RealtimeInputCommitted):
                if not self._audio.has_turn:
                    self._audio.clear()
                if not self._items.named(event.item_id):
                    self._delete([event.item_id])
            self._on_event(event)

    def _end(self) -> None:
        if self._left is None:
            self._left = (self._clock.now(), "lost")
        self.connection = None
        self._set_timer(None)

    def _give_up(self) -> None:
        self._has_given_up = True
        self._notify()

    def _is_replaced(self, stream: GuardedConnection) -> bool:
        return stream is self._replaced

    def _is_news(self, item: ChatItem) -> bool:
        return _is_sent(item) and not (isinstance(item, FunctionCall) and item.call_id in self.known)

    def _bring_up_to_date(self, stream: GuardedConnection) -> None:
        """Send the changes since the connection was requested; the connection before it may have received them."""
        then, now = self._opened_with.pop(stream), self._setup("")
        if (then.instructions, then.tools) != (now.instructions, now.tools):
            if stream.capabilities.updates:
                stream.update(now.instructions, now.tools)
            else:
                self.replace()
        requested = {item.id for item in then.history}
        for item in now.history:
            if item.id not in requested and _is_sent(item):
                stream.append(item)


def _is_sent(item: ChatItem) -> bool:
    """Whether a model receives the item; a user's message without words is audio whose transcript has not come."""
    if isinstance(item, ChatMessage):
        return bool(item.content or item.images)
    return isinstance(item, FunctionCall | FunctionCallOutput)
