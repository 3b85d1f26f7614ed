"""A websocket's life: what waits is sent in order, the close is bounded, and nothing is left."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from aiohttp import WSMessage, WSMsgType

from kit.net_users import net_client
from kit.servers.faulty_server import FaultyServer, Message, faulty_server
from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError, ProviderTimeoutError
from vivavoce.pipelines.net import outbox, sockets
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.outbox import KeepAlive
from vivavoce.pipelines.net.sockets import Socket, open_socket
from vivavoce.plugins.google.twin.certificate import make_certificate

STEPS = 100
"""Steps of the loop in which both ends of a connection learn that it is cut."""


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


class World:
    """A socket, and what it reports."""

    def __init__(self, socket: Socket, messages: list[Message], lost: list[ProviderError]) -> None:
        self.socket = socket
        self.messages = messages
        self.lost = lost

    async def ended(self) -> ProviderError:
        """Return the reason of the end."""
        with anyio.fail_after(15):
            while not self.lost:
                await anyio.lowlevel.checkpoint()
        return self.lost[0]


@asynccontextmanager
async def opened(server: FaultyServer, keep_alive: KeepAlive[Message] | None = None) -> AsyncIterator[World]:
    client, failures = net_client(server.url, "key")
    messages: list[Message] = []
    lost: list[ProviderError] = []
    socket = await open_socket(
        client,
        "listen",
        {"model": "m"},
        failures,
        on_message=messages.append,
        on_lost=lost.append,
        component="stt",
        keep_alive=keep_alive,
        headers={"X-Connect": "1"},
        protocols=("usp",),
    )
    socket.start()
    await client.aclose()  # the component's end is not that of its open websockets
    try:
        yield World(socket, messages, lost)
    finally:
        await socket.aclose()


async def test_texts_and_bytes_are_sent_in_order_and_the_last_ones_with_the_close() -> None:
    async with faulty_server() as server:
        async with opened(server) as world:
            world.socket.post("one")
            world.socket.post(b"\x00\x01", is_audio=True)
            await server.peer().got(2)
            await world.socket.aclose("CloseStream", b"")
            assert world.socket.is_lost
            world.socket.post("after the end")
        await server.peer().ended()
        assert server.peer().received == ["one", b"\x00\x01", "CloseStream", b""]
        assert (server.requests[0]["X-Connect"], server.requests[0]["Sec-WebSocket-Protocol"]) == ("1", "usp")
        assert world.lost == []


async def test_a_quiet_connection_is_kept_by_a_message() -> None:
    async with faulty_server() as server, opened(server, KeepAlive(0.02, '{"type":"KeepAlive"}')) as world:
        await server.peer().got(2)
        world.socket.post("one")
        assert "one" in await server.peer().got(4)
        assert set(server.peer().received) == {"one", '{"type":"KeepAlive"}'}


async def test_a_server_that_is_never_ready_is_given_up() -> None:
    async with faulty_server() as server, opened(server) as world:
        with pytest.raises(ProviderTimeoutError, match="not ready within 0.05 s"):
            await world.socket.until(lambda: bool(world.messages), 0.05)
        await server.peer().send("ready")
        await world.socket.until(lambda: bool(world.messages), 10)
        server.peer().abort()
        with pytest.raises(ProviderConnectionError):
            await world.socket.until(lambda: False, 10)


async def test_a_server_that_reads_nothing_for_too_long_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "SEND_LIMIT", 0.1)
    async with faulty_server() as server, opened(server) as world:
        server.peer().stop_reading()
        for _ in range(200):
            world.socket.post(b"\x00" * 100_000)
        error = await world.ended()
        assert "nothing could be sent for 0.1 s" in str(error)
        assert error.retryable


async def test_a_server_that_answers_no_ping_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vivavoce.pipelines.net.client.HEARTBEAT", 0.1)
    async with faulty_server() as server, opened(server) as world:
        server.peer().stop_reading()
        error = await world.ended()
        assert "answers no pings" in str(error)
        assert error.retryable


async def test_a_message_that_is_too_long_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vivavoce.pipelines.net.client.MAX_MESSAGE", 1000)
    async with faulty_server() as server, opened(server) as world:
        await server.peer().send("x" * 2000)
        assert "breaks the protocol" in str(await world.ended())


async def test_a_plugin_that_fails_on_a_message_loses_the_connection_and_nothing_else() -> None:
    async with faulty_server() as server:
        client, failures = net_client(server.url, "key")
        lost: list[ProviderError] = []

        def fail(message: Message) -> None:
            raise KeyError(message)

        socket = await open_socket(client, "", (), failures, on_message=fail, on_lost=lost.append, component="stt")
        socket.start()
        await server.peer().send("x")
        with pytest.raises(ProviderError, match="KeyError"):
            await socket.until(lambda: False, 10)
        assert lost[0].retryable
        await socket.aclose()
        await client.aclose()


async def test_a_close_that_is_cut_leaves_no_connection_open() -> None:
    async with faulty_server() as server:
        before = asyncio.all_tasks()
        async with opened(server) as world:
            with anyio.CancelScope() as cut:
                cut.cancel()
                await world.socket.aclose()
            for _ in range(STEPS):
                await anyio.lowlevel.checkpoint()
            assert asyncio.all_tasks() == before  # the server's tasks for the connection are gone too


async def test_a_close_that_takes_too_long_ends_the_websocket_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "CLOSE_LIMIT", 0.0)  # it is over before the server can answer
    async with faulty_server() as server:
        before = asyncio.all_tasks()
        async with opened(server) as world:
            await world.socket.aclose()
        for _ in range(STEPS):
            await anyio.lowlevel.checkpoint()
        assert asyncio.all_tasks() == before


async def test_a_close_over_tls_does_not_wait_for_a_server_that_reads_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    certificate = make_certificate(tmp_path)
    monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", ssl.create_default_context(cafile=certificate))
    monkeypatch.setattr(sockets, "CLOSE_LIMIT", 0.05)
    async with faulty_server(certificate=certificate) as server:
        async with opened(server) as world:
            server.peer().stop_reading()
            before = open_files()
            await world.socket.aclose()
            for _ in range(STEPS):
                await anyio.lowlevel.checkpoint()
            assert open_files() == before - 1


class Broken:
    """A websocket that takes no more bytes, and whose close frame is read only then."""

    protocol = None

    def __init__(self, code: int | None) -> None:
        self._code = code
        self._has_failed = asyncio.Event()

    async def send_str(self, text: str) -> None:
        self._has_failed.set()
        raise ConnectionResetError(104, "Connection reset by peer")

    async def receive(self) -> WSMessage:
        await self._has_failed.wait()
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        if self._code is None:
            await asyncio.Event().wait()
        return WSMessage(WSMsgType.CLOSE, self._code, "model not in your plan")

    async def close(self) -> None:
        """Nothing is left to close."""

    def abort(self) -> None:
        """The same."""


@pytest.mark.parametrize(("code", "reason"), [(4403, "model not in your plan"), (None, "reset by peer")])
async def test_a_send_that_fails_waits_for_the_servers_own_reason(
    code: int | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "REASON_LIMIT", 0.5 if code else 0.01)
    lost: list[ProviderError] = []
    broken: Any = Broken(code)
    socket = Socket(broken, Failures(provider="test"), on_message=print, on_lost=lost.append, component="stt")
    socket.start()
    socket.post("one")
    with pytest.raises(ProviderError, match=reason):
        await socket.until(lambda: False, 15)
    assert len(lost) == 1
    await socket.aclose()


def open_files() -> int:
    """Return how many files and sockets the process has open."""
    return len(os.listdir("/proc/self/fd"))
