"""The UDP socket: claims to an address, and datagrams of strangers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aioice import stun

from vivavoce.agents.dev_room.ice import IceEndpoint, UdpMux


class Datagrams(asyncio.DatagramProtocol):
    """A client's socket: the received datagrams, in order."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[bytes] = asyncio.Queue()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.received.put_nowait(data)


class Client:
    def __init__(self, transport: asyncio.DatagramTransport, protocol: Datagrams) -> None:
        self.transport = transport
        self._protocol = protocol

    async def receive(self) -> bytes:
        async with asyncio.timeout(60):
            return await self._protocol.received.get()

    def send_check(self, ufrag: str, pwd: str) -> bytes:
        """Send a connectivity check and return its transaction id."""
        request = stun.Message(stun.Method.BINDING, stun.Class.REQUEST, attributes={"USERNAME": f"{ufrag}:them"})
        request.attributes["USE-CANDIDATE"] = None
        request.add_message_integrity(pwd.encode())
        self.transport.sendto(bytes(request))
        return request.transaction_id

    async def check(self, ufrag: str, pwd: str) -> stun.Message:
        """Send a connectivity check; the next datagram must be its answer, which is returned."""
        transaction_id = self.send_check(ufrag, pwd)
        answer = stun.parse_message(await self.receive())
        assert answer.transaction_id == transaction_id
        return answer


@pytest.fixture
async def mux() -> AsyncIterator[UdpMux]:
    mux = await UdpMux.open("127.0.0.1")
    yield mux
    await mux.aclose()


@pytest.fixture
async def client(mux: UdpMux) -> AsyncIterator[Client]:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_datagram_endpoint(Datagrams, remote_addr=mux.address)
    yield Client(transport, protocol)
    transport.close()
    await asyncio.sleep(0)  # noqa: TID251 - the socket closes in the next step of the loop


async def test_a_check_with_the_password_claims_the_address(mux: UdpMux, client: Client) -> None:
    media: list[bytes] = []
    endpoint = IceEndpoint(mux, media.append)
    answer = await client.check(*endpoint.credentials)
    assert answer.message_class == stun.Class.RESPONSE
    own = client.transport.get_extra_info("sockname")
    assert answer.attributes["XOR-MAPPED-ADDRESS"] == own
    assert endpoint.address == own

    endpoint.send(b"hello")
    assert await client.receive() == b"hello"
    client.transport.sendto(b"\x80media")
    client.transport.sendto(b"\x16dtls")
    assert await endpoint._recv() == b"\x16dtls"
    assert media == [b"\x80media"]


async def test_without_the_password_nothing_is_answered_or_claimed(mux: UdpMux, client: Client) -> None:
    endpoint = IceEndpoint(mux, lambda data: None)
    ufrag, pwd = endpoint.credentials
    for password in ("wrong", ""):
        request = stun.Message(stun.Method.BINDING, stun.Class.REQUEST, attributes={"USERNAME": f"{ufrag}:x"})
        if password:
            request.add_message_integrity(password.encode())
        client.transport.sendto(bytes(request))
    for rubbish in (b"\x00", b"\x00\x01" + bytes(18), b"\x80media", b"\x16dtls", b"\xff", bytes(1_000)):
        client.transport.sendto(rubbish)
    assert (await client.check(ufrag, pwd)).message_class == stun.Class.RESPONSE  # the first answer of all


async def test_after_a_restart_old_and_new_credentials_are_good_until_the_next(mux: UdpMux, client: Client) -> None:
    endpoint = IceEndpoint(mux, lambda data: None)
    endpoint.follow("first")
    endpoint.follow("first")
    first = endpoint.credentials
    endpoint.follow("second")
    second = endpoint.credentials
    assert first != second
    await client.check(*first)
    await client.check(*second)
    endpoint.follow("third")
    client.send_check(*first)
    await client.check(*second)  # the first answer that comes is to this one


async def test_a_closed_endpoint_ends_its_reader_and_is_forgotten(mux: UdpMux, client: Client) -> None:
    endpoint = IceEndpoint(mux, lambda data: None)
    credentials = endpoint.credentials
    await client.check(*credentials)
    endpoint.close()
    endpoint.close()  # safe to repeat
    with pytest.raises(ConnectionError):
        await endpoint._recv()
    endpoint.send(b"nothing")
    client.send_check(*credentials)
    await client.check(*IceEndpoint(mux, lambda data: None).credentials)  # the first answer that comes is to this one
