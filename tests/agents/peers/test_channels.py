"""The contract of channels: the one of a process, and the one between processes, each with two ends on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

import aiohttp
import anyio
import pytest

from kit.dialogues import Accept, Ask, Offer, Talker, closed, negotiation
from kit.dialogues import letter as envelope
from kit.talking_peers import raw
from vivavoce.agents.dialogues import (
    ChannelMember,
    DialogueContext,
    Envelope,
    LocalChannel,
    MessageChannel,
    MessageStatus,
)
from vivavoce.agents.peers import AgentCard, AgentRegistry, PeerChannel, PeerServer
from vivavoce.agents.testing import Harnesses
from vivavoce.pipelines.core.errors import ConfigurationError

DIGEST = "dialogue:1"


@dataclass(eq=False)
class Member:
    """Takes all messages, and says in the status what it got."""

    id: str
    digests: frozenset[str] = frozenset({DIGEST})
    got: list[str] = field(default_factory=list)

    def receive(self, envelope: Envelope) -> MessageStatus:
        self.got.append(envelope.content)
        return envelope.status("rejected" if envelope.content == "no" else "delivered", f"got {envelope.content}")


Ends = tuple[MessageChannel, MessageChannel]


@pytest.fixture(params=["local", "peers"])
async def ends(request: pytest.FixtureRequest) -> AsyncIterator[Ends]:
    """The channels of two agents."""
    if request.param == "local":
        channel = LocalChannel()
        yield channel, channel
        return
    async with AsyncExitStack() as stack:
        registry = await stack.enter_async_context(AgentRegistry())
        servers = [await stack.enter_async_context(PeerServer()) for _ in range(2)]
        yield PeerChannel(registry, servers[0]), PeerChannel(registry, servers[1])


def letter(content: str, receiver: str = "seller", sender: str = "buyer") -> Envelope:
    return Envelope(
        kind="message",
        dialogue=DIGEST,
        session_id="c",
        sender=sender,
        receiver=receiver,
        model="model:1",
        content=content,
    )


async def joined(ends: Ends) -> tuple[Member, Member]:
    buyer, seller = Member("buyer"), Member("seller")
    await ends[0].join(buyer)
    await ends[1].join(seller)
    return buyer, seller


async def left(ends: Ends, *members: ChannelMember) -> None:
    for channel, member in zip(ends, members, strict=True):
        await channel.leave(member)


async def test_members_find_and_reach_each_other_and_get_the_receiver_s_answer(ends: Ends) -> None:
    buyer, seller = await joined(ends)
    assert list(await ends[0].speakers(DIGEST)) == ["buyer", "seller"]
    assert list(await ends[0].speakers("dialogue:2")) == []
    for content, status in (("tea", "delivered"), ("no", "rejected")):
        assert await ends[0].deliver(letter(content)) == MessageStatus(
            status=status,  # type: ignore[arg-type]
            destination="seller",
            session_id="c",
            detail=f"got {content}",
        )
    back = await ends[1].deliver(letter("3", receiver="buyer", sender="seller"))
    assert (back.status, back.destination, buyer.got, seller.got) == ("delivered", "buyer", ["3"], ["tea", "no"])
    await left(ends, buyer, seller)


async def test_a_message_keeps_its_position_and_is_acknowledged_when_its_receiver_has_it_in_its_store(
    ends: Ends,
) -> None:
    @dataclass(eq=False)
    class Keeping(Member):
        positions: list[int] = field(default_factory=list)
        came: anyio.Event = field(default_factory=anyio.Event)
        store: anyio.Event = field(default_factory=anyio.Event)

        def receive(self, envelope: Envelope) -> MessageStatus:
            self.positions.append(envelope.position)
            self.came.set()
            return super().receive(envelope)

        async def kept(self) -> None:
            await self.store.wait()

    buyer, seller = Member("buyer"), Keeping("seller")
    await ends[0].join(buyer)
    await ends[1].join(seller)
    acknowledged: list[str] = []

    async def deliver() -> None:
        acknowledged.append((await ends[0].deliver(replace(letter("tea"), position=3))).status)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(deliver)
        await seller.came.wait()
        assert (await ends[0].deliver(letter("no"))).status == "rejected", "nothing is to be stored"
        assert acknowledged == []
        seller.store.set()
    assert (seller.positions, acknowledged) == ([3, 0], ["delivered"])
    await left(ends, buyer, seller)


async def test_a_thousand_messages_in_flight_come_in_their_order_and_each_gets_its_own_answer(ends: Ends) -> None:
    buyer, seller = await joined(ends)
    statuses: dict[str, MessageStatus] = {}

    async def send(content: str) -> None:
        statuses[content] = await ends[0].deliver(letter(content))

    async with anyio.create_task_group() as tasks:
        for number in range(1000):
            tasks.start_soon(send, str(number))
    assert {content: status.detail for content, status in statuses.items()} == {
        str(number): f"got {number}" for number in range(1000)
    }
    assert seller.got == [str(number) for number in range(1000)]
    await left(ends, buyer, seller)


async def test_an_agent_that_has_left_or_never_was_cannot_be_reached(ends: Ends) -> None:
    buyer, seller = await joined(ends)
    assert (await ends[0].deliver(letter("tea"))).status == "delivered"
    await ends[1].leave(seller)
    await ends[1].leave(seller)
    assert list(await ends[0].speakers(DIGEST)) == ["buyer"]
    assert (await ends[0].deliver(letter("more"))).status == "failed"
    assert (await ends[0].deliver(letter("x", receiver="nobody"))).status == "failed"
    await ends[1].join(seller)
    assert (await ends[0].deliver(letter("again"))).status == "delivered"
    assert seller.got == ["tea", "again"]
    await left(ends, buyer, seller)


async def test_a_channel_between_processes_is_that_of_one_event_loop() -> None:
    async with AgentRegistry() as registry:
        channel = PeerChannel(registry)
        await channel.join(first := Member("buyer"))
        with pytest.raises(ConfigurationError, match="the sessions of one event loop"):
            await anyio.to_thread.run_sync(asyncio.run, channel.join(Member("seller")))
        await channel.leave(first)
        await anyio.to_thread.run_sync(asyncio.run, channel.join(Member("seller")))


async def test_an_id_is_taken_once(ends: Ends) -> None:
    buyer, seller = await joined(ends)
    with pytest.raises(ConfigurationError, match="the channel has an agent 'buyer' already"):
        await ends[0].join(Member("buyer"))
    assert (await ends[1].deliver(letter("x", receiver="buyer", sender="seller"))).status == "delivered"
    await left(ends, buyer, seller)


async def test_two_agents_negotiate(ends: Ends) -> None:
    async with Harnesses() as calls:
        buyer = await calls.start(Talker(ends[0], "buyer", negotiation()))
        seller = await calls.start(Talker(ends[1], "seller", negotiation()))
        done = anyio.Event()

        @seller.dialogue.on("ask", Ask)
        async def offer(ctx: DialogueContext, sender: str, message: Ask) -> None:
            await ctx.send(sender, Offer(price=3))

        @buyer.dialogue.on("offer", Offer)
        async def accept(ctx: DialogueContext, sender: str, message: Offer) -> None:
            await ctx.send(sender, Accept())
            done.set()

        (begun,) = await buyer.dialogue.start_dialogue(buyer.dialogue.digest, Ask(item="tea"))
        assert (begun.status, begun.destination) == ("delivered", "seller")
        await done.wait()
        for side in (buyer, seller):
            assert side.dialogue.is_finished(begun.session_id)
            assert [one.model for one in side.dialogue.get_conversation(begun.session_id)] == ["Ask", "Offer", "Accept"]
            assert side.errors == []
        await closed(buyer, seller)


async def test_hostile_messages_are_refused_and_the_conversation_of_others_goes_on(ends: Ends) -> None:
    async with Harnesses() as calls:
        buyer = await calls.start(Talker(ends[0], "buyer", negotiation()))
        seller = await calls.start(Talker(ends[1], "seller", negotiation()))
        asked, go, accepted = anyio.Event(), anyio.Event(), anyio.Event()

        @seller.dialogue.on("ask", Ask)
        async def offer(ctx: DialogueContext, sender: str, message: Ask) -> None:
            if sender == "buyer":
                asked.set()
                await go.wait()
                await ctx.send(sender, Offer(price=3))

        @buyer.dialogue.on("offer", Offer)
        async def accept(ctx: DialogueContext, sender: str, message: Offer) -> None:
            await ctx.send(sender, Accept())

        @seller.dialogue.on("accept", Accept)
        async def note(ctx: DialogueContext, sender: str, message: Accept) -> None:
            accepted.set()

        (begun,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
        await asked.wait()
        fine, known = envelope(seller.dialogue, Ask(item="tea")), begun.session_id
        hostile = [
            *(
                replace(fine, content=content)
                for content in ("", "{", "[" * 50_000, '{"item": 7}', "\0", "x" * 2_000_000)
            ),
            replace(fine, dialogue="dialogue:other"),
            replace(fine, model="model:other"),
            replace(fine, model=""),
            replace(fine, session_id=""),
            replace(fine, receiver="nobody"),
            replace(fine, receiver=""),
            replace(fine, session_id=known),
            replace(envelope(seller.dialogue, Accept()), session_id=known),
            Envelope(kind="expired", dialogue=seller.dialogue.digest, session_id=known, sender="x", receiver="seller"),
        ]
        for one in hostile:
            assert (await ends[0].deliver(one)).status in ("rejected", "failed"), one
        assert await ends[0].deliver(fine) == fine.status("delivered"), "a stranger's own conversation is no harm"
        go.set()
        await accepted.wait()
        for side in (buyer, seller):
            assert [one.model for one in side.dialogue.get_conversation(known)] == ["Ask", "Offer", "Accept"]
            assert side.errors == []
        await closed(buyer, seller)


# --- between processes alone


def delivery(number: int, **fields: object) -> str:
    fields = {"dialogue": DIGEST, "session_id": "c", "sender": "x", "receiver": "seller", "model": "model:1", **fields}
    return json.dumps({"type": "delivery", "number": number, "content": "tea", **fields})


@pytest.mark.parametrize(
    "frames",
    [
        ["garbage"],
        [b"\x00\xff"],
        ['{"type": "outcome", "number": 7}'],
        ['{"type": "delivery", "number": 1}'],
        [delivery(1, content=7)],
        [delivery(1, kind="other")],
        [delivery(2), delivery(2)],
        [delivery(1), "[" * 50_000],
        ["x" * 2_000_000],
        ['{"type": "hello", "version": 1, "wants": "dialogues"}'],
    ],
    ids=lambda frames: str(frames[-1])[:40],
)
async def test_hostile_frames_end_their_own_connection_and_the_channel_goes_on(frames: list[str | bytes]) -> None:
    hello = json.dumps({"type": "hello", "version": 1, "wants": "dialogues", "dialogues": [DIGEST]})
    async with AgentRegistry() as registry, PeerServer() as server:
        ends = PeerChannel(registry), PeerChannel(registry, server)
        buyer, seller = await joined(ends)
        assert (await ends[0].deliver(letter("tea"))).status == "delivered"
        async with raw(server.url, hello) as socket:
            assert (await socket.receive()).type is aiohttp.WSMsgType.TEXT
            for frame in frames:
                await (socket.send_bytes(frame) if isinstance(frame, bytes) else socket.send_str(frame))
            kinds = [(await socket.receive()).type]
            while kinds[-1] is aiohttp.WSMsgType.TEXT:
                kinds.append((await socket.receive()).type)
            assert kinds[-1] in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
        assert (await ends[0].deliver(letter("more"))).status == "delivered"
        assert (await ends[1].deliver(letter("3", receiver="buyer", sender="seller"))).status == "delivered"
        assert (buyer.got, seller.got[0], seller.got[-1]) == (["3"], "tea", "more")
        await left(ends, buyer, seller)


async def test_a_message_over_a_channel_s_connection_to_no_agent_or_no_session_is_refused_and_it_goes_on() -> None:
    hello = json.dumps({"type": "hello", "version": 1, "wants": "dialogues", "dialogues": [DIGEST]})
    call = json.dumps({"type": "call", "number": 2, "wants_answer": True, "model": "", "content": "hi"})
    async with AgentRegistry() as registry, PeerServer() as server:
        ends = PeerChannel(registry), PeerChannel(registry, server)
        members = await joined(ends)
        async with raw(server.url, hello, delivery(1, receiver="nobody"), call, delivery(3)) as socket:
            outcomes: dict[int, str] = {}
            while len(outcomes) < 3:
                frame = json.loads((await socket.receive()).data)
                if frame["type"] == "outcome":
                    outcomes[frame["number"]] = frame["status"]
        assert outcomes == {1: "failed", 2: "rejected", 3: "delivered"}
        await left(ends, *members)


async def test_an_agent_without_a_server_starts_a_dialogue_and_is_answered_over_its_own_connection() -> None:
    async with AgentRegistry() as registry, PeerServer() as server:
        ends = PeerChannel(registry), PeerChannel(registry, server)
        buyer, seller = await joined(ends)
        assert list(await ends[0].speakers(DIGEST)) == ["buyer", "seller"]
        assert list(await ends[1].speakers(DIGEST)) == ["seller"]
        assert (await ends[1].deliver(letter("x", receiver="buyer", sender="seller"))).status == "failed"
        assert (await ends[0].deliver(letter("tea"))).status == "delivered"
        assert (await ends[1].deliver(letter("3", receiver="buyer", sender="seller"))).status == "delivered"
        assert buyer.got == ["3"]
        await left(ends, buyer, seller)


async def test_ends_without_a_common_dialogue_deliver_nothing() -> None:
    async with AgentRegistry() as registry, PeerServer() as server:
        ends = PeerChannel(registry), PeerChannel(registry, server)
        buyer, seller = Member("buyer", frozenset({"dialogue:2"})), Member("seller")
        await ends[0].join(buyer)
        await ends[1].join(seller)
        status = await ends[0].deliver(letter("tea"))
        assert status.status == "failed"
        assert "no dialogue in common: their digests differ" in status.detail
        assert seller.got == []
        await left(ends, buyer, seller)


async def test_a_card_of_the_application_stays_and_a_server_has_one_channel() -> None:
    async with AgentRegistry() as registry, PeerServer() as server:
        await registry.register(card := AgentCard("seller", server.url, domain="shops", dialogues=(DIGEST,)))
        channel, seller = PeerChannel(registry, server), Member("seller")
        await channel.join(seller)
        assert await registry.find(digest=DIGEST) == [card]
        await channel.leave(seller)
        assert await registry.find(domain="shops") == [card]
        with pytest.raises(ConfigurationError, match="a server has one PeerChannel"):
            PeerChannel(registry, server)
