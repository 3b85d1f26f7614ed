"""The examples do what they say, in a room, on both servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e_kit.room_endpoint import RoomEndpoint
from e2e_kit.sdk_client import Peer, joined
from e2e_kit.working import Working
from vivavoce.agents.cli.app_file import load_worker, with_options

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90)]

EXAMPLES = Path(__file__).parents[2] / "examples"


def agent_said(peer: Peer) -> list[str]:
    """Everything the agent was heard saying, from the transcriptions in step with its playout."""
    return ["".join(stream.chunks) for stream in peer.streams if stream.sender != "anna" and stream.is_final]


async def test_the_readme_s_agent_greets_asks_and_books(room_server: RoomEndpoint, room_name: str) -> None:
    worker = with_options(
        load_worker(EXAMPLES / "hello.py"),
        url=room_server.url,
        api_key=room_server.api_key,
        api_secret=room_server.api_secret,
        agent_name=None,
        health_port=None,
    )
    async with Working(worker), joined(room_server, room_name, "anna") as anna:
        await anna.until(lambda: "Hello! For which day?" in agent_said(anna))
        await anna.room.local_participant.send_text("on friday", topic="lk.chat")
        await anna.until(lambda: "At what time?" in agent_said(anna))
        await anna.room.local_participant.send_text("at seven", topic="lk.chat")
        booked = "Your table is booked for friday at seven. Is there anything else?"
        await anna.until(lambda: booked in agent_said(anna))
