"""One participant's transports: DTLS, data channels, and SRTP on a path that never awaits.

Built on four parts of aiortc (DTLS, SCTP, data channels, certificates). Its senders, receivers, jitter buffers and
codecs are not used, since audio is forwarded unchanged. That needs some private names, checked by `check_aiortc()`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any, Protocol

import pylibsrtp
from aiortc.rtcdatachannel import RTCDataChannel
from aiortc.rtcdtlstransport import RTCCertificate, RTCDtlsFingerprint, RTCDtlsParameters, RTCDtlsTransport
from aiortc.rtcsctptransport import RTCSctpCapabilities, RTCSctpTransport

from vivavoce.agents.dev_room import rtp
from vivavoce.agents.dev_room.ice import IceEndpoint, UdpMux
from vivavoce.agents.dev_room.options import MAX_QUEUED_DATA
from vivavoce.pipelines.core.errors import ConfigurationError, RoomError

logger = logging.getLogger(__name__)

RELIABLE = "_reliable"
LOSSY = "_lossy"
MAX_LOSSY_QUEUED = 1_048_576
MAX_EARLY_MESSAGES = 256
_DTLS_PRIVATE = ("_rx_srtp", "_tx_srtp", "_task", "_role")


class PeerEvents(Protocol):
    """Callbacks of a peer to its owner; every call comes from the event loop and must not raise."""

    def on_connected(self) -> None: ...

    def on_rtp(self, packet: bytes) -> None: ...

    def on_sender_report(self, ssrc: int, information: bytes) -> None: ...

    def on_picture_wanted(self, ssrc: int) -> None: ...

    def on_data(self, label: str, data: bytes) -> None: ...


def check_aiortc() -> None:
    """Raise ConfigurationError unless the installed aiortc has the private names used here."""
    dtls = RTCDtlsTransport(_NoTransport(), [RTCCertificate.generateCertificate()])  # type: ignore[arg-type]
    missing = [name for name in _DTLS_PRIVATE if not hasattr(dtls, name)]
    missing += [name for name in ("_set_role",) if not callable(getattr(dtls, name, None))]
    if missing:
        raise ConfigurationError(
            f"the development room needs aiortc 1.16; the installed one lacks {', '.join(missing)}: "
            "run pip install 'vivavoce[room]'"
        )


class _NoTransport:
    role = "controlled"
    state = "new"


class Peer:
    """One participant's encrypted transport; `run()` holds it from the handshake to its end."""

    def __init__(self, mux: UdpMux, certificate: RTCCertificate, events: PeerEvents) -> None:
        self.endpoint = IceEndpoint(mux, self._on_media)
        self.is_connected = False
        self._events = events
        # aiortc expects its own ICE transport but uses only four names of it, which the endpoint has.
        self._dtls: Any = RTCDtlsTransport(self.endpoint, [certificate])  # type: ignore[arg-type]
        self._dtls._set_role("server")
        self._sctp: Any = RTCSctpTransport(self._dtls)
        self._sctp.on("datachannel", self._on_channel)
        self._channels: dict[str, RTCDataChannel] = {}
        self._early: dict[str, deque[bytes]] = {label: deque(maxlen=MAX_EARLY_MESSAGES) for label in (RELIABLE, LOSSY)}

    async def run(self, fingerprints: list[RTCDtlsFingerprint], max_message_size: int, *, limit: float) -> None:
        """Shake hands within `limit` seconds, report connected, and return when the transport has ended.

        Raises:
            RoomError: The handshake failed or took too long.
        """
        try:
            async with asyncio.timeout(limit):
                await self._dtls.start(RTCDtlsParameters(fingerprints=fingerprints, role="client"))
        except TimeoutError as exc:
            raise RoomError(f"no DTLS handshake within {limit:g} s: do UDP packets reach the room?") from exc
        if self._dtls.state != "connected":
            raise RoomError("the DTLS handshake failed: wrong fingerprint or no common SRTP profile")
        try:
            await self._sctp.start(RTCSctpCapabilities(maxMessageSize=max_message_size), 5000)
        except ConnectionError as exc:
            raise RoomError("the transport was closed as soon as it was up") from exc
        self.is_connected = True
        self._events.on_connected()
        pump: asyncio.Future[None] = self._dtls._task
        try:
            await asyncio.wait({pump})
        finally:
            self.is_connected = False
        if not pump.cancelled() and (error := pump.exception()) is not None:
            raise RoomError(f"the transport ended: {type(error).__name__}: {error}") from error

    async def aclose(self) -> None:
        """End data channels and DTLS, then free the address; safe to repeat."""
        if self.endpoint.is_closed:
            return
        self.is_connected = False
        pump = self._dtls._task
        await self._sctp.stop()
        await self._dtls.stop()
        self.endpoint.close()
        if pump is not None:
            await asyncio.wait({pump}, timeout=1.0)

    def send_rtp(self, packet: bytes) -> None:
        """Encrypt and send one RTP packet; dropped unless connected."""
        if self.is_connected:
            try:
                data = self._dtls._tx_srtp.protect(packet)
            except pylibsrtp.Error as exc:
                logger.debug("RTP packet not sent: %s", exc)
                return
            self.endpoint.send(data)

    def send_rtcp(self, packet: bytes) -> None:
        """Encrypt and send one RTCP packet; dropped unless connected."""
        if self.is_connected:
            try:
                data = self._dtls._tx_srtp.protect_rtcp(packet)
            except pylibsrtp.Error as exc:
                logger.debug("RTCP packet not sent: %s", exc)
                return
            self.endpoint.send(data)

    def send_data(self, label: str, data: bytes) -> bool:
        """Queue one message on the channel of that label.

        Returns:
            False if the client reads nothing any more and should be disconnected.
        """
        channel = self._channels.get(label)
        if channel is None or channel.readyState != "open" or not self.is_connected:
            # A client's channels open a moment after it has joined: earlier messages to it wait.
            if label == RELIABLE and len(self._early[label]) == MAX_EARLY_MESSAGES:
                logger.warning("a participant without data channel missed a message: %d wait", MAX_EARLY_MESSAGES)
            self._early[label].append(data)
            return True
        if label == LOSSY and channel.bufferedAmount > MAX_LOSSY_QUEUED:
            return True
        if channel.bufferedAmount > MAX_QUEUED_DATA:
            return False
        try:
            channel.send(data)
        except ValueError as exc:
            logger.warning("message not sent: %s", exc)
        return True

    def _on_channel(self, channel: RTCDataChannel) -> None:
        label = channel.label
        if label not in (RELIABLE, LOSSY):
            return
        self._channels[label] = channel

        def on_message(message: bytes | str) -> None:
            self._events.on_data(label, message.encode() if isinstance(message, str) else message)

        channel.on("message", on_message)
        early = list(self._early[label])
        self._early[label].clear()
        for data in early:
            self.send_data(label, data)

    def _on_media(self, data: bytes) -> None:
        if not self.is_connected:
            return
        try:
            if rtp.is_rtcp(data):
                packet = self._dtls._rx_srtp.unprotect_rtcp(data)
                report = rtp.sender_report(packet)
                if report is not None:
                    self._events.on_sender_report(*report)
                for ssrc in rtp.wanted_pictures(packet):
                    self._events.on_picture_wanted(ssrc)
            else:
                self._events.on_rtp(self._dtls._rx_srtp.unprotect(data))
        except pylibsrtp.Error as exc:
            logger.debug("media packet dropped: %s", exc)
