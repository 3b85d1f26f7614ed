"""TypedTransport: a conversation in writing; the agent's voice is played instantly and without sound."""

from __future__ import annotations

from collections.abc import Callable

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.agents.transports.console.transport import WHO
from vivavoce.pipelines.core.errors import RoomError
from vivavoce.pipelines.io import AudioSink, PartMessage, SinkCapabilities, Transport, TransportEvents
from vivavoce.pipelines.media.frame import AudioFrame


class InstantSink(AudioSink):
    """Plays everything in no time, since a reader need not wait for a voice."""

    @property
    def capabilities(self) -> SinkCapabilities:
        return SinkCapabilities()

    def write(self, frame: AudioFrame) -> None:
        """Count the frame as played."""

    def queued(self) -> int:
        return 0

    def clear(self) -> int:
        return 0


class TypedTransport(Transport):
    """A person who types at this machine, present from the start."""

    def __init__(self) -> None:
        self._sink = InstantSink()
        self._events: TransportEvents | None = None
        self._show: Callable[[str], None] | None = None

    @property
    def sink(self) -> AudioSink:
        return self._sink

    async def run(self, events: TransportEvents, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        if self._events is not None:
            raise RoomError("a TypedTransport serves one session, and this one has its own; make another")
        self._events = events
        task_status.started()
        events.participant_linked(WHO)
        await anyio.sleep_forever()

    async def hangup(self) -> None:
        if self._events is not None:  # the person here cannot be sent away: the conversation ends instead
            self._events.closed("the agent has hung up")

    def show_parts(self, show: Callable[[str], None]) -> None:
        """Call `show` with each part of a rich reply as text; without it parts are not shown."""
        self._show = show

    def send_part(self, message: PartMessage) -> None:
        if self._show is not None and message.plain:
            self._show(message.plain)

    def type(self, text: str) -> None:
        """Enter a typed text of the person."""
        if self._events is not None:
            self._events.text(text)
