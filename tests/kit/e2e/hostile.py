"""Hostile clients of the embedded room: their messages are random, or nearly right; every message counts."""

from __future__ import annotations

import asyncio
import base64
import random
import re
import struct
from collections import Counter
from contextlib import suppress
from typing import Any

import pylibsrtp
from aiohttp import ClientError, ClientResponse, ClientSession, WSServerHandshakeError
from aioice import stun
from aiortc import RTCPeerConnection, RTCSessionDescription
from livekit.protocol import agent, models, rtc

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.signal_client import SignalClient, WorkerClient, join_parameter

MIX = {"stun": 0.2, "datagrams": 0.3, "signals": 0.25, "offers": 0.02, "encrypted": 0.15, "workers": 0.05, "http": 0.03}
"""Shares of each kind of message."""
BURST = 200
LIMIT = 20.0
OPEN_LIMIT = 6.0
"""Seconds for an attacker's own transport to come up; it is thrown out before."""
_GONE = (ClientError, ConnectionError, WSServerHandshakeError, AssertionError, TimeoutError)
"""Errors of a client that the server disconnects in mid-sentence; it comes again. A server that hangs fails the test's
limit.
"""

OFFER = """v=0
o=- 1 2 IN IP4 127.0.0.1
s=-
t=0 0
a=group:BUNDLE 0 1
m=audio 9 UDP/TLS/RTP/SAVPF 111
c=IN IP4 0.0.0.0
a=ice-ufrag:abcd
a=ice-pwd:0123456789012345678901
a=fingerprint:sha-256 {fingerprint}
a=setup:actpass
a=mid:0
a=sendonly
a=extmap:1 urn:ietf:params:rtp-hdrext:ssrc-audio-level
a=rtpmap:111 opus/48000/2
a=msid:- mic
a=ssrc:77 cname:x
m=application 9 UDP/DTLS/SCTP webrtc-datachannel
c=IN IP4 0.0.0.0
a=ice-ufrag:abcd
a=ice-pwd:0123456789012345678901
a=fingerprint:sha-256 {fingerprint}
a=setup:actpass
a=mid:1
a=sctp-port:5000
""".format(fingerprint=":".join(["AB"] * 32)).replace("\n", "\r\n")


