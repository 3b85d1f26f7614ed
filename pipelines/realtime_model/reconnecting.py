"""ReconnectingModel: one session's conversation with a realtime model, over one or more connections.

Each connection receives everything once: the history when it is opened, the items that are added while it opens, and
the audio that came meanwhile. A connection whose time runs out, or that cannot take new instructions, is replaced in a
pause; the new one is opened before. The old one stays open behind it until the transcripts have come that it owes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal, TypeAlias

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskGroup, TaskStatus

from vivavoce.pipelines.core.changes import Changes
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
from vivavoce.pipelines.llm.base import Usage
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem, ChatMessage, FunctionCall, FunctionCallOutput
from vivavoce.pipelines.media.frame import AudioFrame, VideoFrame
from vivavoce.pipelines.realtime_model.base import RealtimeModel, RealtimeSetup
from vivavoce.pipelines.realtime_model.connection_reader import ConnectionReader
from vivavoce.pipelines.realtime_model.events import (
    RealtimeEnding,
    RealtimeEvent,
    RealtimeInputCommitted,
    RealtimeProblem,
    RealtimeReplyStarted,
    RealtimeResumable,
    RealtimeTranscript,
    RealtimeTurnEnded,
)
from vivavoce.pipelines.realtime_model.guarded import EVENTS, GuardedConnection
from vivavoce.pipelines.realtime_model.kept_audio import KeptAudio
from vivavoce.pipelines.realtime_model.turn_items import HeardItems, TurnItems

logger = logging.getLogger(__name__)

KEPT_SECONDS = 10.0
"""Audio of the open turn that is kept for the next connection."""
RENEWAL_SHARE = 0.9
"""Share of a connection's known length after which it is replaced in the next pause."""
RENEWAL_MARGIN = 10.0
"""Seconds before a connection's announced end at which its replacement becomes due."""

