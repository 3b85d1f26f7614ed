"""Connections at their ends: closes and cancellations at each moment, and what stays of them."""

from __future__ import annotations

import asyncio
import gc
import json
from dataclasses import dataclass
from typing import Any

import aiohttp
import anyio
import pytest
from anyio import wait_all_tasks_blocked
from anyio.lowlevel import checkpoint

from kit.talking_peers import Question, answering, raw, running, talker
from vivavoce.agents import Agent, AgentSession
from vivavoce.agents.dialogues import Envelope, MessageStatus
from vivavoce.agents.memory import InProcessStore
from vivavoce.agents.memory.stores.store import Place
from vivavoce.agents.peers import AgentCard, AgentRegistry, Peer, PeerChannel, PeerServer, PeerUnreachable, control
from vivavoce.agents.peers.link import Link
from vivavoce.agents.peers.wire import Call, Delivery, Hello, Outcome, PeerWire, encode
from vivavoce.pipelines.core.errors import PeerRejected, SessionClosedError

HELLO = encode(Hello(id="theirs"))


class Door:
    """A server whose sessions start, and whose connections so begin, when it is opened."""

    def __init__(self) -> None:
        self.came = anyio.Event()
        self.may_begin = anyio.Event()
        self.sessions: list[AgentSession[Any]] = []

    def make(self) -> AgentSession[Any]:
        door = self

        class Late(Agent):
            async def on_enter(self) -> None:
                door.came.set()
                await door.may_begin.wait()

        self.sessions.append(answering(talker("desk", agent=Late("x", id="desk"))))
        return self.sessions[-1]


async def test_a_peer_of_a_session_that_is_closed_does_not_connect_again() -> None:
    door = Door()
    door.may_begin.set()
    async with PeerServer(door.make) as server:
        async with running(talker()) as asker:
            peer = await asker.peers.connect(server.url)
            assert await peer.request(Question(number=1)) == {"number": 1}
        with pytest.raises(PeerUnreachable, match="was closed"):
            await peer.request(Question(number=2))
        assert len(door.sessions) == 1


@pytest.mark.parametrize("closes_session", [True, False])
async def test_a_connection_that_comes_after_the_close_of_its_side_ends_at_once(closes_session: bool) -> None:
    door = Door()
    async with PeerServer(door.make) as server, talker() as asker:
        await asker.start()
        door.may_begin.set()
        peer = await asker.peers.connect(server.url)
        await door.sessions[0].close()
        door.came, door.may_begin = anyio.Event(), anyio.Event()

        async def ask() -> None:
            failure = ""
            while "was closed" not in failure:  # at first the connection to the earlier session is lost
                with pytest.raises(PeerUnreachable) as caught:
                    await peer.request(Question(number=1))
                failure = str(caught.value)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await door.came.wait()
            await (asker.close() if closes_session else peer.aclose())
            door.may_begin.set()
        await door.sessions[1].wait_closed()


async def test_a_session_that_closes_while_the_registry_is_asked_does_not_connect() -> None:
    class Slow(InProcessStore):
        asked, may_answer = anyio.Event(), anyio.Event()

        async def read(self, place: Place, entry: str) -> str | None:
            self.asked.set()
            await self.may_answer.wait()
            return await super().read(place, entry)

    store, door = Slow(), Door()
    door.may_begin.set()
    async with AgentRegistry(store) as registry, PeerServer(door.make) as server:
        await registry.register(AgentCard("desk", server.url))
        async with running(talker(registry=registry)) as asker, anyio.create_task_group() as tasks:

            async def connect() -> None:
                with pytest.raises(SessionClosedError):
                    await asker.peers.connect("desk")

            tasks.start_soon(connect)
            await store.asked.wait()
            await asker.close()
            store.may_answer.set()
        assert door.sessions == []


async def test_a_request_that_is_cancelled_before_its_handler_begins_never_begins() -> None:
    begun: list[int] = []
    async with PeerServer() as server, running(talker("desk")) as desk:
        server.add(desk)

        @desk.peers.on_message(Question)
        async def answer(peer: Peer, question: Question) -> None:
            begun.append(question.number)
            if question.number == 1:
                await anyio.sleep_forever()

        async with raw(server.url_of(desk), HELLO) as socket:
            await socket.receive()
            for frame in (call(1), {"type": "cancel", "number": 1}, call(2)):
                await socket.send_str(json.dumps(frame))
            assert json.loads((await socket.receive()).data)["number"] == 2
    assert begun == [2]


