"""Place: the LiveKit server of the demo, embedded or given, and the tokens for its callers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from vivavoce.pipelines.core.ids import new_id

DEPARTURE_TIMEOUT = 2
"""Seconds that a server keeps a room when its last caller has left; after that the token meets an agent again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A LiveKit server and the name of the demo's agent there.

    Args:
        agent_name: Empty on the embedded room, where every new room gets the agent; a name of its own elsewhere, so
            that it never answers in a room of others.
    """

    url: str
    api_key: str
    api_secret: str = field(repr=False)
    agent_name: str = ""

    @property
    def is_embedded(self) -> bool:
        """Whether it is the development room that the demo started."""
        return not self.agent_name

    def join_token(self, room: str, identity: str) -> str:
        """Return a token with which `identity` joins `room`; joining dispatches the agent there."""
        from livekit import api

        token = (
            api.AccessToken(self.api_key, self.api_secret)
            .with_identity(identity)
            .with_grants(api.VideoGrants(room_join=True, room=room))
        )
        if self.agent_name:
            dispatch = api.RoomAgentDispatch(agent_name=self.agent_name)
            token = token.with_room_config(
                api.RoomConfiguration(agents=[dispatch], departure_timeout=DEPARTURE_TIMEOUT)
            )
        return token.to_jwt()


def given_place(url: str, api_key: str, api_secret: str) -> Place:
    """Return a server that another party runs, with an agent name of our own.

    Raises:
        ConfigurationError: The URL is malformed.
    """
    from vivavoce.agents.worker.options import websocket_url

    return Place(url=websocket_url(url), api_key=api_key, api_secret=api_secret, agent_name=new_id("vivavoce_demo"))


@asynccontextmanager
async def embedded_place(port: int, *, keeps_waiting_rooms: bool = False) -> AsyncIterator[Place]:
    """Run the embedded development room as a child process.

    Args:
        port: Port to listen on; 0 takes a free one.
        keeps_waiting_rooms: Whether callers who come before the worker has registered get its agent then.
    Raises:
        ConfigurationError: The extra `room` is missing.
        RoomError: The port is taken.
    """
    from vivavoce.agents.dev_room import RoomProcess, RoomServerOptions

    options = RoomServerOptions(port=port, departure_timeout=DEPARTURE_TIMEOUT, keeps_waiting_rooms=keeps_waiting_rooms)
    room = RoomProcess(options)
    try:
        await room.start()
        yield Place(url=room.url, api_key=room.api_key, api_secret=room.api_secret)
    finally:
        with anyio.CancelScope(shield=True):  # the room's own limits bound it
            await room.aclose()