class Attack:
    """`await Attack(endpoint, messages, seed).run()`; the same seed sends the same.

    Args:
        room: Where the attackers have tokens for; the innocent may be in it.
    """

    def __init__(self, endpoint: RoomEndpoint, room: str, *, messages: int, seed: int) -> None:
        self.sent: Counter[str] = Counter()
        self._endpoint = endpoint
        self._room = room
        self._messages = messages
        self._random = random.Random(seed)
        self._names = 0

    async def run(self) -> None:
        """Send everything, kind beside kind."""
        async with ClientSession() as http, asyncio.TaskGroup() as group:
            for kind, share in MIX.items():
                group.create_task(self._send(kind, round(self._messages * share), http))

    async def _send(self, kind: str, count: int, http: ClientSession) -> None:
        attack: Any = getattr(self, f"_{kind}")
        while self.sent[kind] < count:
            before = self.sent[kind]
            with suppress(*_GONE):
                await attack(http, count - before)
            if self.sent[kind] == before:
                await asyncio.sleep(0.01)

    def _join(self, http: ClientSession) -> SignalClient:
        self._names += 1
        token = self._endpoint.token(f"hostile-{self._names}", self._room)
        return SignalClient(http, self._endpoint, token)

    def _mutated(self, data: bytes) -> bytes:
        """Return the bytes with one to four of them changed, taken out, put in, or said twice."""
        changed = bytearray(data)
        for _ in range(self._random.randint(1, 4)):
            at = self._random.randrange(len(changed) + 1)
            match self._random.randrange(4):
                case 0 if at < len(changed):
                    changed[at] = self._random.randrange(256)
                case 1:
                    del changed[at : at + self._random.randint(1, 8)]
                case 2:
                    changed[at:at] = self._random.randbytes(self._random.randint(1, 8))
                case _:
                    changed[at:at] = changed[at : at + 64]
        return bytes(changed)

    # UDP

    async def _stun(self, http: ClientSession, left: int) -> None:
        async with self._join(http) as client:
            address, ufrag, pwd = await _connection(client)
            socket = await Socket.open(address)
            try:
                for _ in range(min(left, 20 * BURST)):
                    socket.send(self._mutated(bytes(_check(ufrag, pwd))))
                    self.sent["stun"] += 1
                    if self.sent["stun"] % BURST == 0:
                        await socket.settle(ufrag, pwd, client)
            finally:
                socket.close()

    async def _datagrams(self, http: ClientSession, left: int) -> None:
        """Strangers' and a participant's own DTLS, RTP and RTCP, before and amid its handshake."""
        async with self._join(http) as client:
            address, ufrag, pwd = await _connection(client)
            socket = await Socket.open(address)
            try:
                await socket.settle(ufrag, pwd, client)  # now the address is the participant's
                for _ in range(min(left, 20 * BURST)):
                    first = self._random.choice((20, 22, 23, 63, 128, 144, 191, self._random.randrange(256)))
                    body = self._random.randbytes(self._random.choice((0, 1, 11, 40, 200, 1400)))
                    if first == 22:  # a record's header as it should be, and a hello that is not
                        body = b"\xfe\xfd" + bytes(8) + struct.pack("!H", len(body)) + b"\x01" + body
                    socket.send(bytes([first]) + body)
                    self.sent["datagrams"] += 1
                    if self.sent["datagrams"] % BURST == 0:
                        await socket.settle(ufrag, pwd, client)
            finally:
                socket.close()

    async def _encrypted(self, http: ClientSession, left: int) -> None:
        """A participant with an open transport: garbage in its data channels and inside its SRTP."""
        peer = RTCPeerConnection()
        try:
            channels = [peer.createDataChannel(label) for label in ("_reliable", "_lossy", "other")]
            await peer.setLocalDescription(await peer.createOffer())
            async with self._join(http) as client:
                await client.next("join")
                offer = rtc.SessionDescription(type="offer", sdp=peer.localDescription.sdp, id=1)
                await client.send(rtc.SignalRequest(offer=offer))
                answer = (await client.next("answer")).answer
                await peer.setRemoteDescription(RTCSessionDescription(sdp=answer.sdp, type="answer"))
                async with asyncio.timeout(OPEN_LIMIT):
                    while any(c.readyState != "open" for c in channels):  # noqa: ASYNC110 - no event of all three
                        await asyncio.sleep(0.01)
                for _ in range(min(left, 5000)):
                    if self._random.random() < 0.5:
                        self._random.choice(channels).send(self._data())
                    else:
                        with suppress(pylibsrtp.Error):  # our own side refuses to encrypt some of it
                            await peer.sctp.transport._send_rtp(self._packet())  # type: ignore[union-attr]
                    self.sent["encrypted"] += 1
                    if self.sent["encrypted"] % BURST == 0:
                        await client.send(rtc.SignalRequest(ping=1))
                        await client.next("pong", LIMIT)
        finally:
            await _settled(peer)
            await peer.close()

    def _data(self) -> bytes:
        user = models.UserPacket(payload=b"x" * self._random.choice((0, 10, 1000)), topic="t")
        packet = models.DataPacket(user=user, destination_identities=["nobody"], sequence=self._random.randrange(2**32))
        data = packet.SerializeToString()
        return data if self._random.random() < 0.2 else self._mutated(data)

    def _packet(self) -> bytes:
        if self._random.random() < 0.3:  # RTCP
            return bytes([0x80, self._random.choice((200, 201, 205, 206))]) + self._random.randbytes(26)
        head = bytes([self._random.choice((0x80, 0x90, 0x9F, 0xBF)), self._random.choice((111, 239, 0))])
        extension = b"\xbe\xde" + struct.pack("!H", self._random.choice((0, 1, 4)))
        ssrc = struct.pack("!I", self._random.choice((77, 0, 2**32 - 1)))
        return head + self._random.randbytes(6) + ssrc + extension + self._random.randbytes(24)

    # Websockets

    async def _signals(self, http: ClientSession, left: int) -> None:
        async with self._join(http) as client:
            await client.next("join")
            for _ in range(min(left, 20 * BURST)):
                message = self._random.choice(_requests(self._random))
                data = message.SerializeToString()
                kind = self._random.random()
                if kind < 0.5:
                    data = self._mutated(data)
                elif kind < 0.6:
                    data = self._random.randbytes(self._random.choice((1, 20, 500)))
                await client.ws.send_bytes(data)
                self.sent["signals"] += 1
                if self.sent["signals"] % BURST == 0:
                    await client.send(rtc.SignalRequest(ping=1))
                    await client.next("pong", LIMIT)

    async def _offers(self, http: ClientSession, left: int) -> None:
        async with self._join(http) as client:
            await client.next("join")
            for number in range(min(left, BURST)):
                sdp = self._mutated_offer()
                await client.send(rtc.SignalRequest(offer=rtc.SessionDescription(type="offer", sdp=sdp, id=number)))
                self.sent["offers"] += 1
            await client.send(rtc.SignalRequest(ping=1))
            await client.next("pong", LIMIT)

    def _mutated_offer(self) -> str:
        lines = OFFER.split("\r\n")
        for _ in range(self._random.randint(0, 3)):
            at = self._random.randrange(len(lines))
            match self._random.randrange(4):
                case 0:
                    del lines[at]
                case 1:
                    lines[at:at] = [lines[at]] * self._random.choice((1, 3, 300))
                case 2:
                    lines[at] = re.sub(r"\d+", str(self._random.choice((-1, 0, 99999999999999999999))), lines[at])
                case _:
                    lines[at] = self._mutated(lines[at].encode()).decode(errors="replace")
        return "\r\n".join(lines)

    async def _workers(self, http: ClientSession, left: int) -> None:
        async with WorkerClient(http, self._endpoint, agent_name=f"hostile-{self.sent['workers']}") as worker:
            valid = [
                agent.WorkerMessage(availability=agent.AvailabilityResponse(job_id="AJ_x", available=True)),
                agent.WorkerMessage(update_worker=agent.UpdateWorkerStatus(load=self._random.random())),
                agent.WorkerMessage(update_job=agent.UpdateJobStatus(job_id="AJ_x", status=agent.JS_FAILED, error="x")),
                agent.WorkerMessage(migrate_job=agent.MigrateJobRequest(job_ids=["AJ_x", "AJ_y"])),
            ]
            for _ in range(min(left, 5 * BURST)):
                data = self._mutated(self._random.choice(valid).SerializeToString())
                if self._random.random() < 0.2:
                    await worker.ws.send_str(data.decode(errors="replace"))
                else:
                    await worker.ws.send_bytes(data)
                self.sent["workers"] += 1

    # HTTP

    async def _http(self, http: ClientSession, left: int) -> None:
        base = self._endpoint.url.replace("ws://", "http://")
        good = self._endpoint.token("hostile", self._room)
        for _ in range(min(left, BURST)):
            token = self._random.choice(
                (
                    self._endpoint.token("hostile", self._room, ttl=-600.0),
                    self._endpoint.token("hostile", self._room, api_secret="another-secret-another-secret-another"),
                    good[:-4] + "AAAA",
                    ".".join([base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")] * 2) + ".",
                    "x" * self._random.choice((0, 1, 4000)),
                )
            )
            match self._random.randrange(4):
                case 0:
                    wrapped = rtc.WrappedJoinRequest(join_request=self._random.randbytes(40))
                    if self._random.random() < 0.5:
                        wrapped.compression = rtc.WrappedJoinRequest.GZIP
                    given = base64.urlsafe_b64encode(wrapped.SerializeToString()).decode()
                    query = {"access_token": good, "join_request": self._random.choice((given, "%%%", "A" * 9000))}
                    await self._get(http, f"{base}/rtc/v1/validate", query, low=200)  # some garbage parses
                case 1:
                    query = {"access_token": token, "join_request": join_parameter(rtc.JoinRequest())}
                    await self._get(http, f"{base}/rtc/v1", query)
                case 2:
                    url = (
                        f"{base}/twirp/livekit.{self._random.choice(('RoomService/SendData', 'RoomService/X', 'A/B'))}"
                    )
                    headers = {"Authorization": f"Bearer {self._random.choice((good, token))}".replace("\n", "")}
                    async with http.post(url, data=self._random.randbytes(100), headers=headers) as response:
                        await _expect(response, 200, 500)
                case _:
                    await self._half_open()
            self.sent["http"] += 1

    async def _get(self, http: ClientSession, url: str, query: dict[str, str], *, low: int = 400) -> None:
        async with http.get(url, params=query) as response:
            await _expect(response, low, 500)

    async def _half_open(self) -> None:
        """Begin a request that never ends, or that no server should read to its end."""
        host, _, port = self._endpoint.url.removeprefix("ws://").partition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        start = self._random.choice(
            (b"GET /rtc/v1", b"POST /twirp/x HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", b"\x16\x03\x01")
        )
        writer.write(start + self._random.choice((b"", b"A" * 200_000)))
        await asyncio.sleep(0.001)
        writer.transport.abort()


class Socket(asyncio.DatagramProtocol):
    """A UDP socket of an attacker."""

    def __init__(self) -> None:
        self._answered = asyncio.Event()
        self._transport: asyncio.DatagramTransport | None = None

    @classmethod
    async def open(cls, address: tuple[str, int]) -> Socket:
        loop = asyncio.get_running_loop()
        _, socket = await loop.create_datagram_endpoint(cls, remote_addr=address)
        return socket

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if data[:2] == b"\x01\x01":  # a Binding success
            self._answered.set()

    def send(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.sendto(data)

    async def settle(self, ufrag: str, pwd: str, client: SignalClient) -> None:
        """Return once the server has answered a good check, and so has seen everything before it.

        Raises:
            ConnectionError: The server has thrown the participant out.
        """
        self._answered.clear()
        loop = asyncio.get_running_loop()
        answered, gone = loop.create_task(self._answered.wait()), loop.create_task(client.closed(LIMIT))
        try:
            async with asyncio.timeout(LIMIT):
                while not answered.done() and not gone.done():
                    self.send(bytes(_check(ufrag, pwd)))
                    await asyncio.wait({answered, gone}, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
        finally:
            answered.cancel()
            gone.cancel()
            await asyncio.gather(answered, gone, return_exceptions=True)
        if not answered.done() or answered.cancelled():
            raise ConnectionResetError("thrown out")

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()


class FoundError(Exception):
    """The server broke a rule."""


async def _expect(response: ClientResponse, low: int, high: int) -> None:
    text = await response.text()
    if not low <= response.status < high:
        raise FoundError(f"status {response.status}, {low} to {high - 1} would be right: {text[:300]}")


async def _settled(peer: RTCPeerConnection) -> None:
    """Wait until ICE is through, well or badly: aioice leaves a task behind when it is closed while it connects."""
    with suppress(TimeoutError):
        async with asyncio.timeout(OPEN_LIMIT):
            while peer.iceConnectionState == "checking":  # noqa: ASYNC110 - its event may have come before
                await asyncio.sleep(0.01)


async def _connection(client: SignalClient) -> tuple[tuple[str, int], str, str]:
    """Offer, and return the server's media address and our credentials there."""
    await client.next("join")
    await client.send(rtc.SignalRequest(offer=rtc.SessionDescription(type="offer", sdp=OFFER, id=1)))
    sdp = (await client.next("answer")).answer.sdp
    found = {name: re.search(rf"a={name}:(\S+)", sdp) for name in ("ice-ufrag", "ice-pwd")}
    place = re.search(r"a=candidate:1 1 udp \d+ (\S+) (\d+)", sdp)
    ufrag, pwd = found["ice-ufrag"], found["ice-pwd"]
    assert ufrag is not None and pwd is not None and place is not None  # noqa: PT018 - one answer
    return (place[1], int(place[2])), ufrag[1], pwd[1]


def _check(ufrag: str, pwd: str) -> stun.Message:
    request = stun.Message(stun.Method.BINDING, stun.Class.REQUEST, attributes={"USERNAME": f"{ufrag}:them"})
    request.attributes["USE-CANDIDATE"] = None
    request.add_message_integrity(pwd.encode())
    return request


def _requests(chance: random.Random) -> list[rtc.SignalRequest]:
    return [
        rtc.SignalRequest(add_track=rtc.AddTrackRequest(cid=f"c{chance.randrange(99)}", type=models.AUDIO)),
        rtc.SignalRequest(mute=rtc.MuteTrackRequest(sid="TR_none", muted=True)),
        rtc.SignalRequest(subscription=rtc.UpdateSubscription(track_sids=["TR_none"] * 5, subscribe=True)),
        rtc.SignalRequest(update_metadata=rtc.UpdateParticipantMetadata(attributes={"a": "b" * chance.randrange(999)})),
        rtc.SignalRequest(trickle=rtc.TrickleRequest(candidateInit="{" * 50)),
        rtc.SignalRequest(ping_req=rtc.Ping(timestamp=chance.randrange(2**62))),
        rtc.SignalRequest(sync_state=rtc.SyncState()),
        rtc.SignalRequest(simulate=rtc.SimulateScenario(server_leave=True)),
    ]
