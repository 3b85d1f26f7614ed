"""A recogniser's connection that is lost is opened again: it hears what the last one did not settle, times go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from kit.net_users import net_client
from kit.servers.faulty_server import LIMIT, Cut, FaultyServer, Message, Refuse, faulty_server
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    ProviderConnectionError,
    ProviderError,
    ProviderStatusError,
)
from vivavoce.pipelines.core.incidents import on_dropped_frames
from vivavoce.pipelines.core.reconnect import STABLE_AFTER
from vivavoce.pipelines.core.retry import on_retry
from vivavoce.pipelines.net.kept_audio import OVERLAP
from vivavoce.pipelines.net.outbox import MAX_QUEUED
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions, ReopeningSocket
from vivavoce.pipelines.net.sockets import OnLost, OnMessage, Socket, open_socket

FLUSH = "flush"
SECONDS = 0.25
"""Of each piece that the tests push."""

KEY = "a-very-secret-key-4711"


class Ahead(LoopClock):
    """A clock that a test sets forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


class Recogniser:
    """A stream as a plugin writes one: it says hello first, and notes what it gets."""

    def __init__(self, server: FaultyServer, options: ReopeningOptions) -> None:
        self._server = server
        self.client, self._failures = net_client(server.url, KEY)
        self.clock = Ahead()
        self.messages: list[Message] = []
        self.changed = asyncio.Event()
        self.lost: list[ProviderError] = []
        self.callbacks: list[tuple[OnMessage, OnLost]] = []
        self.socket: ReopeningSocket[str] = ReopeningSocket(
            self._connect,
            lambda item: item,
            on_message=self._take,
            on_lost=self._lose,
            provider="test",
            component="stt",
            options=options,
            clock=self.clock,
        )

    async def _connect(self, on_message: OnMessage, on_lost: OnLost) -> Socket:
        self.callbacks.append((on_message, on_lost))
        socket = await open_socket(
            self.client, "listen", (), self._failures, on_message=on_message, on_lost=on_lost, component="stt"
        )
        socket.start()
        socket.post("hello")
        return socket

    def push(self, items: str) -> None:
        for item in items:
            self.socket.push(item, SECONDS)

    async def is_over(self) -> ProviderError:
        """Wait until there will be no connection any more; return the reason."""
        with anyio.fail_after(LIMIT):
            while not self.lost:
                self.changed.clear()
                await self.changed.wait()
        return self.lost[0]

    async def got(self, count: int) -> list[Message]:
        """Wait until that many messages of the server were taken."""
        with anyio.fail_after(LIMIT):
            while len(self.messages) < count:
                self.changed.clear()
                await self.changed.wait()
        return self.messages

    async def aclose(self) -> None:
        await self.socket.aclose()
        await self.client.aclose()

    def _take(self, message: Message) -> None:
        self.messages.append(message)
        self.changed.set()

    def _lose(self, error: ProviderError) -> None:
        self.lost.append(error)
        self.changed.set()


@asynccontextmanager
async def recogniser(
    *waits: float, keep: float = 30.0, speed: float | None = None
) -> AsyncIterator[tuple[Recogniser, FaultyServer]]:
    async with faulty_server() as server:
        one = Recogniser(server, ReopeningOptions(waits=waits, keep_seconds=keep, speed=speed))
        await one.socket.open()
        try:
            yield one, server
        finally:
            await one.aclose()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


async def test_the_next_connection_hears_what_is_not_settled_and_what_came_in_between() -> None:
    async with recogniser(0.0) as (one, server):
        one.push("abcdefgh")
        await server.peer().got(9)
        one.socket.settle(1.0)  # the words of "abcd"
        assert one.socket.at(0.5) == 0.5
        server.peer().abort()
        one.push("i")  # the loss is not noticed yet, or just now
        second = await server.connected(2)
        one.push("j")
        assert await second.got(9) == ["hello", *"cdefghij"]
        assert one.socket.at(0.0) == 1.0 - OVERLAP
        assert one.socket.position == 10 * SECONDS
        assert one.lost == []


async def test_words_that_come_twice_are_known_by_their_times() -> None:
    async with recogniser(0.0) as (one, server):
        one.push("abcdefgh")
        one.socket.settle(1.0)
        server.peer().abort()
        await (await server.connected(2)).got(7)
        heard = [(0.1, 0.45), (0.55, 0.9)]  # by the clock of the second connection, which begins at 0.5
        times = [(one.socket.at(start), one.socket.at(end)) for start, end in heard]
        assert [one.socket.is_repeated(start, end) for start, end in times] == [True, False]


