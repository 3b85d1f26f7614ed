"""PeerOptions: a session that exchanges messages with agents in other processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from vivavoce.agents.extension.extension import Attached, Extension
from vivavoce.agents.peers.registry import AgentRegistry
from vivavoce.pipelines.core.checks import check_flag, check_instance
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from vivavoce.agents.extension.attachments import Attachments
    from vivavoce.agents.extension.extension import Host
    from vivavoce.agents.peers.session_peers import SessionPeers


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerOptions(Extension):
    """The peers of a session (`session.peers`).

    Each option: docs/options.md.
    """

    key: ClassVar[str] = "peers"

    registry: AgentRegistry | None = None
    """Where `session.peers.connect()` finds the URL of an agent by its id; None: it takes URLs only."""
    text_is_turn: bool = False
    """Whether a text of a peer is a turn of the user, as `session.input`'s text is; the answer of the agent is the
    answer to a request. Off: it is the event `peer_message` of the session's graph. `on_message(str)` comes first."""

    def __post_init__(self) -> None:
        check_instance("registry", self.registry, AgentRegistry, or_none=True)
        check_flag("text_is_turn", self.text_is_turn)

    def attach(self, host: Host) -> Attached:
        """Make the peers of one session."""
        from vivavoce.agents.peers.control import PeersControl

        return PeersControl(host, self.registry, text_is_turn=self.text_is_turn)


def peers_of(extensions: Attachments) -> SessionPeers:
    """Return the peers of a session, as applications know them.

    Raises:
        ConfigurationError: The session has none.
    """
    if (attached := extensions.of(PeerOptions)) is None:
        raise ConfigurationError("the session has no peers; give it some: SessionOptions(peers=PeerOptions())")
    face: Any = attached.face
    peers: SessionPeers = face
    return peers
