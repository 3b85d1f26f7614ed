"""Dialogues over time: idle conversations, the life of a session, and channels that fail, in virtual time."""

from __future__ import annotations

import anyio
import pytest

from kit.dialogues import Accept, Ask, Offer, Talker, closed, letter, negotiation, pair
from vivavoce.agents import Agent
from vivavoce.agents.core.message_channel import ChannelMember, Envelope
from vivavoce.agents.dialogues import Dialogue, DialogueContext, DialogueOptions, LocalChannel, MessageStatus
from vivavoce.agents.dialogues.conversations import MAX_CONVERSATIONS
from vivavoce.agents.states import CloseReason
from vivavoce.agents.testing import Harnesses, VirtualClock
from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    SessionClosedError,
    SessionError,
)


def test_an_idle_conversation_is_removed_on_both_sides_with_an_event() -> None:
    async def test(calls: Harnesses) -> None:
        buyer, seller = await pair(calls, LocalChannel())
        (first,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
        await anyio.sleep(30.0)
        (second,) = await buyer.dialogue.start_dialogue("seller", Ask(item="coffee"))
        await anyio.sleep(29.9)
        assert buyer.dialogue.get_current_state(first.session_id) == "asked"
        await anyio.sleep(0.2)
        for side, peer in ((buyer, "seller"), (seller, "buyer")):
            (event,) = side.expired
            assert (event.dialogue, event.session_id, event.peer, event.state, event.is_finished) == (
                "negotiation",
                first.session_id,
                peer,
                "asked",
                False,
            )
            assert event.at == pytest.approx(60.0, abs=0.1)
            assert side.dialogue.get_current_state(first.session_id) == ""
            assert side.dialogue.get_current_state(second.session_id) == "asked"
        await anyio.sleep(30.0)
        assert [one.session_id for one in seller.expired] == [first.session_id, second.session_id]
        assert seller.errors == buyer.errors == []
        await closed(buyer, seller)

    Harnesses().run(test)


def test_the_side_with_the_shorter_timeout_has_the_other_remove_the_conversation_too() -> None:
    async def test(calls: Harnesses) -> None:
        channel = LocalChannel()
        buyer = await calls.start(Talker(channel, "buyer", negotiation(timeout=0)))
        seller = await calls.start(Talker(channel, "seller", negotiation(timeout=5)))
        (begun,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
        stranger = letter(buyer.dialogue, Ask(item="x"), kind="expired", session_id=begun.session_id, receiver="buyer")
        assert (await channel.deliver(stranger)).status == "rejected"
        await anyio.sleep(4.9)
        assert buyer.expired == seller.expired == []
        await anyio.sleep(0.2)
        assert [one.peer for one in buyer.expired] == ["seller"]
        assert [one.peer for one in seller.expired] == ["buyer"]
        await closed(buyer, seller)

    Harnesses().run(test)


def test_without_a_timeout_a_conversation_stays_and_its_messages_are_readable_after_the_close() -> None:
    async def test(calls: Harnesses) -> None:
        channel = LocalChannel()
        buyer = await calls.start(Talker(channel, "buyer", negotiation(timeout=0)))
        seller = await calls.start(Talker(channel, "seller", negotiation(timeout=0)))
        (begun,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
        await anyio.sleep(3000.0)
        assert seller.dialogue.get_current_state(begun.session_id) == "asked"
        await closed(buyer, seller)
        assert len(seller.dialogue.get_conversation(begun.session_id)) == 1
        assert seller.expired == []

    Harnesses().run(test)


def test_one_conversation_too_many_removes_the_longest_idle_one_on_both_sides_even_without_a_timeout() -> None:
    async def test(calls: Harnesses) -> None:
        channel = LocalChannel()
        buyer = await calls.start(Talker(channel, "buyer", negotiation(timeout=0)))
        seller = await calls.start(Talker(channel, "seller", negotiation(timeout=0)))
        (begun,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
        for number in range(MAX_CONVERSATIONS - 1):
            buyer.dialogue.update_state(Ask, f"c{number}")
        await anyio.sleep(1.0)
        assert buyer.expired == seller.expired == []
        buyer.dialogue.update_state(Ask, "one more")
        await anyio.sleep(1.0)
        for side, peer in ((buyer, "seller"), (seller, "buyer")):
            assert [(one.session_id, one.peer) for one in side.expired] == [(begun.session_id, peer)]
            assert side.dialogue.get_current_state(begun.session_id) == ""
            assert side.errors == []
        assert buyer.dialogue.get_current_state("c0") == "asked"
        await closed(buyer, seller)

    Harnesses().run(test)


def test_a_removed_conversation_takes_no_further_message_of_its_handler() -> None:
    async def test(calls: Harnesses) -> None:
        buyer, seller = await pair(calls, LocalChannel())
        statuses: list[MessageStatus] = []

        @seller.dialogue.on("ask", Ask)
        async def late(ctx: DialogueContext, sender: str, message: Ask) -> None:
            seller.dialogue.cleanup_conversation(ctx.session_id)
            statuses.append(await ctx.send(sender, Offer(price=3)))

        await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
        await anyio.sleep(1.0)
        assert [(one.status, one.detail) for one in statuses] == [("failed", "the conversation was removed")]
        await closed(buyer, seller)

    Harnesses().run(test)


# --- the life of a session


def test_a_closed_session_has_left_the_channel_and_its_dialogue_serves_another_one_afresh() -> None:
    async def test(calls: Harnesses) -> None:
        channel = LocalChannel()
        buyer, seller = await pair(calls, channel)
        (begun,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
        second = Talker(channel, "second", seller.dialogue)
        with pytest.raises(
            SessionError, match="the dialogue 'negotiation' is in session 'call of seller'; one dialogue"
        ):
            await calls.start(second)
        await closed(seller)
        assert await channel.speakers(buyer.dialogue.digest) == ["buyer"]
        with pytest.raises(SessionClosedError, match="the dialogue 'negotiation' is no longer in its session"):
            await seller.dialogue.start_dialogue("buyer", Ask(item="tea"))
        third = await calls.start(Talker(channel, "third", seller.dialogue))
        assert third.dialogue.get_current_state(begun.session_id) == ""
        (status,) = await third.dialogue.start_dialogue("buyer", Ask(item="tea"))
        assert status.status == "delivered"
        await closed(buyer, third)
        assert await channel.speakers(buyer.dialogue.digest) == []

    Harnesses().run(test)


def test_a_message_to_a_session_that_is_gone_fails_and_the_conversation_stays_where_it_was() -> None:
    async def test(calls: Harnesses) -> None:
        buyer, seller = await pair(calls, LocalChannel())
        statuses: list[MessageStatus] = []

        @buyer.dialogue.on("offer", Offer)
        async def accept(ctx: DialogueContext, sender: str, message: Offer) -> None:
            await seller.session.close()
            statuses.append(await ctx.send(sender, Accept()))

        @seller.dialogue.on("ask", Ask)
        async def offer(ctx: DialogueContext, sender: str, message: Ask) -> None:
            await ctx.send(sender, Offer(price=3))

        (begun,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
        await anyio.sleep(5.0)
        assert [(one.status, one.detail) for one in statuses] == [("failed", "the channel has no agent 'seller'")]
        assert buyer.dialogue.get_current_state(begun.session_id) == "offered"
        await closed(buyer)

    Harnesses().run(test)


class Host(Agent):
    """Talks to the seller when it enters and when it leaves."""

    def __init__(self, dialogue: Dialogue) -> None:
        super().__init__("Be brief.", id="host")
        self.dialogue = dialogue
        self.statuses: list[MessageStatus] = []

    async def on_enter(self) -> None:
        self.statuses += await self.dialogue.start_dialogue("seller", Ask(item="in"))

    async def on_exit(self) -> None:
        self.statuses += await self.dialogue.start_dialogue("seller", Ask(item="out"))


def test_an_agent_may_start_dialogues_from_on_enter_to_on_exit() -> None:
    async def test(calls: Harnesses) -> None:
        channel = LocalChannel()
        seller = await calls.start(Talker(channel, "seller"))
        seller.logs("ask")
        dialogue = negotiation()
        host = Host(dialogue)
        talker = await calls.start(Talker(channel, "host", dialogue, agent=host))
        await talker.session.close()
        await anyio.sleep(1.0)
        assert [one.status for one in host.statuses] == ["delivered", "delivered"]
        assert seller.log == ["host: Ask(item='in')", "host: Ask(item='out')"]
        assert talker.errors == []
        await closed(seller)

    Harnesses().run(test)


def test_the_address_stays_with_the_session_through_a_handoff() -> None:
    async def test(calls: Harnesses) -> None:
        buyer, seller = await pair(calls, LocalChannel())
        seller.logs("ask")
        await seller.session.update_agent(Agent("Be brief.", id="colleague"))
        (status,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
        await anyio.sleep(1.0)
        assert status.status == "delivered"
        assert seller.log == ["buyer: Ask(item='tea')"]
        await closed(buyer, seller)

    Harnesses().run(test)


def test_two_agents_of_one_id_cannot_be_on_one_channel_and_the_start_of_the_second_is_undone() -> None:
    async def test(calls: Harnesses) -> None:
        channel = LocalChannel()
        first, second = Talker(channel, "desk"), Talker(channel, "desk")
        await calls.start(first)
        with pytest.raises(ConfigurationError, match="the channel has an agent 'desk' already; give each one an id"):
            await calls.start(second)
        assert await channel.speakers(first.dialogue.digest) == ["desk"], "the first one stays"
        await closed(first)

    Harnesses().run(test)


class BrokenChannel(LocalChannel):
    """Hangs, or raises, in one of its methods, from when that is set."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self._fault = fault
        self.method = ""

    async def _act(self, method: str) -> None:
        if method == self.method:
            if self._fault == "raises":
                raise ValueError("scripted")
            await anyio.sleep_forever()

    async def join(self, member: ChannelMember) -> None:
        await self._act("join")
        await super().join(member)

    async def leave(self, member: ChannelMember) -> None:
        await self._act("leave")
        await super().leave(member)

    async def speakers(self, digest: str) -> list[str]:
        await self._act("speakers")
        return await super().speakers(digest)

    async def deliver(self, envelope: Envelope) -> MessageStatus:
        await self._act("deliver")
        return await super().deliver(envelope)


FAULTS = {
    "hangs": "the channel of the dialogues did not answer within 10 s",
    "raises": "the channel of the dialogues failed: ValueError",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_channel_holds_nothing_up(fault: str) -> None:
    async def test(calls: Harnesses) -> None:
        channel = BrokenChannel(fault)
        buyer, seller = await pair(calls, channel)
        start = buyer.dialogue.start_dialogue
        buyer.expects_error("dialogues")
        channel.method = "speakers"
        with pytest.raises(SessionError, match=FAULTS[fault]):
            await start("seller", Ask(item="tea"))
        channel.method = "deliver"
        (status,) = await start("seller", Ask(item="tea"))
        assert (status.status, status.detail) == ("failed", FAULTS[fault])
        assert buyer.dialogue.get_current_state(status.session_id) == ""
        await anyio.sleep(0.1)
        assert buyer.errors == [f"dialogues: {FAULTS[fault]}"]
        channel.method = "join"
        with pytest.raises(SessionError, match=FAULTS[fault]):
            await calls.start(Talker(channel, "third"))
        await closed(seller)
        channel.method = "leave"
        report = await buyer.session.close()
        assert [step.name for step in report.steps if step.error] == ["dialogues"]

    Harnesses().run(test)


def test_a_sender_that_is_cut_while_it_waits_has_not_moved() -> None:
    async def test(calls: Harnesses) -> None:
        channel = BrokenChannel("hangs")
        buyer, seller = await pair(calls, channel)
        channel.method = "deliver"
        with anyio.move_on_after(1.0):
            await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
        channel.method = ""
        await anyio.sleep(100.0)
        assert buyer.expired == []
        await closed(buyer, seller)

    Harnesses().run(test)


def test_a_close_while_the_channel_hangs_cuts_the_start() -> None:
    async def test(calls: Harnesses) -> None:
        channel = BrokenChannel("hangs")
        channel.method = "join"
        talker = Talker(channel, "buyer")
        async with anyio.create_task_group() as group:

            async def start() -> None:
                with pytest.raises(SessionClosedError):
                    await calls.start(talker)

            group.start_soon(start)
            await anyio.sleep(1.0)
            await talker.session.close(CloseReason.USER_INITIATED)
        assert await channel.speakers(talker.dialogue.digest) == []

    Harnesses().run(test)


def test_a_change_from_a_thread_is_made_on_the_session_s_loop() -> None:
    async def test(calls: Harnesses) -> None:
        buyer = await calls.start(Talker(LocalChannel(), "buyer"))
        with VirtualClock().hold():
            await anyio.to_thread.run_sync(buyer.dialogue.update_state, Ask, "c")
        assert buyer.dialogue.get_current_state("c") == "asked"
        await anyio.sleep(61.0)
        assert [one.peer for one in buyer.expired] == [""]
        await closed(buyer)

    Harnesses().run(test)


def test_a_handler_may_take_as_long_as_the_option_says() -> None:
    async def test(calls: Harnesses) -> None:
        channel = LocalChannel()
        buyer = await calls.start(Talker(channel, "buyer"))
        seller = Talker(channel, "seller", handler_timeout=30.0)
        seller.expects_error("dialogues")
        await calls.start(seller)
        ends: list[float] = []

        @seller.dialogue.on("ask", Ask)
        async def slow(ctx: DialogueContext, sender: str, message: Ask) -> None:
            await anyio.sleep(float(message.item))
            ends.append(calls.now)

        for seconds in ("25", "35"):
            await buyer.dialogue.start_dialogue("seller", Ask(item=seconds))
        await anyio.sleep(40.0)
        assert ends == [pytest.approx(25.0, abs=0.1)]
        (error,) = seller.errors
        assert "did not end within 30 s" in error
        await closed(buyer, seller)

    Harnesses().run(test)


def test_a_wrong_limit_of_handlers_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="handler_timeout"):
        DialogueOptions(handler_timeout=0)
