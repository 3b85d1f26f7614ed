"""The parts that all rooms of one server use: options, UDP socket, certificate, tasks and the sign of the end."""

from __future__ import annotations

import anyio
from aiortc.rtcdtlstransport import RTCCertificate

from vivavoce.agents.dev_room.ice import UdpMux
from vivavoce.agents.dev_room.options import RoomServerOptions
from vivavoce.agents.dev_room.tasks import TaskSet


class Shared:
    """Made first and passed down to each room and client."""

    def __init__(self, options: RoomServerOptions, mux: UdpMux, tasks: TaskSet) -> None:
        self.options = options
        self.mux = mux
        self.tasks = tasks
        self.certificate = RTCCertificate.generateCertificate()
        self.fingerprint = next(f for f in self.certificate.getFingerprints() if f.algorithm == "sha-256")
        self._is_closing = anyio.Event()

    async def linger(self, seconds: float) -> None:
        """Wait for that time, or until the server closes."""
        with anyio.move_on_after(seconds):
            await self._is_closing.wait()

    def end_lingering(self) -> None:
        """The server closes: nothing lingers any longer."""
        self._is_closing.set()
