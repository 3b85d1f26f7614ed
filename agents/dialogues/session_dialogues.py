"""SessionDialogues: the dialogues of one session: sends, receives and judges messages, and runs the handlers.

A message is judged twice, by both sides' own copy of the conversation, before anything changes: the sender raises for
its own mistake, the receiver answers with a rejection. Both copies move with the message; the sender's moves first, so
that an answer finds it there, and moves back if the message did not arrive.

Handlers run in a task for each conversation that has messages waiting.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio

from vivavoce.agents import events as ev
from vivavoce.agents.core.application_code import application_code
from vivavoce.agents.core.message_channel import Envelope, MessageChannel, MessageStatus
from vivavoce.agents.dialogues.context import DialogueContext
from vivavoce.agents.dialogues.conversations import Removed
from vivavoce.agents.dialogues.dialogue import Dialogue, DialogueControl, checked_message
from vivavoce.agents.dialogues.edge import Edge, Handler
from vivavoce.agents.extension.extension import Attached
from vivavoce.pipelines.core.checks import awaited, check_text, shown
from vivavoce.pipelines.core.clock import TimerHandle
from vivavoce.pipelines.core.errors import ConfigurationError, SessionClosedError, SessionError, VoiceError, describe
from vivavoce.pipelines.core.ids import new_id

if TYPE_CHECKING:
    from pydantic import BaseModel

    from vivavoce.agents.extension.extension import Host

logger = logging.getLogger(__name__)

T = TypeVar("T")

SOURCE = "dialogues"
"""The source of `error` events."""
CHANNEL_LIMIT = 10.0
"""Seconds for one call of the channel."""
MAX_MESSAGE = 1_000_000
"""Bytes of one message as JSON: with its envelope, a frame between processes has at most 1 MiB."""
MAX_WAITING = 64
"""Messages of one conversation that may wait for its handlers."""


@dataclass(frozen=True, slots=True)
class _Received:
    """A message that waits for its handlers."""

    edge: Edge
    sender: str
    content: BaseModel


class SessionDialogues(Attached):
    """The dialogues of one session, a member of its channel.

    Raises:
        GraphError: A dialogue has faults.
        ConfigurationError: Two dialogues are the same.
    """

    close_after = "on_exit"

    def __init__(
        self, host: Host, dialogues: Sequence[Dialogue], channel: MessageChannel | None, *, limit: float | None
    ) -> None:
        self._context = host.context
        self._channel = channel
        self._limit = limit or host.hook_timeout
        self._controls: dict[str, DialogueControl] = {}
        for dialogue in dialogues:
            control = DialogueControl.of(dialogue)
            control.check()
            if control.structure.digest in self._controls:
                raise ConfigurationError(f"a session needs each dialogue once, got {shown(dialogue)} twice")
            self._controls[control.structure.digest] = control
        self._id = ""
        self._is_open = False
        self._waiting: dict[tuple[str, str], deque[_Received]] = {}
        """Messages that wait for their handlers, by dialogue and conversation; the first one is at work."""
        self._timer: TimerHandle | None = None

    # --- life

    @property
    def has_work(self) -> bool:
        """Whether the session has joined its channel, or is joining it."""
        return self._is_open

    async def begin(self) -> None:
        """Join the channel.

        Raises:
            SessionError: A dialogue serves another session, or the channel did not answer in time.
            ConfigurationError: The channel has another member with the id of the session's agent.
        """
        if not self._controls:
            return
        self._id = self._context.live.agent.id
        for control in self._controls.values():
            control.serve(self._context.session, self)
        self._is_open = True
        assert self._channel is not None, "DialogueOptions gives dialogues a channel"
        await _within_limit(self._channel.join(self))

    async def aclose(self) -> None:
        """Leave the channel. Handlers that run go on; messages that wait for their handlers are dropped."""
        self._is_open = False
        self._arm(None)
        for waiting in self._waiting.values():
            while len(waiting) > 1:
                waiting.pop()
        assert self._channel is not None, "begin() was called"
        await _within_limit(self._channel.leave(self))

    def release(self) -> None:
        """Free the dialogues for another session."""
        for control in self._controls.values():
            control.detach(self._context.session)

    # --- the member of the channel

    @property
    def id(self) -> str:
        """Id of the agent that the session has started with."""
        return self._id

    @property
    def digests(self) -> frozenset[str]:
        """The digests of the session's dialogues."""
        return frozenset(self._controls)

    def receive(self, envelope: Envelope) -> MessageStatus:
        """Take or reject a message; its handlers run soon."""
        control = self._controls.get(envelope.dialogue)
        if control is None:
            return envelope.status("rejected", f"the agent {self._id!r} does not speak this dialogue")
        if not self._is_open or self._context.closing.is_asked:
            return envelope.status("failed", f"the session of the agent {self._id!r} closes")
        peer = control.conversations.peer(envelope.session_id)
        if peer and peer != envelope.sender:
            return envelope.status("rejected", "the conversation is one of other agents")
        if envelope.kind == "expired":
            if peer is not None and (removed := control.conversations.remove(envelope.session_id)) is not None:
                self._note_expired(control, removed)
            return envelope.status("delivered")
        return self._take(control, envelope)

    def _take(self, control: DialogueControl, envelope: Envelope) -> MessageStatus:
        session_id, conversations = envelope.session_id, control.conversations
        if not session_id:
            return envelope.status("rejected", "a conversation needs an id")
        if (size := len(envelope.content.encode(errors="replace"))) > MAX_MESSAGE:
            return envelope.status("rejected", _too_long(size))
        place = envelope.dialogue, session_id
        expectation = conversations.expectation(session_id)
        edge = conversations.next_edge(session_id, envelope.model)
        if edge is None:
            return envelope.status("rejected", expectation)
        if len(self._waiting.get(place, ())) > MAX_WAITING:
            return envelope.status("failed", f"{MAX_WAITING} messages of the conversation wait for their handlers")
        content = self._read(edge, envelope.content)
        if content is None:
            return envelope.status("rejected", f"{expectation}; the content does not fit its schema")
        conversations.move(session_id, envelope.model, self.now(), envelope.sender)
        conversations.add(session_id, control.message(content, envelope.sender, self._id))
        self._rearm()
        waiting = self._waiting.setdefault(place, deque())
        waiting.append(_Received(edge, envelope.sender, content))
        if len(waiting) == 1:
            # By the inbox: the calling task is one of the sender's session, whose context the handlers must not get.
            self._context.inbox.call(partial(self._begin_handlers, control, place))
        return envelope.status("delivered")

    def _read(self, edge: Edge, content: str) -> BaseModel | None:
        """Return a content as an object of the edge's model; None if it does not fit."""
        from pydantic import ValidationError

        assert edge.model is not None, "edges without a model are never taken"
        name = f"validators of the model {edge.model.__name__}"
        try:
            with application_code(name):
                return edge.model.model_validate_json(content, by_alias=False, by_name=True)
        except ValidationError:
            return None
        except Exception as error:  # noqa: BLE001 - the user-callback boundary
            self._context.hooks.failed(name, error, SOURCE)
            return None

    # --- handlers

    def _begin_handlers(self, control: DialogueControl, place: tuple[str, str]) -> None:
        name = f"messages of the dialogue {control.structure.name!r}"
        self._context.group.start_soon(self._handle, control, place, name=name)

    async def _handle(self, control: DialogueControl, place: tuple[str, str]) -> None:
        waiting = self._waiting[place]
        context = DialogueContext(self, control, self._context.session, place[1])
        try:
            while waiting:
                await self._handle_one(control, context, waiting[0])
                waiting.popleft()
        finally:
            del self._waiting[place]

    async def _handle_one(self, control: DialogueControl, context: DialogueContext, received: _Received) -> None:
        for kind, handler in control.handlers_of(received.edge):
            title = f"{kind} handler of {received.edge.name!r} in the dialogue {control.structure.name!r}"
            run = self._context.hooks.start(
                "callback",
                title,
                partial(_call, title, handler, context, received),
                self._limit,
                "between its speeches",
                source=SOURCE,
            )
            await run.finish()
            if run.error is not None or run.is_cut:
                return

    # --- sending

    async def start(self, control: DialogueControl, destination: str, message: BaseModel) -> list[MessageStatus]:
        """Start conversations; see `Dialogue.start_dialogue()`."""
        structure, content = control.structure, checked_message(message)
        check_text("destination", destination, remedy="the id of an agent, or the digest of the dialogue")
        if not structure.is_starter(content):
            assert structure.starter is not None, "a checked dialogue has one"
            assert structure.starter.model is not None, "a checked edge has one"
            starter, got = structure.starter.model.__name__, type(content).__name__
            raise ConfigurationError(f"the dialogue {structure.name!r} starts with {starter}, got {got}")
        channel = self._ready()
        speakers = [one for one in await _within_limit(channel.speakers(structure.digest)) if one != self._id]
        if destination == structure.digest:
            receivers = speakers
        elif destination in speakers:
            receivers = [destination]
        else:
            others = ", ".join(map(repr, speakers)) or "no other agent"
            raise ConfigurationError(
                f"need the id of an agent that speaks the dialogue {structure.name!r}, or its digest, got the "
                f"destination {shown(destination)}; on the channel, {others} can be reached"
            )
        return [await self._deliver(control, new_id("dialogue"), receiver, content) for receiver in receivers]

    async def send(
        self, control: DialogueControl, session_id: str, destination: str, message: BaseModel
    ) -> MessageStatus:
        """Send a message of a conversation; see `DialogueContext.send()`."""
        content = checked_message(message)
        check_text("destination", destination, remedy="the agent that the conversation is with")
        self._ready()
        peer = control.conversations.peer(session_id)
        if peer is None:
            return MessageStatus(
                status="failed", destination=destination, session_id=session_id, detail="the conversation was removed"
            )
        if peer != destination:
            raise ConfigurationError(
                f"the conversation is with the agent {peer!r}, got the destination {shown(destination)}; "
                "start_dialogue() begins one with another agent"
            )
        return await self._deliver(control, session_id, destination, content)

    async def _deliver(
        self, control: DialogueControl, session_id: str, destination: str, content: BaseModel
    ) -> MessageStatus:
        text = content.model_dump_json(by_alias=False, round_trip=True)
        if (size := len(text.encode())) > MAX_MESSAGE:
            raise ConfigurationError(f"{_too_long(size)}; send a reference to it")
        conversations, structure = control.conversations, control.structure
        move = conversations.move(session_id, content, self.now(), destination)
        kept = control.message(content, self._id, destination)
        conversations.add(session_id, kept)
        self._rearm()
        envelope = Envelope(
            kind="message",
            dialogue=structure.digest,
            session_id=session_id,
            sender=self._id,
            receiver=destination,
            model=move.edge.digest,
            content=text,
        )
        has_arrived = False
        try:
            status = await self._through_channel(envelope)
            has_arrived = status.status == "delivered"
        finally:  # also if the calling code is cut
            if not has_arrived:
                conversations.take_back(session_id, move, kept)
                self._rearm()
        if not has_arrived:
            logger.warning(
                "A message of the dialogue %r to %r was not delivered: %s", structure.name, destination, status.detail
            )
        return status

    async def _through_channel(self, envelope: Envelope) -> MessageStatus:
        assert self._channel is not None, "begin() was called"
        try:
            return await _within_limit(self._channel.deliver(envelope))
        except VoiceError as error:
            self._context.report_error(error, SOURCE)
            return envelope.status("failed", str(error))

    def _ready(self) -> MessageChannel:
        """Return the channel, if the session can send now.

        Raises:
            SessionNotStartedError, SessionClosedError: It cannot.
            SessionError: The calling code is not on the session's event loop.
        """
        self._context.check_open()
        if not self._is_open:
            raise SessionClosedError("the session has left its channel, since it closes")
        if not self._context.inbox.is_here:
            raise SessionError("messages are sent on the session's event loop; this code runs in another thread")
        assert self._channel is not None, "begin() was called"
        return self._channel

    # --- time

    def now(self) -> float:
        """Return the time of the session's clock."""
        return self._context.clock.now()

    def call(self, change: Callable[[], object]) -> None:
        """Change a conversation on the session's event loop; a call from another thread waits for that."""
        self._context.inbox.result_of(change)
        self._context.inbox.on_loop(self._rearm)

    def _rearm(self) -> None:
        """Set the timer to the next conversation that will have been idle for too long; one was used or removed."""
        if self._is_open:
            deadlines = (control.conversations.next_deadline() for control in self._controls.values())
            self._arm(min((at for at in deadlines if at is not None), default=None))

    def _arm(self, deadline: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if deadline is None else self._context.clock.call_at(deadline, self._on_deadline)

    def _on_deadline(self) -> None:
        self._timer = None
        self._context.inbox.call(self._expire)  # which begins tasks

    def _expire(self) -> None:
        if not self._is_open:
            return
        for digest, control in self._controls.items():
            for removed in control.conversations.expire(self.now()):
                self._note_expired(control, removed)
                if removed.peer:
                    notice = Envelope(
                        kind="expired",
                        dialogue=digest,
                        session_id=removed.session_id,
                        sender=self._id,
                        receiver=removed.peer,
                    )
                    self._context.group.start_soon(self._through_channel, notice, name="notice of a dialogue")
        self._rearm()

    def _note_expired(self, control: DialogueControl, removed: Removed) -> None:
        self._context.log.note(
            ev.DialogueExpired,
            dialogue=control.structure.name,
            session_id=removed.session_id,
            peer=removed.peer,
            state=removed.state,
            is_finished=removed.is_finished,
        )
        self._rearm()


def _too_long(size: int) -> str:
    return f"a message may have {MAX_MESSAGE:,} bytes as JSON, got {size:,}"


async def _call(title: str, handler: Handler, context: DialogueContext, received: _Received) -> None:
    await awaited(title, handler(context, received.sender, received.content))


async def _within_limit(call: Awaitable[T]) -> T:
    """Return the result of a call of the channel, which is foreign code.

    Raises:
        VoiceError: The call raised that.
        SessionError: It raised another error, or took longer than `CHANNEL_LIMIT`.
    """
    try:
        with anyio.fail_after(CHANNEL_LIMIT):
            return await call
    except VoiceError:
        raise
    except TimeoutError as error:
        raise SessionError(f"the channel of the dialogues did not answer within {CHANNEL_LIMIT:g} s") from error
    except Exception as error:  # noqa: BLE001 - foreign code
        raise SessionError(f"the channel of the dialogues failed: {describe(error)}") from error
