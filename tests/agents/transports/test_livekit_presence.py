"""The presence of a participant, by the events of the SDK's own room."""

from __future__ import annotations

import anyio
from livekit import rtc

from vivavoce.agents.transports.livekit.presence import presence


async def test_nobody_is_there_any_more_when_the_agent_could_not_reconnect() -> None:
    room = rtc.Room()
    with presence(room, "person") as person:
        room.emit("reconnecting")
        room.emit("disconnected", rtc.DisconnectReason.CONNECTION_TIMEOUT)
        with anyio.fail_after(5.0):
            await person.end()
