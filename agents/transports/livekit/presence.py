"""Presence: waits for a participant to come into a room, and to leave it for good."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio
from livekit import rtc

from vivavoce.agents.transports.livekit.callbacks import callbacks
from vivavoce.agents.transports.livekit.phone import has_hung_up
from vivavoce.pipelines.core.errors import RoomError

_EVENTS: tuple[rtc.room.EventTypes, ...] = (
    "participant_connected",
    "participant_disconnected",
    "participant_attributes_changed",
    "disconnected",
)


@contextmanager
def presence(room: rtc.Room, identity: str) -> Iterator[Presence]:
    """Follow a participant within the block."""
    followed = Presence(room, identity)
    looking = dict.fromkeys(_EVENTS, followed.look)
    with callbacks(room, {**looking, "reconnecting": followed.suspend, "reconnected": followed.resume}):
        yield followed


class Presence:
    """Whether a participant is in its room. A telephone that has hung up is gone."""

    def __init__(self, room: rtc.Room, identity: str) -> None:
        self._room = room
        self._identity = identity
        self._is_suspended = False  # the agent itself is out of the room for now, which then looks empty
        self._changed = anyio.Event()

    @property
    def is_there(self) -> bool:
        """Whether the participant is in the room."""
        if not self._room.isconnected():  # it is, as the SDK counts, while it reconnects
            return False
        participant = self._room.remote_participants.get(self._identity)
        return self._is_suspended or (participant is not None and not has_hung_up(participant))

    async def come(self, limit: float) -> None:
        """Wait until the participant is there.

        Raises:
            RoomError: It does not come in time.
        """
        with anyio.move_on_after(limit):
            while not self.is_there:
                await self._wait()
            return
        raise RoomError(f"the participant did not come into room {self._room.name!r} within {limit:g} s")

    async def end(self) -> None:
        """Wait until the participant is gone."""
        while self.is_there:
            await self._wait()

    async def _wait(self) -> None:
        self._changed = anyio.Event()
        await self._changed.wait()

    # --- callbacks of the SDK

    def look(self, *_: object) -> None:
        self._changed.set()

    def suspend(self) -> None:
        self._is_suspended = True

    def resume(self) -> None:
        self._is_suspended = False
        self._changed.set()
