"""TextTransport: a conversation in writing inside the process, for a program, a chat backend or a test."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.pipelines.core.errors import SessionClosedError, SessionNotStartedError
from vivavoce.pipelines.io import (
    AudioSink,
    PartMessage,
    SinkCapabilities,
    TranscriptSegment,
    Transport,
    TransportEvents,
)
from vivavoce.pipelines.media.frame import AudioFrame

if TYPE_CHECKING:
    from vivavoce.agents.records import TurnOutcome

MAX_UNREAD = 1000
"""Texts that wait for a reader; beyond that the oldest is lost."""


class InstantSink(AudioSink):
    """Plays everything in no time, since a reader need not wait for a voice."""

    @property
    def capabilities(self) -> SinkCapabilities:
        return SinkCapabilities()

    def write(self, frame: AudioFrame) -> None:
        """Count the frame as played."""

    def queued(self) -> int:
        return 0

    def clear(self) -> int:
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentText:
    """A piece of the agent's text.

    Args:
        turn_id: The turn that it belongs to, as in the records; empty for a part of a rich reply, which comes whole.
        text: The new characters. The pieces of a turn, joined, are its heard text.
        outcome: How the turn has ended, as in its record: nothing more comes of it. None: more may come.
    """

    turn_id: str
    text: str = field(repr=False)
    outcome: TurnOutcome | None = None

    @property
    def is_final(self) -> bool:
        """Whether nothing more comes of the turn."""
        return self.outcome is not None


@dataclass(slots=True)
class _Writing:
    """A turn whose text is being written: the text of each of its steps, by segment."""

    steps: dict[str, str] = field(default_factory=dict)

    def add(self, segment: TranscriptSegment) -> str:
        """Note the text of a step so far; return the new characters."""
        before = self.steps.get(segment.segment_id, "")
        self.steps[segment.segment_id] = segment.text
        if not segment.text.startswith(before):
            return ""  # a voice's estimate of its position was too far
        new = segment.text[len(before) :]
        return f" {new}" if new and not before and len(self.steps) > 1 else new

    @property
    def whole(self) -> str:
        """The text of the whole turn so far."""
        return " ".join(text for text in self.steps.values() if text)


_NOTHING = _Writing()


class TextTransport(Transport):
    """The user's texts go in, the agent's texts come out as they are written::

        chat = TextTransport()
        async with AgentSession(agent, CascadingPipeline(llm=llm)) as session:
            await session.start(chat)
            chat.send("a table for friday")
            answer = await chat.receive()

    `receive()` returns whole turns, `async for piece in chat` yields pieces: use one of the two. Texts wait until they
    are read: the pieces of a turn are joined meanwhile, and beyond 1,000 texts the oldest are lost.

    A text counts as heard when it was written. A text of the user interrupts an answer that is being written, as the
    caller's voice does. There is no sound: the voice of a pipeline with a tts is played in no time and is not heard.
    """

    identity = "user"
    """The participant's identity."""

    def __init__(self) -> None:
        self._sink = InstantSink()
        self._events: TransportEvents | None = None
        self._is_over = False
        self._writing: dict[str, _Writing] = {}
        self._unread: deque[tuple[AgentText, str]] = deque(maxlen=MAX_UNREAD)
        """Pieces, and with the last one of a turn the whole text of it."""
        self._came: anyio.Event | None = None

    # --- the user's side

    def send(self, text: str) -> None:
        """Send a text of the user. One that is sent while `start()` runs is answered after `on_enter`.

        Raises:
            SessionNotStartedError, SessionClosedError: No session reads it.
        """
        self._link.text(text)

    async def receive(self) -> AgentText:
        """Return the text of the next turn that ends, whole: of an answer, a `say` or a `reply`.

        A turn without words, such as one that a hook has stopped, has an empty text.

        Raises:
            SessionClosedError: The session is over, and no text is left.
        """
        while (taken := await self._next()) is not None:
            piece, whole = taken
            if piece.is_final:
                return replace(piece, text=whole)
        raise SessionClosedError("the session is over, and all its texts were read")

    def __aiter__(self) -> TextTransport:
        return self

    async def __anext__(self) -> AgentText:
        """Return the next piece; the iteration ends with the session."""
        taken = await self._next()
        if taken is None:
            raise StopAsyncIteration
        return taken[0]

    def end(self, reason: str = "the user has left") -> None:
        """End the conversation, which closes the session; fine if it is over."""
        if self._events is not None:
            self._events.closed(reason)

    @property
    def is_open(self) -> bool:
        """Whether a session reads the user's texts."""
        return self._events is not None

    @property
    def _link(self) -> TransportEvents:
        if self._events is not None:
            return self._events
        if self._is_over:
            raise SessionClosedError("the session is over; begin another one, with a transport of its own")
        raise SessionNotStartedError(f"no session reads this text; await session.start({type(self).__name__}()) first")

    async def _next(self) -> tuple[AgentText, str] | None:
        while not self._unread:
            if self._is_over:
                return None
            self._came = self._came or anyio.Event()
            await self._came.wait()
        return self._unread.popleft()

    # --- the session's side

    @property
    def sink(self) -> AudioSink:
        return self._sink

    async def run(self, events: TransportEvents, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        self._events = events
        try:
            task_status.started()
            events.participant_linked(self.identity)
            await anyio.Event().wait()
        finally:
            self._end()

    async def hangup(self) -> None:
        self.end("the agent has hung up")  # the user's program cannot be sent away: the conversation ends instead

    async def aclose(self) -> None:
        self._end()

    @property
    def wants_turn_records(self) -> bool:
        return True

    def send_transcript(self, segment: TranscriptSegment) -> None:
        if segment.who == "agent":
            new = self._writing.setdefault(segment.turn_id, _Writing()).add(segment)
            if new:
                self._put(AgentText(turn_id=segment.turn_id, text=new))

    def send_turn_record(self, json_text: str) -> None:
        record = json.loads(json_text)
        writing = self._writing.pop(record["turn_id"], _NOTHING)
        self._put(AgentText(turn_id=record["turn_id"], text="", outcome=record["outcome"]), writing.whole)

    def send_part(self, message: PartMessage) -> None:
        if message.plain:
            self._put(AgentText(turn_id="", text=message.plain, outcome="completed"), message.plain)

    def _put(self, piece: AgentText, whole: str = "") -> None:
        if self._unread and self._unread[-1][0].turn_id == piece.turn_id and not self._unread[-1][0].is_final:
            before, _ = self._unread.pop()
            piece = replace(piece, text=before.text + piece.text)
        self._unread.append((piece, whole))
        if self._came is not None:
            self._came.set()
            self._came = None

    def _end(self) -> None:
        self._events = None
        self._is_over = True
        if self._came is not None:
            self._came.set()
            self._came = None
