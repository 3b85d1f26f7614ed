"""The examples in a room: their workers as the command line starts them, and what their agents were heard saying."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import Peer
from vivavoce.agents import Worker
from vivavoce.agents.cli.app_file import load_app, with_options

EXAMPLES = Path(__file__).parents[3] / "examples"
IN_A_ROOM = pytest.mark.test_all("its copy in virtual time, or by voice, is in make test")


def agent_said(peer: Peer) -> list[str]:
    """Everything the agent was heard saying, from the transcriptions in step with its playout."""
    own = peer.room.local_participant.identity
    return ["".join(stream.chunks) for stream in peer.streams if stream.sender != own and stream.is_final]


def has_said(peer: Peer, text: str) -> bool:
    """Whether the agent was heard saying `text`."""
    return text in agent_said(peer)


def worker_of(example: str, server: RoomEndpoint) -> Worker:
    """The worker of an example, as the command line would start it for that server."""
    return with_options(
        load_app(EXAMPLES / example).worker,
        url=server.url,
        api_key=server.api_key,
        api_secret=server.api_secret,
        agent_name=None,
        health_port=None,
        health_host=None,
    )
