"""PeersControl: the peers of one session: its connections, and the handlers of the messages that come.

A handler runs in a task of the session, in the trace of the message. A request waits for it; a message is acknowledged
when its handler was asked for. A text without a handler is a turn of the user, or an event of the session's graph.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from vivavoce.agents import events as ev
from vivavoce.agents.core.hooks import Run
from vivavoce.agents.extension.extension import Attached, Judges
from vivavoce.agents.peers.dial import checked_url
from vivavoce.agents.peers.line import DialledLine, GivenLine
from vivavoce.agents.peers.link import Link
from vivavoce.agents.peers.messages import TEXT, named, packed, unpacked
from vivavoce.agents.peers.peer import Peer
from vivavoce.agents.peers.session_peers import SessionPeers
from vivavoce.agents.peers.texts import PeerText, TextTurns
from vivavoce.agents.peers.wire import Call, Delivery, Hello, Outcome, PeerWire
from vivavoce.agents.records import GraphEvent, TurnRecord
from vivavoce.agents.session_type import Session
from vivavoce.pipelines.core.checks import awaited, check_text, control_of, shown
from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    PeerRejected,
    PeerUnreachable,
    SessionClosedError,
    SessionError,
)
from vivavoce.pipelines.core.owned_tasks import OwnedTasks
from vivavoce.pipelines.core.trace_context import trace_headers, trace_of

if TYPE_CHECKING:
    from vivavoce.agents.extension.extension import Host
    from vivavoce.agents.extension.turn_in_hand import TurnInHand
    from vivavoce.agents.peers.registry import AgentRegistry

SOURCE = "peers"
"""The source of `error` events."""
CLOSE_LIMIT = 2.0
"""Seconds for the end of all connections."""
MAX_AT_WORK = 4096
"""Messages of all peers whose handlers may run at the same time."""
Handler = Callable[[Peer, Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class SessionSide:
    """Takes the calls of one peer."""

    control: PeersControl
    peer: Peer

    async def take(self, call: Call) -> Outcome:
        return await self.control.receive(self.peer, call)

    async def deliver(self, delivery: Delivery, link: Link) -> Outcome:
        return Outcome(status="failed", detail="this connection carries no dialogues")


class PeersControl(Attached):
    """The session's side of `session.peers`."""

    def __init__(self, host: Host, registry: AgentRegistry | None, *, text_is_turn: bool) -> None:
        self._host = host
        self._context = host.context
        self._registry = registry
        self._turns = TextTurns(host) if text_is_turn else None
        self.face = SessionPeers(self)
        self.peers: dict[Peer, DialledLine | GivenLine] = {}
        """The peers of this session, with their lines."""
        self._on_demand: dict[tuple[str, str], Peer] = {}
        self._handlers: dict[str, tuple[Any, Handler]] = {}
        self._tasks = OwnedTasks(f"peers of {host.context.id}")
        self._is_open = False
        self._at_work = 0
        """The number of handlers that run."""

    @staticmethod
    def of(session: Session, *, what: str = "session") -> PeersControl:
        """Return the control of a session's peers.

        Args:
            what: The session's name in the error.
        Raises:
            ConfigurationError: It is no session, or has no `PeerOptions`.
        """
        face = getattr(session, "peers", None)
        if not isinstance(face, SessionPeers):
            raise ConfigurationError(f"{what} must be AgentSession(…), got {shown(session)}")
        return control_of(face, "_control", PeersControl, "control")

    # --- life

    def open(self) -> None:
        self._is_open = True

    def end(self) -> None:
        self._is_open = False

    @property
    def has_work(self) -> bool:
        return bool(self.peers)

    async def aclose(self) -> None:
        """Close all connections, for good; the handlers have ended, and their answers are on the way."""
        for line in self.peers.values():
            line.close()
        await self._tasks.finish(CLOSE_LIMIT)

    # --- own calls

    def handle(self, name: str, model: Any, handler: Handler) -> None:
        """Have messages of that model handled; connected peers are told."""
        is_new = name not in self.takes
        self._handlers[name] = model, handler
        if is_new and self.peers:
            self._context.inbox.call(self._note_takes)

    async def connect(self, target: str, token: str) -> Peer:
        """Connect to a peer; see `SessionPeers.connect()`."""
        self._check_ready()
        peer = self._dialled(await self._url_of(target), token)
        try:
            await self.peers[peer].ready()
        except BaseException:
            self.peers.pop(peer, None)
            raise
        return peer

    async def on_demand(self, target: str, token: str) -> Peer:
        """Return the peer at a URL that serves all calls without a `Peer`; it connects with its first call."""
        self._check_ready()
        url = await self._url_of(target)
        if (peer := self._on_demand.get((url, token))) is None:
            peer = self._on_demand[url, token] = self._dialled(url, token)
        return peer

    def accept(self, socket: Any, wire: PeerWire) -> tuple[Peer, Link]:
        """Take the connection of a peer, which the caller runs, and then drops."""
        line = GivenLine()
        peer = Peer(line)
        link = Link(socket, wire, SessionSide(self, peer))
        line.open(link)
        self.peers[peer] = line
        if self._context.closing.is_asked:  # it closes no peers that come from now on
            line.close()
        return peer, link

    def drop(self, peer: Peer) -> None:
        """Forget a peer, which has left."""
        self.peers.pop(peer, None)

    def hello(self) -> Hello:
        """Return the hello of this session, in the trace of the calling code."""
        traceparent = trace_headers().get("traceparent", "")
        return Hello(id=self._context.live.agent.id, takes=self.takes, traceparent=traceparent)

    @property
    def takes(self) -> tuple[str, ...]:
        """The names of the models that the session takes now."""
        takes_text = self._turns is not None or self._has_graph
        return tuple(dict.fromkeys((*self._handlers, *((TEXT,) if takes_text else ()))))

    def is_answer(self, turn_id: str) -> bool:
        """Return whether that turn has answered a request of a peer."""
        return self._turns is not None and self._turns.is_answer(turn_id)

    def _dialled(self, url: str, token: str) -> Peer:
        self._check_ready()  # again, behind the registry's answer
        for closed in [one for one, line in self.peers.items() if line.is_closed]:
            del self.peers[closed]
        line = DialledLine(url, token, self.hello, self._tasks)
        peer = Peer(line)
        line.open(SessionSide(self, peer))
        self.peers[peer] = line
        return peer

    async def _url_of(self, target: str) -> str:
        if "://" in check_text("url", target) or not target:
            return checked_url(target)
        if self._registry is None:
            return checked_url(target, remedy="; the id of an agent needs PeerOptions(registry=AgentRegistry(…))")
        cards = await self._registry.find(id=target)
        if not cards:
            raise PeerUnreachable(f"the registry has no agent {target!r}")
        return cards[0].url

    def _check_ready(self) -> None:
        self._context.check_open()
        if not self._is_open:
            raise SessionClosedError("the session has left its peers, since it closes")
        if not self._context.inbox.is_here:
            raise SessionError("peers are called on the session's event loop; this code runs in another thread")

    def _note_takes(self) -> None:
        for line in self.peers.values():
            if line.link is not None:
                self._tasks.start(line.link.note_takes(self.takes), "models that are taken")

    # --- messages that come

    async def receive(self, peer: Peer, call: Call) -> Outcome:
        """Take or reject a message; return the answer to a request."""
        if not self._is_open or self._context.closing.is_asked:
            return Outcome(status="failed", detail="its session closes")
        if (found := self._handlers.get(call.model)) is not None:
            return await self._handled(peer, call, *found)
        if call.model != TEXT or call.model not in self.takes:
            return Outcome(status="rejected", detail=f"it takes {named(self.takes)}")
        if not isinstance(call.content, str):
            return Outcome(status="rejected", detail="a text must be a str")
        if not call.content.strip():
            return Outcome(status="rejected", detail="it needs a text with words")
        if self._turns is not None:
            return await self._turns.take(call.content, wants_answer=call.wants_answer)
        event = GraphEvent("peer_message", PeerText(peer, call.content))
        self._context.log.note(ev.GraphEventPosted, event=event)
        return Outcome()

    @property
    def _has_graph(self) -> bool:
        return self._context.log.emitter.is_listened_to(ev.GraphEventPosted.name)

    async def _handled(self, peer: Peer, call: Call, model: Any, handler: Handler) -> Outcome:
        try:
            message = _message(model, call.content)
        except PeerRejected as error:
            return Outcome(status="rejected", detail=str(error))
        if self._at_work >= MAX_AT_WORK:
            return Outcome(status="failed", detail=f"the handlers of {MAX_AT_WORK} messages run")
        answers: list[Any] = []
        title = f"handler of {named((call.model,))} of a peer"

        async def run() -> None:
            self._at_work += 1
            try:
                answers.append(packed_answer(title, await awaited(title, handler(peer, message))))
            finally:
                self._at_work -= 1

        begun: asyncio.Future[Run] = asyncio.get_running_loop().create_future()
        # By the inbox: the calling task serves a connection, whose context the handler must not get.
        self._context.inbox.call(partial(self._begin, call, title, run, begun))
        if not call.wants_answer:
            return Outcome()
        started = await begun
        try:
            await started.finish()
        except anyio.get_cancelled_exc_class():
            started.cut()
            raise
        if started.error is not None or not answers:
            return Outcome(status="failed", detail=f"its handler of {named((call.model,))} failed")
        answer_model, content = answers[0]
        return Outcome(model=answer_model, content=content)

    def _begin(self, call: Call, title: str, run: Callable[[], Awaitable[None]], begun: asyncio.Future[Run]) -> None:
        if begun.done():  # its caller has left
            return
        with trace_of(call.traceparent):
            watch = self._context.observer.hook("on_message", model=call.model or "str")
        limit = self._host.hook_timeout
        started = self._context.hooks.start(
            "callback", title, run, limit, "between its speeches", source=SOURCE, watch=watch
        )
        begun.set_result(started)

    # --- texts that are turns

    @property
    def judges(self) -> Judges:
        return "nothing"

    async def on_turn(self, turn: TurnInHand) -> None:
        if self._turns is not None:
            self._turns.on_turn(turn)

    def turn_over(self, record: TurnRecord) -> None:
        if self._turns is not None:
            self._turns.turn_over(record)

    def undo(self, turn: TurnInHand) -> None:
        if self._turns is not None:
            self._turns.undo(turn)


def _message(model: Any, content: Any) -> Any:
    if model is not str:
        return unpacked(model, content)
    if not isinstance(content, str):
        raise PeerRejected("a text must be a str")
    return content


def packed_answer(title: str, answer: object) -> tuple[str, Any]:
    """Return the answer of a handler as the name of its model and JSON data.

    Raises:
        ConfigurationError: It is no message.
    """
    if answer is None:
        return TEXT, None
    try:
        return packed(answer)
    except ConfigurationError as error:
        raise ConfigurationError(f"the {title} must return a message or None: {error}") from None
