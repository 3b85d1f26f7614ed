"""Avatar: the participant that plays the agent's audio in a room: waits for it, and reports its loss."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
from livekit import rtc

from vivavoce.agents.transports.livekit.avatar_link import AvatarLink
from vivavoce.agents.transports.livekit.avatar_or_own import AvatarOrOwnSink
from vivavoce.agents.transports.livekit.avatar_sink import AvatarSink
from vivavoce.agents.transports.livekit.callbacks import callbacks
from vivavoce.agents.transports.options import AvatarOptions
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import AvatarError
from vivavoce.pipelines.io import AudioSink, TransportEvents

logger = logging.getLogger(__name__)

LEAD = 0.6
"""Seconds of audio that the avatar has ahead. Less may make it stutter; of more than 0.8 s the agent's own track, if it
takes over, would drop the rest."""

LOOKING_EVENTS: tuple[rtc.room.EventTypes, ...] = (
    "participant_connected",
    "participant_disconnected",
    "track_published",
)


class Avatar:
    """Links the sink to the avatar.

    Args:
        own: The sink of the agent's own track, which plays while there is no avatar.
        clock: Session time.
    """

    def __init__(self, room: rtc.Room, options: AvatarOptions, own: AudioSink, clock: Clock) -> None:
        self._room = room
        self._options = options
        audio = AvatarSink(clock, sample_rate=own.capabilities.sample_rate, lead=LEAD)
        self._link = AvatarLink(room, options, audio, self._lost)
        self.sink = AvatarOrOwnSink(audio, own, lambda: self._link.is_ready)
        self._events: TransportEvents | None = None
        self._is_suspended = False
        """Whether the agent itself is out of the room for now: the room looks empty then."""
        self._changed = anyio.Event()

    @property
    def identity(self) -> str:
        """Identity of its participant."""
        return self._options.identity

    @contextmanager
    def linked(self, events: TransportEvents) -> Iterator[None]:
        """Follow the avatar for the length of the block; `events` receives its loss."""
        self._events = events
        with self._link.methods():
            try:
                with callbacks(self._room, self._callbacks()):
                    self._look()
                    yield
            finally:
                self.stop()

    async def wait(self) -> None:
        """Wait until the avatar is there.

        Raises:
            AvatarError: It does not come within its limit, and the session needs it.
        """
        with anyio.move_on_after(self._options.join_limit):
            while not self._link.is_ready:
                self._changed = anyio.Event()
                await self._changed.wait()
        if not self._link.is_ready:
            self._report(self._link.error(f"is not there {self._options.join_limit:g} s after the start"))

    async def run(self) -> None:
        """Send the agent's audio until cancelled."""
        await self._link.run()

    def stop(self) -> None:
        """Send nothing more; no code waits for the avatar's reports from now on."""
        self._events = None
        self._link.close()
        self.sink.avatar_lost()

    def _lost(self, error: AvatarError) -> None:
        self.sink.avatar_lost()
        if self._events is not None:
            logger.warning("%s", error)
            self._events.failed(error, is_fatal=self._options.is_required)

    def _report(self, error: AvatarError) -> None:
        if self._options.is_required:
            raise error
        logger.warning("%s", error)
        if self._events is not None:
            self._events.failed(error, is_fatal=False)

    # --- callbacks of the SDK

    def _look(self, *_: object) -> None:
        if not self._is_suspended:
            self._link.look()
            self._changed.set()

    def _suspend(self) -> None:
        self._is_suspended = True

    def _resume(self) -> None:
        self._is_suspended = False
        self._look()

    def _callbacks(self) -> dict[rtc.room.EventTypes, Callable[..., None]]:
        return {
            **dict.fromkeys(LOOKING_EVENTS, self._look),
            "reconnecting": self._suspend,
            "reconnected": self._resume,
        }
