"""The one UDP socket: ICE-lite, and sorting datagrams to the participants' transports."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import struct
from collections.abc import Callable
from typing import Literal, cast

from aioice import stun

logger = logging.getLogger(__name__)

Address = tuple[str, int]

SOCKET_BUFFER = 4 * 1024 * 1024  # the default of 208 kB lost datagrams under bursts
WRITE_BUFFER = 1024 * 1024
MAX_QUEUED_DTLS = 4_096


class IceEndpoint:
    """One participant's end of the socket, in the shape of aiortc's ICE transport.

    Only the agent that made the offer checks connectivity (ICE-lite): we send to an address once it has proved, with
    our password, that it belongs to the participant.
    """

    role: Literal["controlled"] = "controlled"

    def __init__(self, mux: UdpMux, on_media: Callable[[bytes], None]) -> None:
        self._mux = mux
        self._on_media = on_media
        self._inbox: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_QUEUED_DTLS)
        self.is_closed = False
        self.address: Address | None = None
        self.last_seen: float | None = None
        """Loop time of the last valid STUN request."""
        self.ufrags: dict[str, str] = {}
        """Passwords by user name fragment; the newest is last."""
        self._remote_ufrag = ""
        self._renew()

    @property
    def state(self) -> str:
        return "closed" if self.is_closed else "completed"

    @property
    def credentials(self) -> tuple[str, str]:
        """The user name fragment and password for the next answer."""
        return list(self.ufrags.items())[-1]

    def follow(self, remote_ufrag: str) -> None:
        """Make new credentials if the client restarted ICE: then its offer has another user name fragment."""
        if self._remote_ufrag not in ("", remote_ufrag):
            self._renew()
        self._remote_ufrag = remote_ufrag

    def note_check(self, now: float) -> None:
        """Record a valid STUN request."""
        self.last_seen = now

    def move_to(self, address: Address) -> None:
        """Send to that address from now on."""
        self.address = address

    def _renew(self) -> None:
        """Make new credentials; the previous ones stay valid until the client has moved over."""
        while len(self.ufrags) > 1:
            self._mux.forget(next(iter(self.ufrags)))
            del self.ufrags[next(iter(self.ufrags))]
        ufrag = secrets.token_hex(4)
        self.ufrags[ufrag] = secrets.token_hex(12)
        self._mux.register(ufrag, self)

    def take_dtls(self, data: bytes) -> None:
        try:
            self._inbox.put_nowait(data)
        except asyncio.QueueFull:
            logger.debug("datagram dropped: %d wait already", MAX_QUEUED_DTLS)

    def take_media(self, data: bytes) -> None:
        self._on_media(data)

    def send(self, data: bytes) -> None:
        """Send one datagram; drop it if the participant has no address yet or the socket is full."""
        if self.address is not None and not self.is_closed:
            self._mux.send(data, self.address)

    async def _recv(self) -> bytes:
        """Return the next DTLS datagram (aiortc's port)."""
        data = None if self.is_closed else await self._inbox.get()
        if data is None:
            raise ConnectionError("the transport was closed")
        return data

    async def _send(self, data: bytes) -> None:
        """Send one DTLS datagram (aiortc's port)."""
        if self.is_closed:
            raise ConnectionError("the transport was closed")
        self.send(data)

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._mux.drop(self)
        while not self._inbox.empty():
            self._inbox.get_nowait()
        self._inbox.put_nowait(None)


class UdpMux(asyncio.DatagramProtocol):
    """One socket for all participants: STUN is answered here, the rest goes by source address."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._by_ufrag: dict[str, IceEndpoint] = {}
        self._by_address: dict[Address, IceEndpoint] = {}
        self._transport: asyncio.DatagramTransport | None = None
        self._is_full = False
        self._loop = asyncio.get_running_loop()
        self._closed = self._loop.create_future()

    @classmethod
    async def open(cls, host: str) -> UdpMux:
        """Bind a free port of `host` (an IPv4 address)."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            sock.setblocking(False)
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                sock.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER)
            sock.bind((host, 0))
            address = cast(Address, sock.getsockname())
            loop = asyncio.get_running_loop()
            transport, mux = await loop.create_datagram_endpoint(lambda: cls(address), sock=sock)
        except BaseException:
            sock.close()
            raise
        # Every event loop's datagram transport has it, though typeshed's does not.
        transport.set_write_buffer_limits(high=WRITE_BUFFER)  # type: ignore[attr-defined]
        return mux

    def register(self, ufrag: str, endpoint: IceEndpoint) -> None:
        self._by_ufrag[ufrag] = endpoint

    def forget(self, ufrag: str) -> None:
        self._by_ufrag.pop(ufrag, None)

    def drop(self, endpoint: IceEndpoint) -> None:
        for ufrag in endpoint.ufrags:
            self.forget(ufrag)
        if endpoint.address is not None and self._by_address.get(endpoint.address) is endpoint:
            del self._by_address[endpoint.address]

    def send(self, data: bytes, address: Address) -> None:
        if self._transport is not None and not self._is_full:
            self._transport.sendto(data, address)

    async def aclose(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            await self._closed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if not self._closed.done():
            self._closed.set_result(None)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False

    def error_received(self, exc: Exception) -> None:
        # "Connection refused" of a client that has just gone: its participant ends through its websocket.
        logger.debug("UDP error: %s", exc)

    def datagram_received(self, data: bytes, addr: Address) -> None:
        if not data:
            return
        first = data[0]
        if first < 4:
            self._answer_stun(data, addr)
        elif (endpoint := self._by_address.get(addr)) is not None:
            if 128 <= first <= 191:
                endpoint.take_media(data)
            elif 20 <= first <= 63:
                endpoint.take_dtls(data)

    def _answer_stun(self, data: bytes, addr: Address) -> None:
        try:
            request = stun.parse_message(data)
        except (ValueError, KeyError, IndexError, struct.error) as exc:
            logger.debug("malformed STUN message dropped: %s", exc)
            return
        if request.message_method != stun.Method.BINDING or request.message_class != stun.Class.REQUEST:
            return
        ufrag = str(request.attributes.get("USERNAME", "")).partition(":")[0]
        endpoint = self._by_ufrag.get(ufrag)
        if endpoint is None:
            return
        key = endpoint.ufrags[ufrag].encode()
        if not request.check_message_integrity(key):
            return
        endpoint.note_check(self._loop.time())
        if endpoint.address is None or "USE-CANDIDATE" in request.attributes:
            self._take_address(endpoint, addr)
        response = stun.Message(
            stun.Method.BINDING,
            stun.Class.RESPONSE,
            transaction_id=request.transaction_id,
            attributes={"XOR-MAPPED-ADDRESS": addr},
        )
        response.add_message_integrity(key)
        self.send(bytes(response), addr)

    def _take_address(self, endpoint: IceEndpoint, addr: Address) -> None:
        if endpoint.address == addr and self._by_address.get(addr) is endpoint:
            return
        if endpoint.address is not None and self._by_address.get(endpoint.address) is endpoint:
            del self._by_address[endpoint.address]
        endpoint.move_to(addr)
        self._by_address[addr] = endpoint