def call(number: int) -> dict[str, object]:
    content = {"number": number}
    return {"type": "call", "number": number, "wants_answer": True, "model": "Question", "content": content}


async def test_a_flood_of_messages_fails_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "MAX_AT_WORK", 5)
    may_end = anyio.Event()
    async with PeerServer() as server, running(talker("desk")) as desk, running(talker()) as asker:
        server.add(desk)

        @desk.peers.on_message(Question)
        async def answer(peer: Peer, question: Question) -> None:
            await may_end.wait()

        peer = await asker.peers.connect(server.url_of(desk))
        taken = 0
        with pytest.raises(PeerRejected, match="handlers of 5 messages run"):  # noqa: PT012 - one of them raises
            for _ in range(50):
                await peer.send(Question())
                taken += 1
        assert taken >= 5
        may_end.set()
        while True:
            try:
                await peer.send(Question())
                break
            except PeerRejected:
                await checkpoint()


class Cut:
    """A WebSocket that takes one frame and is then lost, which its reader does not know yet."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def send_str(self, text: str) -> None:
        if self.sent:
            raise ConnectionResetError("Cannot write to closing transport")
        self.sent.append(text)

    async def receive(self) -> None:
        await anyio.sleep_forever()

    async def close(self, *, code: int) -> None:
        pass


class Side:
    async def take(self, call: Call) -> Outcome:
        raise AssertionError

    async def deliver(self, delivery: Delivery, link: Link) -> Outcome:
        raise AssertionError


async def test_a_request_that_is_cancelled_as_its_connection_is_lost_is_cancelled() -> None:
    link = Link(socket := Cut(), PeerWire(Hello()), Side())
    asked = asyncio.ensure_future(link.ask(Call(wants_answer=True)))
    while not socket.sent:
        await checkpoint()
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked


DIGEST = "dialogue:1"


@dataclass(eq=False)
class Member:
    id: str
    digests: frozenset[str] = frozenset({DIGEST})

    def receive(self, envelope: Envelope) -> MessageStatus:
        return envelope.status("delivered")


def links() -> int:
    """Return the number of connections that are kept anywhere."""
    gc.collect()
    return sum(isinstance(one, Link) for one in gc.get_objects())


async def test_a_channel_keeps_no_connections_of_agents_that_have_left() -> None:
    before = links()
    async with AgentRegistry() as registry, PeerServer() as server:
        channel = PeerChannel(registry, server)
        await channel.join(member := Member("desk"))
        hello = encode(Hello(wants="dialogues", dialogues=(DIGEST,)))
        for number in range(1, 50):
            async with raw(server.url, hello) as socket:
                await socket.receive()
                sender = f"caller-{number}"
                frame = Delivery(number=1, dialogue=DIGEST, session_id="c", sender=sender, receiver="desk")
                await socket.send_str(encode(frame))
                assert json.loads((await socket.receive()).data)["status"] == "delivered"
        assert links() - before <= 18
        await channel.leave(member)


async def test_a_channel_keeps_no_connections_to_servers_that_have_gone() -> None:
    before = links()
    async with AgentRegistry() as registry, PeerServer() as server:
        channel = PeerChannel(registry, server)
        await channel.join(member := Member("desk"))
        for number in range(1, 50):
            async with PeerServer() as other:
                far = PeerChannel(registry, other)
                await far.join(seller := Member(f"seller-{number}"))
                letter = Envelope(kind="message", dialogue=DIGEST, session_id="c", sender="desk", receiver=seller.id)
                assert (await channel.deliver(letter)).status == "delivered"
                await far.leave(seller)
            await wait_all_tasks_blocked()
        assert links() - before <= 18
        await channel.leave(member)


async def test_a_connection_that_begins_as_its_server_ends_is_closed() -> None:
    door = Door()
    with anyio.fail_after(8):
        async with (
            PeerServer(door.make) as server,
            raw(server.url, HELLO) as socket,
            anyio.create_task_group() as tasks,
        ):
            await door.came.wait()
            tasks.start_soon(server.__aexit__, None, None, None)
            await wait_all_tasks_blocked()
            door.may_begin.set()
            while (await socket.receive()).type is aiohttp.WSMsgType.TEXT:
                pass
        await door.sessions[0].wait_closed()


async def test_a_server_that_ends_waits_for_no_client_without_a_hello() -> None:
    with anyio.fail_after(8):
        async with PeerServer() as server, raw(server.url) as silent:
            await wait_all_tasks_blocked()
            await server.__aexit__(None, None, None)
            assert (await silent.receive()).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
