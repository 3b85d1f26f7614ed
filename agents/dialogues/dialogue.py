"""Dialogue: two agents exchange messages in an order that is checked. Names as in uAgents."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from vivavoce.agents.agent import Membership
from vivavoce.agents.core.application_code import application_code
from vivavoce.agents.core.message_channel import MessageStatus
from vivavoce.agents.core.names import checked_name
from vivavoce.agents.dialogues.context import DialogueContext
from vivavoce.agents.dialogues.conversations import Conversations, DialogueMessage
from vivavoce.agents.dialogues.edge import Edge, Handler, Message, Node, digest_of, is_model, set_model
from vivavoce.agents.dialogues.structure import DialogueStructure
from vivavoce.agents.session_type import Session
from vivavoce.pipelines.core.checks import check_number, check_text, control_of
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic import BaseModel

logger = logging.getLogger(__name__)

H = TypeVar("H", bound=Handler)


class Dialogue:
    """The order of messages between two agents, and the conversations of one session that keep to it.

    Give it to a session by `SessionOptions(dialogues=DialogueOptions(dialogues=(d,), channel=channel))`. It serves one
    session at a time; a session that is not resumed begins without conversations. Both agents need a dialogue with the
    same digest.

    A conversation starts with the edge without parent, else with the first edge out of the initial node. It moves along
    an edge when one of the two agents sends the message of that edge. The receiver then runs the edge handler, and
    after it the message handler. The messages of a conversation are handled one after the other.

    Messages travel as JSON; a `SecretStr` arrives masked, unless its model has a serializer for it.

    Conversations are in the session's snapshots: a session that is resumed goes on with those that have not ended.
    Where the session has a store, a message is acknowledged when the store has it. Handlers that a crash has cut run
    again, unless they have sent a message by then; so they do where that message did not arrive. A message whose
    delivery a crash has cut is sent again, for a minute, and the receiver takes it once. Times go on by wall time.

    A dialogue keeps at most 1,000 conversations, whatever its `timeout`: a further one removes the conversation that
    has been idle for longest, a finished one if there is any, with the event `dialogue_expired` on both sides.

    Below, `m` is a model, a message, or the digest of a model; an unknown one gives False.

    Args:
        name: For logs, errors and the digest.
        nodes: The states of a conversation.
        edges: The messages that lead from one node to another.
        timeout: Seconds without a message after which a conversation is removed, finished or not, with the event
            `dialogue_expired` on both sides; 0: never, so that only their number is limited.
    Raises:
        ConfigurationError: An argument is of another kind.
    """

    def __init__(self, name: str, nodes: Sequence[Node], edges: Sequence[Edge], *, timeout: float = 60.0) -> None:
        checked_name(name)
        check_number("timeout", timeout, at_least=0, unit="s", remedy="0 removes no conversation for its age")
        self._control = DialogueControl(DialogueStructure(name, nodes, edges), timeout)

    def __repr__(self) -> str:
        return f"Dialogue({self.name!r})"

    @property
    def name(self) -> str:
        """The name."""
        return self._control.structure.name

    @property
    def digest(self) -> str:
        """`dialogue:` and the sha256 over name, nodes, edges and schemas: the address of all who speak the dialogue."""
        return self._control.structure.digest

    # --- the order of messages

    @property
    def rules(self) -> dict[str, list[str]]:
        """The edges that may follow each edge, by name."""
        return self._control.structure.rules

    @property
    def is_cyclic(self) -> bool:
        """Whether a conversation may come back to a node."""
        return self._control.structure.is_cyclic

    def get_edge(self, name: str) -> Edge:
        """Return an edge.

        Raises:
            ConfigurationError: There is none of that name.
        """
        return self._control.structure.edge(name)

    def get_overview(self) -> dict[str, Any]:
        """Return the nodes and edges as JSON data."""
        return self._control.structure.overview

    def manifest(self) -> dict[str, Any]:
        """Return the dialogue as JSON data, for others who want to speak it: digest, schemas, replies, overview."""
        return self._control.structure.manifest

    def is_included(self, m: Message) -> bool:
        """Return whether an edge has that model."""
        return self._control.structure.is_included(m)

    def is_starter(self, m: Message) -> bool:
        """Return whether a conversation starts with `m`."""
        return self._control.structure.is_starter(m)

    def is_ender(self, m: Message) -> bool:
        """Return whether `m` leads to a node where no message may follow."""
        return self._control.structure.is_ender(m)

    def is_valid_reply(self, in_m: Message, out_m: Message) -> bool:
        """Return whether `out_m` may follow `in_m` on some edge."""
        return self._control.structure.is_valid_reply(in_m, out_m)

    def check(self) -> None:
        """Check nodes, edges and handlers; the session does it too. Warnings are logged.

        Raises:
            GraphError: There are faults; the error names all of them.
        """
        self._control.check()

    # --- conversations

    def is_valid_message(self, session_id: str, m: Message) -> bool:
        """Return whether `m` may come now in a conversation; in an unknown one, whether it starts one."""
        return self._control.conversations.may_come(_checked_id(session_id), m)

    def is_finished(self, session_id: str) -> bool:
        """Return whether no message may follow in a conversation."""
        return self._control.conversations.is_finished(_checked_id(session_id))

    def get_current_state(self, session_id: str) -> str:
        """Return the name of a conversation's node; "" if it is unknown."""
        return self._control.conversations.state(_checked_id(session_id))

    def update_state(self, m: Message, session_id: str) -> None:
        """Move a conversation along the edge of `m`. An unknown id begins a conversation. The session does it for its
        messages.

        Raises:
            ConfigurationError: It may not come now.
        """
        self._control.update(_checked_id(session_id), m)

    def add_message(self, session_id: str, message: BaseModel, sender: str, receiver: str) -> None:
        """Keep a message of a conversation. An unknown id begins a conversation. The session does it for its
        messages. A message that cannot be JSON is in no snapshot."""
        self._control.add(_checked_id(session_id), checked_message(message), sender, receiver)

    def get_conversation(self, session_id: str, message_filter: Message | None = None) -> list[DialogueMessage]:
        """Return the messages of a conversation in their order.

        Args:
            message_filter: Return those of one model only: the model, its name or its digest.
        """
        messages = self._control.conversations.messages(_checked_id(session_id))
        if message_filter is None:
            return messages
        digest = digest_of(message_filter)
        return [one for one in messages if digest in (one.model, digest_of(one.content))]

    def cleanup_conversation(self, session_id: str) -> None:
        """Forget a conversation, without an event; fine if it is unknown. The other agent's side of it stays."""
        self._control.remove(_checked_id(session_id))

    # --- in a session

    def on(self, edge_name: str, model: type[BaseModel]) -> Callable[[H], H]:
        """Decorate the message handler of an edge, which replaces the edge's own: `async f(ctx, sender, message)`.

        The edge handler still runs first.

        Raises:
            ConfigurationError: There is no such edge, or it has another model.
        """
        set_model(self._control.structure.edge(edge_name), model)

        def decorate(handler: H) -> H:
            self._control.handlers[edge_name] = handler
            return handler

        return decorate

    def get_sessions(self) -> list[str]:
        """Return the ids of the conversations that are there, those that have ended too, in the order of their
        begin."""
        return self._control.conversations.ids

    def get_context(self, session_id: str) -> DialogueContext:
        """Return the context of a conversation, by which code outside of its handlers sends its next message: after a
        call of a person, or in a session that was resumed.

        Raises:
            ConfigurationError: There is no such conversation.
            SessionNotStartedError, SessionClosedError: The dialogue's session does not run.
        """
        control, id = self._control, _checked_id(session_id)
        if control.conversations.peer(id) is None:
            raise ConfigurationError(f"{self!r} has no conversation {id!r}; get_sessions() lists them")
        return control.link.context(control, id)

    async def start_dialogue(self, destination: str, message: BaseModel) -> list[MessageStatus]:
        """Start a conversation with an agent on the session's channel, or one with each agent that speaks the dialogue.

        Args:
            destination: The id of an agent, or the digest of the dialogue.
            message: The first message.
        Returns:
            How each delivery ended, with the id of its conversation. Empty if no other agent speaks the dialogue.
        Raises:
            ConfigurationError: The message starts no conversation, or no such agent speaks the dialogue; nothing has
                left then.
            SessionNotStartedError, SessionClosedError: The dialogue's session does not run.
            SessionError: It was called on another event loop, or the channel failed or took too long.
        """
        return await self._control.link.start(self._control, destination, message)