TRANSCRIPT_TIMEOUT = 1.0
"""Seconds for which the transcripts of a replaced connection are waited for, unless the session has another limit."""
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
        self._transcript_timeout: Callable[[], float] = lambda: TRANSCRIPT_TIMEOUT
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
        self._group: TaskGroup | None = None
        self._reader: ConnectionReader | None = None
        """Reads the present connection."""
        self._leaving: list[ConnectionReader] = []
        """Read connections that were replaced and still owe words."""
        self._late: list[ChatItem] = []
        """Messages whose words came while an answer was streamed."""
        self._is_unanswered = False
        """Whether no answer has been asked for since the last commit."""
        self._busy = 0
        self._is_due = self._must_replace = False
        self._has_given_up = False
        self._changes = Changes()
        self._timer: TimerHandle | None = None
        self.is_user_silent = True
        """Whether the open turn has no speech yet."""
        self.connection: GuardedConnection | None = None

    def wait_for_words(self, timeout: Callable[[], float]) -> None:
        """Have the transcripts that a replaced connection owes waited for: so many seconds at most."""
        self._transcript_timeout = timeout

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Stay connected until cancelled.

        Raises:
            ProviderError: The first connection cannot be opened.
        """
        try:
            async with anyio.create_task_group() as group:
                self._group = group
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
        while self.connection is None or self._must_replace:
            if self._has_given_up:
                problem = "not connected, and no try is left"
                raise ProviderConnectionError(problem, provider=self._provider, retryable=False)
            await self._changes.wait()
        return self.connection

    # --- the conversation

    def push(self, frame: AudioFrame) -> None:
        """Take the caller's next frame."""
        self._audio.push(frame, is_heard=self.connection is not None)
        if self.connection is not None:
            self.connection.push(frame)

    def commit(self) -> None:
        """The turn is over: its audio is one item."""
        for reader in self._leaving:  # its names would come behind that of this item
            self._give_up_names(reader)
        self._is_unanswered = True
        self._audio.commit(is_heard=self.connection is not None)
        self._items.committed(None if self.connection is None else self._heard)
        if self.connection is not None:
            self.connection.commit()

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

    def amend(self, item: ChatMessage) -> bool:
        """Send a message of the user that has got its words, unless the connection has heard it itself; return whether
        the connection has it as text.

        It waits for the end of an answer that is streamed, which it could interrupt.
        """
        if self.connection is not None and self._items.are_heard(item.turn_id, self._heard):
            return False
        if self._busy:
            self._late.append(item)
        else:
            self._send_amended(item)
        return True

    def _send_amended(self, item: ChatItem) -> None:
        self._delete([item.id])  # a part of its words may have been known before
        self.append(item)

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
        self._is_unanswered = False
        try:
            yield self.known
        finally:
            self._busy -= 1
            if not self._busy:
                late, self._late = self._late, []
                for item in late:
                    self._send_amended(item)
            self._changes.note()

    # --- replacing

    def user_is(self, *, silent: bool) -> None:
        """Note whether the user has said anything since the last commit."""
        if silent != self.is_user_silent:
            self.is_user_silent = silent
            self._changes.note()

    def replace(self) -> None:
        """The connection is out of date: the next answer must use a new one."""
        self._is_due = self._must_replace = True
        self._changes.note()

    async def _replace_when_due(self) -> None:
        while True:
            while not (self._is_due and self.connection is not None and not self._busy and self.is_user_silent):
                await self._changes.wait()
            must = self._must_replace
            try:
                self._next = await self._open_in_time()
            except ProviderError as error:
                logger.warning("No connection to replace the one that ends: %s", describe(error))
                self._on_failure(error, True)
                self._is_due = True
                await self._changes.wait()  # the old one serves on, until something else happens
                continue
            if self._busy or not self.is_user_silent or self.connection is None:
                await self._close_next()
                self._is_due = True
                continue
            await self._leave_for_next(self.connection, "update" if must else "limit")

    async def _leave_for_next(self, old: GuardedConnection, reason: ReplacedFor) -> None:
        assert self._group is not None
        assert self._reader is not None
        reader = self._reader
        self._replaced, self._left = old, (self._clock.now(), reason)
        self.connection = None  # audio waits for the next one
        if reader.heard.owes_words:
            self._leaving.append(reader)
            reader.leave(lambda event: self._take_late(reader, event))
            self._group.start_soon(self._retire, reader)
        else:
            await self._close_left(reader)
        await self._next_taken()

    async def _retire(self, reader: ConnectionReader) -> None:
        """Close a connection that was replaced, once it owes no words."""
        try:
            with anyio.move_on_after(self._transcript_timeout()):
                await reader.words_settled()
        finally:
            self._leaving.remove(reader)
            self._give_up_names(reader)
            await self._close_left(reader)

    async def _close_left(self, reader: ConnectionReader) -> None:
        await self._close(reader.connection)  # which ends its events
        with anyio.move_on_after(LEAVING_LIMIT):
            await reader.ended.wait()
        if not reader.ended.is_set():
            problem = f"the events did not end within {LEAVING_LIMIT:g} s of the connection's close; it was left"
            error = ProviderTimeoutError(problem, provider=self._provider)
            logger.warning("%s", error)
            self._on_failure(error, True)
            reader.stop()

    def _give_up_names(self, reader: ConnectionReader) -> None:
        for _ in range(reader.heard.give_up_names()):
            self._on_event(RealtimeInputCommitted(""))

    async def _next_taken(self) -> None:
        while self._next is not None:
            await self._changes.wait()

    async def _close_next(self) -> None:
        connection, self._next = self._next, None
        if connection is not None:
            del self._opened_with[connection]
            await self._close(connection)

    def _end_in(self, seconds: float | None) -> None:
        self._set_timer(None if seconds is None else self._clock.now() + max(0.0, seconds))

    def _set_timer(self, when: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if when is None else self._clock.call_at(when, self._on_time)

    def _on_time(self) -> None:
        self._is_due = True
        self._changes.note()

    # --- for ReconnectingStream

    async def _open(self) -> GuardedConnection:
        if self._next is not None:
            connection, self._next = self._next, None
            return connection
        self._is_due = False
        setup = self._setup(self._resume)
        setup = replace(setup, history=ChatContext([item for item in setup.history if _is_sent(item)]))
        connection = GuardedConnection(await self._model.open(setup), self._model, self._on_broken)
        self._opened_with[connection] = setup
        return connection

    def _on_broken(self, connection: GuardedConnection, error: Exception) -> None:
        if connection is self.connection:
            self._break(error)

    @property
    def _heard(self) -> HeardItems:
        """The items of the present connection."""
        assert self._reader is not None
        return self._reader.heard

    def _begin(self, stream: GuardedConnection) -> None:
        setup = self._opened_with[stream]
        heard = HeardItems(self._items.names, transcribes=setup.transcribe and stream.capabilities.sends_transcripts)
        self._reader = ConnectionReader(stream, self._provider, heard, take=self._take, on_end=self._end)
        self.connection = stream
        self.known = set()
        self._late = []
        self._must_replace = False
        self._bring_up_to_date(stream)
        also_heard = self._replaced is None or self._is_unanswered
        has_last = self._audio.send_to(stream, also_heard=also_heard)
        lost = self._items.begin(
            heard, has_last=has_last, is_resumed=bool(setup.resume), before=[one.heard for one in self._leaving]
        )
        for _ in range(lost):
            self._on_event(RealtimeInputCommitted(""))
        limit = stream.capabilities.max_seconds
        self._end_in(None if limit is None else limit * RENEWAL_SHARE)
        self._replaced = None
        if self._left is not None:
            (at, reason), self._left = self._left, None
            self._on_replaced(self._clock.now() - at, reason)
        self._changes.note()

    async def _read(self, stream: GuardedConnection) -> None:
        assert self._group is not None
        assert self._reader is not None
        reader = self._reader
        self._group.start_soon(reader.run)
        try:
            await reader.over.wait()
        finally:
            if not self._is_replaced(stream):
                reader.stop()
        if reader.error is not None:
            raise reader.error

    def _take(self, event: RealtimeEvent) -> None:
        self._has_reported = True
        if isinstance(event, RealtimeResumable):
            self._resume = event.handle
            self._items.saved()
        elif isinstance(event, RealtimeEnding):
            self._end_in(event.seconds_left - RENEWAL_MARGIN)
        elif isinstance(event, RealtimeInputCommitted):
            self._take_name(event)
        elif isinstance(event, RealtimeTranscript) and event.role == "user":
            self._take_words(self._heard, event)
        elif isinstance(event, RealtimeReplyStarted | RealtimeTurnEnded):
            self._on_event(replace(event, item_id=self._heard.known_as(event.item_id)))
        else:
            self._on_event(event)

    def _take_name(self, event: RealtimeInputCommitted) -> None:
        if not self._audio.has_turn:
            self._audio.clear()
        item, is_new = self._heard.name(event.item_id)
        self._items.named(item, event.item_id)
        if self._items.are_words_known:
            self.settle()
        if item.is_unwanted:
            self._delete([event.item_id])
        if is_new:  # else the session has its name since an earlier connection
            self._on_event(RealtimeInputCommitted(item.known_as))

    def _take_words(self, heard: HeardItems, event: RealtimeTranscript) -> None:
        known = heard.take(event)
        if known is not None:
            if self._items.are_words_known:
                self.settle()  # a new connection receives the words, and need not hear the audio
            self._on_event(known)

    def _take_late(self, reader: ConnectionReader, event: RealtimeEvent) -> None:
        """Take an event of a connection that was replaced: only the words that it owes are of use."""
        if isinstance(event, RealtimeTranscript) and event.role == "user":
            if reader.heard.has(event.item_id):
                self._take_words(reader.heard, event)
        elif isinstance(event, RealtimeInputCommitted):
            if reader.heard.awaits_names:
                item, is_new = reader.heard.name(event.item_id)
                if is_new:
                    self._on_event(RealtimeInputCommitted(item.known_as))
        elif isinstance(event, RealtimeTranscript | RealtimeProblem | Usage):
            self._on_event(event)
        elif isinstance(event, RealtimeReplyStarted):
            reader.connection.refuse(event.reply_id)

    def _end(self) -> None:
        if self._left is None:
            self._left = (self._clock.now(), "lost")
        self.connection = None
        self._set_timer(None)

    def _give_up(self) -> None:
        self._has_given_up = True
        self._changes.note()

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
        requested = {item.id: getattr(item, "content", "") for item in then.history}
        for item in now.history:
            if item.id not in requested:
                self.append(item)
            elif requested[item.id] != getattr(item, "content", ""):
                self._send_amended(item)


def _is_sent(item: ChatItem) -> bool:
    """Whether a model receives the item; a message without words is audio whose transcript has not come."""
    if isinstance(item, ChatMessage):
        return not item.no_transcript
    return isinstance(item, FunctionCall | FunctionCallOutput)
