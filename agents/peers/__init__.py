"""Peers: agents in other processes, or of other makers, over WebSockets. The page for users: docs/peers.md.

* `options`, `session_peers`, `control`: `session.peers`, which connects, sends, and handles the messages that come.
* `peer`, `line`, `link`, `dial`: another agent; the way to it, which connects again; one open connection; its begin.
* `wire`: the protocol, without I/O. `messages`: models and texts as JSON. `texts`: texts that are turns of the user.
* `server`: gives connections sessions. `channel`: the dialogues of several processes.
* `registry`, `card`: the agents that can be reached. `tool`: another agent as a tool of the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.core.lazy import lazy_names

if TYPE_CHECKING:
    from vivavoce.agents.peers.card import AgentCard
    from vivavoce.agents.peers.channel import PeerChannel
    from vivavoce.agents.peers.options import PeerOptions
    from vivavoce.agents.peers.peer import Peer
    from vivavoce.agents.peers.registry import AgentRegistry
    from vivavoce.agents.peers.server import PeerServer
    from vivavoce.agents.peers.session_peers import SessionPeers
    from vivavoce.agents.peers.texts import PeerText
    from vivavoce.agents.peers.tool import PeerTool
    from vivavoce.pipelines.core.errors import PeerError, PeerRejected, PeerTimeout, PeerUnreachable

_PLACES = {
    "vivavoce.agents.peers.card": "AgentCard",
    "vivavoce.agents.peers.channel": "PeerChannel",
    "vivavoce.agents.peers.options": "PeerOptions",
    "vivavoce.agents.peers.peer": "Peer",
    "vivavoce.agents.peers.registry": "AgentRegistry",
    "vivavoce.agents.peers.server": "PeerServer",
    "vivavoce.agents.peers.session_peers": "SessionPeers",
    "vivavoce.agents.peers.texts": "PeerText",
    "vivavoce.agents.peers.tool": "PeerTool",
    "vivavoce.pipelines.core.errors": "PeerError PeerRejected PeerTimeout PeerUnreachable",
}

__all__ = [
    "AgentCard",
    "AgentRegistry",
    "Peer",
    "PeerChannel",
    "PeerError",
    "PeerOptions",
    "PeerRejected",
    "PeerServer",
    "PeerText",
    "PeerTimeout",
    "PeerTool",
    "PeerUnreachable",
    "SessionPeers",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