async def test_an_end_of_an_utterance_that_was_not_answered_is_told_again_in_its_place() -> None:
    async with recogniser(0.0) as (one, server):
        one.push("ab")
        one.socket.mark(FLUSH)
        one.push("cd")
        one.socket.mark(FLUSH)
        one.push("e")
        one.socket.settle(0.5)
        server.peer().abort()
        assert await (await server.connected(2)).got(7) == ["hello", "a", "b", "c", "d", FLUSH, "e"]


async def test_discarded_audio_is_not_sent_again() -> None:
    async with recogniser(0.0) as (one, server):
        one.push("abcd")
        one.socket.discard()
        one.push("e")
        server.peer().abort()
        assert await (await server.connected(2)).got(2) == ["hello", "e"]
        assert one.socket.at(0.0) == 1.0


async def test_a_message_of_an_earlier_connection_is_not_taken() -> None:
    async with recogniser(0.0) as (one, server):
        first = server.peer()
        await first.send("one")
        await one.got(1)
        first.abort()
        await (await server.connected(2)).send("two")
        assert await one.got(2) == ["one", "two"]


async def test_what_comes_late_of_an_earlier_connection_changes_nothing() -> None:
    async with recogniser(0.0) as (one, server):
        server.peer().abort()
        await (await server.connected(2)).send("two")
        await one.got(1)
        on_message, on_lost = one.callbacks[0]
        on_message("late")
        on_lost(ProviderConnectionError("late", provider="test"))
        await server.peer().send("three")
        assert await one.got(2) == ["two", "three"]
        assert len(server.peers) == 2


async def test_a_connection_that_is_too_slow_for_audio_is_left() -> None:
    async with recogniser(0.0, keep=1.0) as (one, server):
        server.peer().stop_reading()
        one.push("x" * (MAX_QUEUED + 1))
        one.push("abc")
        one.callbacks[0][0]("late")  # its audio will be heard again
        second = await server.connected(2)
        assert (await second.got(5))[-3:] == list("abc")
        assert one.messages == []


async def test_a_server_that_takes_no_audio_faster_gets_the_kept_audio_bit_by_bit_and_in_order() -> None:
    async with recogniser(0.0, 0.0, speed=50.0) as (one, server):
        one.push("abcd")
        server.peer().abort()
        second = await server.connected(2)
        await second.got(2)
        one.push("ef")
        one.socket.mark(FLUSH)
        one.push("g")
        assert await second.got(9) == ["hello", *"abcdef", FLUSH, "g"]
        second.abort()
        third = await server.connected(3)
        await third.got(2)
        one.clock.ahead += STABLE_AFTER
        third.abort()  # while audio waits
        assert await (await server.connected(4)).got(9) == ["hello", *"abcdef", FLUSH, "g"]
        assert one.lost == []


async def test_kept_audio_that_waits_holds_up_what_comes_behind_it() -> None:
    async with recogniser(0.0, speed=0.001) as (one, server):
        one.push("ab")
        server.peer().abort()
        second = await server.connected(2)
        await second.got(2)
        one.push("c")
        one.socket.post("now")  # what only the connection needs does not wait
        assert await second.got(3) == ["hello", "a", "now"]


async def test_a_handshake_is_no_recovery() -> None:
    async with recogniser(0.0, 0.0, 0.0) as (one, server):
        for count in range(1, 5):
            await (await server.connected(count)).close(1011, f"down {count}")
        error = await one.is_over()
        assert "down 4" in str(error)
        assert len(server.peers) == 4
        one.push("a")  # after the end


async def test_a_connection_that_lived_for_a_while_gives_the_next_one_all_tries() -> None:
    async with recogniser(0.0) as (one, server):
        for count in range(1, 5):
            peer = await server.connected(count)
            one.push("x")
            await peer.got(2)
            one.clock.ahead += STABLE_AFTER
            peer.abort()
        await server.connected(5)
        assert one.lost == []


async def test_the_last_reason_is_told_when_the_tries_run_out() -> None:
    async with recogniser(0.0, 0.0) as (one, server):
        server.faults += [Cut(), Refuse(503)]
        server.peer().abort()
        error = await one.is_over()
        assert isinstance(error, ProviderStatusError)
        assert error.status == 503


@pytest.mark.parametrize("fault", [Refuse(401), Refuse(429, {"retry-after": "60"})])
async def test_a_refusal_that_no_further_try_helps_ends_it_at_once(fault: Refuse) -> None:
    async with recogniser(0.0, 0.0, 0.0) as (one, server):
        server.faults += [fault]
        server.peer().abort()
        assert isinstance(await one.is_over(), ProviderStatusError)
        assert len(server.requests) == 2


async def test_a_close_for_good_ends_it_at_once() -> None:
    async with recogniser(0.0) as (one, server):
        await server.peer().close(4403, "model not in your plan")
        assert isinstance(await one.is_over(), ProviderStatusError)
        assert len(server.peers) == 1