class DialogueLink(Protocol):
    """The session's side of its dialogues."""

    def now(self) -> float:
        """Return the time of the session's clock."""
        ...

    def call(self, change: Callable[[], object]) -> None:
        """Change a conversation on the session's event loop; a call from another thread waits for that."""
        ...

    def context(self, control: DialogueControl, session_id: str) -> DialogueContext:
        """Return the context of a conversation."""
        ...

    async def start(self, control: DialogueControl, destination: str, message: BaseModel) -> list[MessageStatus]:
        """Start conversations."""
        ...


class DialogueControl(Membership):
    """The session's side of a dialogue: structure, handlers, conversations."""

    def __init__(self, structure: DialogueStructure, timeout: float) -> None:
        super().__init__("dialogue", lambda: f"the dialogue {structure.name!r}")
        self.structure = structure
        self.handlers: dict[str, Handler] = {}
        """The message handlers that `Dialogue.on()` has set, by the names of their edges."""
        self.conversations = Conversations(structure, timeout)
        self._timeout = timeout
        self._link: DialogueLink | None = None

    @staticmethod
    def of(dialogue: Dialogue) -> DialogueControl:
        """Return the control of that dialogue.

        Raises:
            ConfigurationError: Its class does not call the constructor of `Dialogue`.
        """
        return control_of(dialogue, "_control", DialogueControl, "name, nodes, edges")

    def check(self) -> None:
        """Check nodes, edges and handlers.

        Raises:
            GraphError: There are faults.
        """
        for warning in self.structure.check(self.handlers):
            logger.warning("%s", warning)

    def serve(self, session: Session, link: DialogueLink) -> None:
        """Let the dialogue serve a session, without conversations, until `detach()`.

        Raises:
            SessionError: It serves another session.
        """
        self.attach(session)
        self._link = link
        self.conversations = Conversations(self.structure, self._timeout)

    def detach(self, session: Session) -> None:
        """Free the dialogue for another session, if it serves this one. Its conversations stay readable."""
        if self.is_in_session and self.session is session:
            self._link = None
        super().detach(session)

    @property
    def link(self) -> DialogueLink:
        """The session's side.

        Raises:
            SessionNotStartedError, SessionClosedError: It serves no session.
        """
        if self._link is None:
            self.session  # noqa: B018 - raises and says why
        assert self._link is not None
        return self._link

    def handlers_of(self, edge: Edge) -> list[tuple[str, Handler]]:
        """Return the handlers of an edge and their kinds, in the order in which they run."""
        found = (("edge", edge.efunc), ("message", self.handlers.get(edge.name, edge.func)))
        return [(kind, handler) for kind, handler in found if handler is not None]

    # --- conversations that the application writes

    def update(self, session_id: str, message: Message) -> None:
        """Move a conversation."""
        self._call(lambda: self.conversations.move(session_id, message, self._now()))

    def add(self, session_id: str, message: BaseModel, sender: str, receiver: str) -> None:
        """Keep a message."""
        text = _json_of(message)
        self._call(lambda: self.conversations.add(session_id, self.message(message, sender, receiver), text))

    def remove(self, session_id: str) -> None:
        """Forget a conversation."""
        self._call(lambda: self.conversations.remove(session_id))

    def message(self, content: BaseModel, sender: str, receiver: str) -> DialogueMessage:
        """Return a message to be kept, sent now."""
        return DialogueMessage(
            model=type(content).__name__, content=content, sender=sender, receiver=receiver, at=self._now()
        )

    def _now(self) -> float:
        return 0.0 if self._link is None else self._link.now()

    def _call(self, change: Callable[[], object]) -> None:
        if self._link is None:
            change()
        else:
            self._link.call(change)


def checked_message(message: object) -> BaseModel:
    """Check a message and return it.

    Raises:
        ConfigurationError: It is no object of a model.
    """
    if isinstance(message, type) or not is_model(type(message)):
        got = f"the class {message.__name__}" if isinstance(message, type) else f"a {type(message).__name__}"
        raise ConfigurationError(f"need a message as an object of a pydantic model, got {got}")
    return message  # type: ignore[return-value]  # is_model() has looked at its class


def _json_of(message: BaseModel) -> str:
    """Return a message as JSON, or "" if it cannot be JSON."""
    name = f"serializers of the model {type(message).__name__}"
    try:
        with application_code(name):
            return message.model_dump_json(by_alias=False, round_trip=True)
    except Exception as error:  # noqa: BLE001 - a model's code, whose error may quote the content
        logger.warning("The %s failed: no snapshot has its message: %s", name, type(error).__name__)
        return ""


def _checked_id(session_id: str) -> str:
    if not (checked := check_text("session_id", session_id)):
        raise ConfigurationError("need session_id as the id of a conversation, got ''")
    return checked
