"""SessionPeers: the other agents that a session talks with, as `session.peers`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from vivavoce.agents.peers.dial import checked_token
from vivavoce.agents.peers.messages import name_of, packed
from vivavoce.agents.peers.peer import Peer
from vivavoce.pipelines.core.checks import check_function, takes
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic import BaseModel

H = TypeVar("H", bound=Callable[[Peer, Any], Awaitable[Any]])


class PeersSide(Protocol):
    """The session's side of its peers."""

    async def connect(self, target: str, token: str) -> Peer:
        """Connect to the peer at a URL, or to the agent of that id in the registry."""
        ...

    async def on_demand(self, target: str, token: str) -> Peer:
        """Return the peer at a URL that serves all calls without a `Peer`; it connects with its first call."""
        ...

    def handle(self, name: str, model: Any, handler: Callable[[Peer, Any], Awaitable[Any]]) -> None:
        """Have messages of that model handled."""
        ...


class SessionPeers:
    """The other agents that a session talks with. Its calls belong on the session's event loop."""

    def __init__(self, control: PeersSide) -> None:
        self._control = control

    async def connect(self, url: str, *, token: str | None = None) -> Peer:
        """Connect to an agent: a `PeerServer`, or a server of another maker that speaks its protocol.

        Args:
            url: Its WebSocket, such as `"ws://127.0.0.1:8090/"`, or an agent's id in `PeerOptions.registry`.
            token: The server's token. Send it only over TLS (`wss://`), or on one machine.
        Raises:
            ConfigurationError: It is no such URL; nothing was sent.
            PeerUnreachable: There was no connection within 5 s, or the registry has no such agent.
            PeerRejected: The server refuses the connection.
            SessionNotStartedError, SessionClosedError: The session does not run.
            SessionError: It was called on another event loop.
        """
        return await self._control.connect(url, checked_token(token))

    async def send(self, url: str, message: BaseModel | str, *, token: str | None = None) -> None:
        """Send a message to the agent at a URL, as `Peer.send()`; connect first, if that is not done yet.

        Raises:
            ConfigurationError, PeerError, SessionError: As for `connect()` and `Peer.send()`.
        """
        packed(message)
        peer = await self._control.on_demand(url, checked_token(token))
        await peer.send(message)

    async def request(
        self,
        url: str,
        message: BaseModel | str,
        *,
        answer: type[BaseModel] | None = None,
        token: str | None = None,
        timeout: float = 10.0,  # noqa: ASYNC109 - as for `Peer.request()`
    ) -> Any:
        """Send a request to the agent at a URL, as `Peer.request()`; connect first, if that is not done yet.

        Raises:
            ConfigurationError, PeerError, SessionError: As for `connect()` and `Peer.request()`.
        """
        packed(message)
        peer = await self._control.on_demand(url, checked_token(token))
        if answer is None:
            return await peer.request(message, timeout=timeout)
        return await peer.request(message, answer=answer, timeout=timeout)

    def on_message(self, model: type[BaseModel] | type[str]) -> Callable[[H], H]:
        """Decorate the handler of the messages of a model, or of texts (`str`): `async f(peer, message)`.

        Its result, a message or None, is the answer to a request. It replaces the handler of a model with that name.
        Its limit is `SpeechLimits.hook_timeout`, anew after each speech that it asks for.

        Raises:
            ConfigurationError: It is no model, or no such function.
        """
        name = name_of(model)

        def decorate(handler: H) -> H:
            check_function("the handler", handler)
            if not takes(handler, 2):
                raise ConfigurationError("a handler of messages must be async f(peer, message)")
            self._control.handle(name, model, handler)
            return handler

        return decorate