async def test_a_wait_that_the_server_asks_for_is_kept() -> None:
    waits: list[float] = []

    async with recogniser(0.0, 0.0) as (one, server):
        loop = asyncio.get_running_loop()
        server.faults += [Refuse(429, {"retry-after": "0.2"})]
        began = loop.time()
        server.peer().abort()
        await server.connected(2)
        waits.append(loop.time() - began)
        assert one.lost == []
    assert waits[0] >= 0.2


async def test_the_unsettled_audio_is_there_for_another_recogniser() -> None:
    async with recogniser() as (one, server):
        one.push("ab")
        one.socket.mark(FLUSH)
        server.peer().abort()
        assert isinstance(await one.is_over(), ProviderConnectionError)
        assert [piece.item for piece in one.socket.unsettled] == ["a", "b", FLUSH]


async def test_audio_that_no_connection_heard_and_is_too_much_is_counted() -> None:
    lost: list[int] = []
    token = on_dropped_frames.set(lambda component, frames: lost.append(frames))
    try:
        async with recogniser(0.0, 0.2, keep=1.0) as (one, server):
            one.push("abcdefgh")  # heard: no loss
            await server.peer().got(9)
            server.faults += [Cut()]
            server.peer().abort()
            with anyio.fail_after(LIMIT):
                while len(server.requests) < 2:
                    await anyio.lowlevel.checkpoint()
            assert lost == []
            one.push("ijklmnop")
            second = await server.connected(2)
            assert (await second.got(6))[1:] == list("lmnop")
    finally:
        on_dropped_frames.reset(token)
    assert sum(lost) == 8


async def test_each_try_is_reported() -> None:
    tries: list[tuple[str, int]] = []
    token = on_retry.set(lambda error, number: tries.append((type(error).__name__, number)))
    try:
        async with recogniser(0.0, 0.0) as (_, server):
            server.faults += [Refuse(503)]
            server.peer().abort()
            await server.connected(2)
    finally:
        on_retry.reset(token)
    assert tries == [("ProviderConnectionError", 1), ("ProviderStatusError", 2)]


@pytest.mark.parametrize("moment", ["open", "lost", "waiting", "connecting"])
async def test_it_can_be_closed_at_each_moment(moment: str) -> None:
    before = asyncio.all_tasks()
    async with recogniser(5.0 if moment == "waiting" else 0.0) as (one, server):
        if moment == "connecting":
            server.faults += [Cut(), Cut()]
        if moment != "open":
            server.peer().abort()
            await server.peer().ended()
        if moment == "waiting":
            await anyio.lowlevel.checkpoint()
        await one.socket.aclose("goodbye")
        await one.socket.aclose()
        assert one.lost == []
        if moment == "open":
            await server.peer().ended()
            assert server.peer().received == ["hello", "goodbye"]
    assert asyncio.all_tasks() <= before


async def test_a_component_that_is_closed_ends_the_stream_with_the_next_loss() -> None:
    async with recogniser(0.0) as (one, server):
        await one.client.aclose()
        server.peer().abort()
        assert "closed; make another one" in str(await one.is_over())
        assert not (await one.is_over()).retryable


async def test_audio_that_comes_behind_the_last_connection_is_for_the_next_stream() -> None:
    async with recogniser() as (one, server):
        one.push("a")
        await server.peer().got(2)
        server.peer().abort()
        await one.is_over()
        one.push("b")
        one.socket.mark(FLUSH)
        assert [piece.item for piece in one.socket.unsettled] == ["a", "b", FLUSH]


async def test_a_first_connection_that_fails_raises() -> None:
    async with faulty_server() as server:
        server.faults += [Refuse(503)]
        one = Recogniser(server, ReopeningOptions())
        with pytest.raises(ProviderStatusError):
            await one.socket.open()
        await one.aclose()
        assert len(server.requests) == 1


async def test_a_hundred_losses_lose_no_audio() -> None:
    async with recogniser(0.0) as (one, server):
        heard = 0
        for number in range(100):
            peer = await server.connected(number + 1)
            one.push("x")
            received = (await peer.got(2))[1:]
            assert received
            heard += 1
            one.socket.settle(heard * SECONDS)
            one.clock.ahead += STABLE_AFTER
            if number % 2:
                peer.abort()
            else:
                await peer.close(1011)
        await server.connected(101)
        assert one.socket.position == 100 * SECONDS
        assert one.lost == []


@pytest.mark.parametrize("fields", [{"waits": (-1.0,)}, {"keep_seconds": 0.0}, {"speed": 0.0}])
def test_options_check_themselves(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        ReopeningOptions(**fields)
