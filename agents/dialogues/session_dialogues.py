"""SessionDialogues: the dialogues of one session: sends, receives and judges messages, and runs the handlers.

A message is judged twice, by both sides' own copy of the conversation, before anything changes: the sender raises for
its own mistake, the receiver answers with a rejection. Both copies move with the message; the sender's moves first, so
that an answer finds it there, and moves back if the message did not arrive.

The session's snapshots have the conversations. A message is acknowledged when the session's store has it, and an own
one leaves when the store has it: a session that is resumed knows both, and sends the second again if it does not know
how its delivery ended. It has the position that it had, by which its receiver knows that it has come before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from vivavoce.agents import events as ev
from vivavoce.agents.core.application_code import application_code
from vivavoce.agents.core.message_channel import Envelope, MessageChannel, MessageStatus
from vivavoce.agents.dialogues.context import DialogueContext
from vivavoce.agents.dialogues.conversations import Conversation, Conversations, Ended, Kept, Removed
from vivavoce.agents.dialogues.delivery import MAX_MESSAGE, envelope_of, text_of, too_long, within_limit
from vivavoce.agents.dialogues.dialogue import Dialogue, DialogueControl, checked_message
from vivavoce.agents.dialogues.edge import Edge
from vivavoce.agents.dialogues.handlers import MAX_WAITING, Handlers
from vivavoce.agents.dialogues.saved import (
    Times,
    changed_error,
    conversations_of,
    dialogue_data,
    ended_of,
    saved_dialogues,
)
from vivavoce.agents.dialogues.structure import DialogueStructure
from vivavoce.agents.extension.extension import Attached
from vivavoce.pipelines.core.checks import check_text, shown
from vivavoce.pipelines.core.clock import TimerHandle
from vivavoce.pipelines.core.errors import ConfigurationError, SessionClosedError, SessionError, VoiceError
from vivavoce.pipelines.core.ids import new_id

if TYPE_CHECKING:
    from pydantic import BaseModel

    from vivavoce.agents.extension.extension import Host

logger = logging.getLogger(__name__)

T = TypeVar("T")

SOURCE = "dialogues"
"""The source of `error` events."""
KEEP_LIMIT = 0.5
"""Seconds that a message waits for the session's store."""
SEND_AGAIN_LIMIT = 60.0
"""Seconds in which a resumed session sends a message again whose delivery was cut, after pauses of 1 to 8 s."""
MAX_DOUBTFUL = 1000
"""First messages whose delivery failed, and whose conversations are remembered."""


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
        self._host = host
        self._context = host.context
        self._channel = channel
        self._controls: dict[str, DialogueControl] = {}
        for dialogue in dialogues:
            control = DialogueControl.of(dialogue)
            control.check()
            if control.structure.digest in self._controls:
                raise ConfigurationError(f"a session needs each dialogue once, got {shown(dialogue)} twice")
            self._controls[control.structure.digest] = control
        self._id = ""
        self._is_open = False
        self._handlers = Handlers(
            host.context, self, limit=limit or host.hook_timeout, source=SOURCE, changed=host.changed
        )
        self._doubtful: dict[tuple[str, str, str], str] = {}
        """Ids of conversations whose first message may have arrived though its delivery failed, by dialogue, receiver
        and content: the same message begins the same conversation, if it is sent again."""
        self._resumed: object = None
        """The data of a snapshot that is to be continued; None without it, and after `begin()`."""
        self._begun: list[tuple[DialogueStructure, Conversations]] = []
        """The conversations of this session, since `begin()`."""
        self._timer: TimerHandle | None = None

    # --- life

    @property
    def has_work(self) -> bool:
        """Whether the session has joined its channel, or is joining it."""
        return self._is_open

    async def begin(self) -> None:
        """Join the channel, and go on with the conversations of a snapshot.

        Raises:
            SessionError: A dialogue serves another session, or the channel did not answer in time.
            ConfigurationError: The channel has another member with the id of the session's agent.
        """
        if not self._controls:
            self._restore()
            return
        self._id = self._context.live.agent.id
        for control in self._controls.values():
            control.serve(self._context.session, self)
            self._begun.append((control.structure, control.conversations))
        self._restore()
        self._is_open = True
        assert self._channel is not None, "DialogueOptions gives dialogues a channel"
        await within_limit(self._channel.join(self))
        self._context.inbox.call(self._go_on)  # which begins tasks

    async def aclose(self) -> None:
        """Leave the channel. Handlers that run go on; messages that wait for their handlers are left to a session that
        resumes this one."""
        self._is_open = False
        self._arm(None)
        self._handlers.drop_waiting()
        assert self._channel is not None, "begin() was called"
        await within_limit(self._channel.leave(self))

    def release(self) -> None:
        """Free the dialogues for another session."""
        for control in self._controls.values():
            control.detach(self._context.session)

    # --- snapshots

    def take(self) -> Callable[[], Any] | None:
        """Take the conversations as they are now. None without any."""
        if self._resumed is not None:
            return partial(_unchanged, self._resumed)
        times = Times(self.now(), self._context.clock.wall())
        taken = [(structure, *conversations.taken()) for structure, conversations in self._begun]
        taken = [one for one in taken if one[1] or one[2]]
        return partial(_data_of, taken, times) if taken else None

    def check_taken(self, data: Any) -> None:
        """Check that `restore()` can take that data.

        Raises:
            ConfigurationError: It is none of `take()`.
        """
        saved_dialogues(data)

    def restore(self, data: Any) -> None:
        """Go on with the conversations of a snapshot, from `begin()` on."""
        self._resumed = data

    def _restore(self) -> None:
        data, self._resumed = self._resumed, None
        times = Times(self.now(), self._context.clock.wall())
        for saved in [] if data is None else saved_dialogues(data):
            if (control := self._controls.get(saved.digest)) is not None:
                conversations, errors = conversations_of(saved, control.structure, times)
                control.conversations.restore(conversations, ended_of(saved, times))
            else:
                now = {one.structure.name: digest for digest, one in self._controls.items()}.get(saved.name)
                errors = [changed_error(saved, now)] if saved.conversations else []
            for error in errors:
                self._context.report_error(error, SOURCE)

    def _go_on(self) -> None:
        """Go on with the messages at which the earlier session was at work."""
        for control in self._controls.values():
            for session_id, conversation in control.conversations.open_work():
                for kept in conversation.waiting:
                    self._handlers.take((control, session_id), kept)
                for kept in conversation.sending:
                    name = f"message of the dialogue {control.structure.name!r}"
                    self._context.group.start_soon(self._send_again, control, session_id, kept, name=name)
        self._rearm()

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
                self._host.changed()
            return envelope.status("delivered")
        return self._take(control, envelope)

    def _take(self, control: DialogueControl, envelope: Envelope) -> MessageStatus:
        session_id, conversations = envelope.session_id, control.conversations
        if not session_id:
            return envelope.status("rejected", "a conversation needs an id")
        if (size := len(envelope.content.encode(errors="replace"))) > MAX_MESSAGE:
            return envelope.status("rejected", too_long(size))
        place = control, session_id
        again = conversations.repeated(session_id, envelope.sender, envelope.position, envelope.model, envelope.content)
        if again is not None:
            if isinstance(again, Kept) and conversations.waits(session_id, again):
                if not self._handlers.has(place, again):  # its answer did not arrive
                    self._handlers.take(place, again)
            return envelope.status("delivered")
        expectation = conversations.expectation(session_id)
        edge = conversations.next_edge(session_id, envelope.model)
        if edge is None:
            return envelope.status("rejected", expectation)
        if self._handlers.is_full(place):
            return envelope.status("failed", f"{MAX_WAITING} messages of the conversation wait for their handlers")
        content = self._read(edge, envelope.content)
        if content is None:
            return envelope.status("rejected", f"{expectation}; the content does not fit its schema")
        message = control.message(content, envelope.sender, self._id)
        kept = conversations.receive(session_id, message, envelope.content, envelope.position, edge)
        self._rearm()
        self._host.changed()
        self._handlers.take(place, kept)
        return envelope.status("delivered")

    async def kept(self) -> None:
        """Wait until the session's stores have all messages that were taken, for a short time."""
        await self._host.kept(KEEP_LIMIT)

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

    # --- sending

    def context(self, control: DialogueControl, session_id: str) -> DialogueContext:
        """Return the context of a conversation."""
        messages = partial(control.conversations.messages, session_id)
        return DialogueContext(self._context.session, session_id, messages, partial(self.send, control, session_id))

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
        speakers = [one for one in await within_limit(channel.speakers(structure.digest)) if one != self._id]
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
        text = text_of(content)
        statuses: list[MessageStatus] = []
        for receiver in receivers:
            session_id = self._doubtful.pop((structure.digest, receiver, text), "")
            if not session_id or control.conversations.peer(session_id) is not None:
                session_id = new_id("dialogue")
            statuses.append(await self._deliver(control, session_id, receiver, content, text))
        return statuses

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
        return await self._deliver(control, session_id, destination, content, text_of(content))

    async def _deliver(
        self, control: DialogueControl, session_id: str, destination: str, content: BaseModel, text: str
    ) -> MessageStatus:
        conversations, structure = control.conversations, control.structure
        answered = self._handlers.at_work((control, session_id))
        answers = None if answered is None else answered.kept
        kept = conversations.send(session_id, control.message(content, self._id, destination), text, answers)
        self._rearm()
        self._host.changed()
        status: MessageStatus | None = None
        try:
            await self._host.kept(KEEP_LIMIT)
            status = await self._through_channel(envelope_of(structure, session_id, kept))
        finally:  # also if the calling code is cut
            has_arrived = status is not None and status.status == "delivered"
            if has_arrived:
                conversations.delivered(session_id, kept)
            else:
                self._take_back(control, session_id, kept)
            if answered is not None:
                answered.note_answer(has_arrived=has_arrived)
            self._host.changed()
        if not has_arrived:
            logger.warning(
                "A message of the dialogue %r to %r was not delivered: %s", structure.name, destination, status.detail
            )
            await self._host.kept(KEEP_LIMIT)
        return status

    def _take_back(self, control: DialogueControl, session_id: str, kept: Kept) -> None:
        conversations = control.conversations
        conversations.take_back(session_id, kept)
        self._rearm()
        if conversations.peer(session_id) is None:
            self._doubtful[control.structure.digest, kept.message.receiver, kept.text] = session_id
            while len(self._doubtful) > MAX_DOUBTFUL:
                del self._doubtful[next(iter(self._doubtful))]

    async def _send_again(self, control: DialogueControl, session_id: str, kept: Kept) -> None:
        """Send a message again whose delivery was cut by the end of the earlier session."""
        conversations, pause, until = control.conversations, 1.0, self.now() + SEND_AGAIN_LIMIT
        with self._context.closing.cuts(anyio.CancelScope()):
            while True:
                status = await self._through_channel(envelope_of(control.structure, session_id, kept))
                if status.status != "failed" or self.now() >= until or conversations.peer(session_id) is None:
                    break
                await anyio.sleep(pause)
                pause = min(2 * pause, 8.0)
            if status.status == "delivered":
                conversations.delivered(session_id, kept)
            elif conversations.peer(session_id) is not None:
                self._take_back(control, session_id, kept)
                error = SessionError(
                    f"a message of the dialogue {control.structure.name!r} to {kept.message.receiver!r}, which was on "
                    f"its way as the earlier session ended, was not delivered: {status.detail}"
                )
                self._context.report_error(error, SOURCE)
            self._host.changed()

    async def _through_channel(self, envelope: Envelope) -> MessageStatus:
        assert self._channel is not None, "begin() was called"
        try:
            return await within_limit(self._channel.deliver(envelope))
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
        self._context.inbox.on_loop(self._changed)

    def _changed(self) -> None:
        self._rearm()
        self._host.changed()

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
        self._changed()

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


def _unchanged(data: object) -> object:
    return data


def _data_of(
    taken: Sequence[tuple[DialogueStructure, dict[str, Conversation], dict[str, Ended]]], times: Times
) -> dict[str, Any]:
    return {"dialogues": [dialogue_data(*one, times) for one in taken]}
