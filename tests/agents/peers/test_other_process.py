"""A peer in another process, found through a store: requests, dialogues, and its end by SIGKILL."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import pytest

from kit.dialogues import Ask, Offer, Talker, closed, letter, negotiation
from kit.servers.redis_server import running_redis_server
from kit.store_writer import opened
from kit.talking_peers import Answer, Question, running, talker
from vivavoce.agents.dialogues import DialogueContext, Envelope, MessageStatus
from vivavoce.agents.memory import SessionStore
from vivavoce.agents.peers import AgentRegistry, PeerChannel, PeerUnreachable
from vivavoce.agents.testing import Harnesses
from vivavoce.pipelines.core.ids import new_id

PROCESS = Path(__file__).parents[2] / "kit" / "peer_desk.py"


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.test_all("a Redis server takes seconds"))])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Where both processes find the store: file or URL, and prefix."""
    if request.param == "sqlite":
        yield str(tmp_path / "agents.sqlite"), "none"
        return
    with running_redis_server() as server:
        yield server.url, new_id("test")


@pytest.fixture
async def store(where: tuple[str, str]) -> AsyncIterator[SessionStore]:
    store = opened(*where)
    yield store
    await store.aclose()


@dataclass(frozen=True, eq=False)
class Receiver:
    """A member of a channel that takes everything."""

    id: str
    digests: frozenset[str]

    def receive(self, envelope: Envelope) -> MessageStatus:
        return envelope.status("delivered")


async def desk(url: str, prefix: str) -> asyncio.subprocess.Process:
    """A process that serves, and has told its address."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, str(PROCESS), url, prefix, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    await child.stdout.readline()
    return child


async def killed(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        child.kill()
    await child.wait()


@pytest.mark.timeout(60)
async def test_a_thousand_requests_in_flight_and_then_sigkill_each_request_ends_once(
    where: tuple[str, str], store: SessionStore
) -> None:
    child = await desk(*where)
    ends: Counter[int] = Counter()
    try:
        async with AgentRegistry(store) as registry, running(talker(registry=registry)) as asker:
            (card,) = await registry.find(domain="tests", capability="numbers")
            assert card.id == "desk"
            peer = await asker.peers.connect("desk")

            async def ask(number: int) -> None:
                answer = await peer.request(Question(number=number), answer=Answer, timeout=50)
                assert answer.number == number
                ends[number] += 1

            async with anyio.create_task_group() as tasks:
                for number in range(0, 2000, 2):
                    tasks.start_soon(ask, number)
            assert ends == Counter(range(0, 2000, 2))

            held: Counter[int] = Counter()

            async def hold(number: int) -> None:
                with pytest.raises(PeerUnreachable):
                    await peer.request(Question(number=number), timeout=50)
                held[number] += 1

            async with anyio.create_task_group() as tasks:
                for number in range(1, 2001, 2):
                    tasks.start_soon(hold, number)
                assert await peer.request(Question(number=0)) == {"number": 0}  # behind them: they are taken by now
                assert not held
                child.kill()
            assert held == Counter(range(1, 2001, 2))
            with pytest.raises(PeerUnreachable, match="no connection to"):
                await peer.request(Question(number=2))
            assert await registry.find(id="desk") == [card]  # for up to 15 s
    finally:
        await killed(child)


@pytest.mark.test_all("another process takes seconds to start")
@pytest.mark.timeout(60)
async def test_two_agents_of_two_processes_negotiate(where: tuple[str, str], store: SessionStore) -> None:
    child = await desk(*where)
    try:
        async with AgentRegistry(store) as registry, Harnesses() as calls:
            buyer = await calls.start(Talker(PeerChannel(registry), "buyer", negotiation()))
            offers: list[int] = []
            came = anyio.Event()

            @buyer.dialogue.on("offer", Offer)
            async def take(ctx: DialogueContext, sender: str, message: Offer) -> None:
                offers.append(message.price)
                came.set()

            (begun,) = await buyer.dialogue.start_dialogue(buyer.dialogue.digest, Ask(item="tea"))
            assert (begun.status, begun.destination) == ("delivered", "seller")
            await came.wait()
            assert offers == [3]
            await killed(child)
            (late,) = await buyer.dialogue.start_dialogue("seller", Ask(item="coffee"))
            assert late.status == "failed"
            await closed(buyer)
    finally:
        await killed(child)


@pytest.mark.test_all("another process takes seconds to start")
@pytest.mark.timeout(60)
async def test_a_thousand_messages_of_dialogues_are_on_their_way_and_then_sigkill_each_delivery_ends_once(
    where: tuple[str, str], store: SessionStore
) -> None:
    child = await desk(*where)
    ends: Counter[int] = Counter()
    try:
        async with AgentRegistry(store) as registry:
            channel, buyer = PeerChannel(registry), Receiver("buyer", frozenset({negotiation().digest}))
            await channel.join(buyer)
            ask = letter(negotiation(), Ask(item="tea"), sender="buyer")
            assert (await channel.deliver(ask)).status == "delivered"
            child.send_signal(signal.SIGSTOP)  # it takes nothing more, and its connections stay open

            async def send(number: int) -> None:
                status = await channel.deliver(replace(ask, session_id=str(number)))
                assert status.status == "failed"
                ends[number] += 1

            async with anyio.create_task_group() as tasks:
                for number in range(1000):
                    tasks.start_soon(send, number)
                await anyio.lowlevel.checkpoint()
                assert not ends
                child.kill()
            assert ends == Counter(range(1000))
            assert (await channel.deliver(ask)).status == "failed"
            await channel.leave(buyer)
    finally:
        await killed(child)


@pytest.mark.test_all("15 s of real time, since the lease is that of the store")
@pytest.mark.timeout(120)
async def test_the_entry_of_a_killed_process_ends(where: tuple[str, str], store: SessionStore) -> None:
    child = await desk(*where)
    try:
        async with AgentRegistry(store) as registry:
            assert [card.id for card in await registry.find()] == ["desk", "seller"]
            await killed(child)
            for _ in range(200):
                if not await registry.find():
                    break
                await anyio.sleep(0.5)
            assert await registry.find() == []
    finally:
        await killed(child)
