"""The parts that rooms share: the registry of rooms, admission, the socket, the certificate and the tasks."""

from __future__ import annotations

import asyncio
import logging

from livekit.protocol import models

from vivavoce.agents.dev_room.auth import Refused
from vivavoce.agents.dev_room.dispatch import Dispatcher
from vivavoce.agents.dev_room.observer import RoomObserver
from vivavoce.agents.dev_room.room import Room
from vivavoce.agents.dev_room.shared import Shared
from vivavoce.pipelines.core.clock import LoopClock

logger = logging.getLogger(__name__)

RESTART_MEMORY = 15.0
"""Seconds for which a refused resume marks its room as one from before a restart."""


class Hub:
    """All rooms of one server."""

    def __init__(self, shared: Shared, dispatcher: Dispatcher) -> None:
        self.shared = shared
        self.dispatcher = dispatcher
        self.rooms: dict[str, Room] = {}
        self._refused_resumes: dict[str, float] = {}

    def check_admission(self, room_name: str, identity: str) -> None:
        """Raise Refused if the room, or the server, is full."""
        room, options = self.rooms.get(room_name), self.shared.options
        if room is None:
            if len(self.rooms) >= options.max_rooms:
                raise Refused(503, f"the development room server holds {options.max_rooms} rooms already")
            return
        limit = min(room.info.max_participants or options.max_participants, options.max_participants)
        if identity and identity not in room.participants and len(room.participants) >= limit:
            raise Refused(503, f"the room holds {limit} participants already")

    def open_room(self, name: str, *, empty_timeout: float = 0.0, departure_timeout: float = 0.0) -> Room:
        """Return the room of that name; make it if there is none. Timeouts of 0 take the server's."""
        room = self.rooms.get(name)
        if room is None:
            timeouts = {"empty_timeout": empty_timeout, "departure_timeout": departure_timeout}
            room = Room(self.shared, name, on_closed=self._forget, **timeouts)
            self.rooms[name] = room
            self.shared.tasks.spawn(RoomObserver(room).run(), name="room observer")
            logger.info("room %s opened", name)
        return room

    def _forget(self, room: Room) -> None:
        """Remove a closed room from the registry and end its jobs."""
        if self.rooms.get(room.name) is room:
            del self.rooms[room.name]
        self.dispatcher.end_room(room.name)

    def note_refused_resume(self, room_name: str) -> None:
        """Remember that a participant wanted to resume in an unknown room: the server was restarted."""
        now = LoopClock().now()
        self._refused_resumes = {n: t for n, t in self._refused_resumes.items() if now - t < RESTART_MEMORY}
        self._refused_resumes[room_name] = now

    def is_restarted(self, room_name: str) -> bool:
        """Return whether an agent from before a restart may be on its way back into that room."""
        noted = self._refused_resumes.get(room_name)
        if noted is not None and LoopClock().now() - noted < RESTART_MEMORY:
            return True
        return self.dispatcher.expects_returning_agents()

    async def aclose(self) -> None:
        """Notify everyone that the server ends, then close all transports."""
        rooms = list(self.rooms.values())
        links = [p.link for room in rooms for p in room.participants.values() if p.link is not None]
        for room in rooms:
            room.close(models.SERVER_SHUTDOWN)
        if links:
            await asyncio.wait([link.finished for link in links], timeout=0.3)
        self.shared.end_lingering()
