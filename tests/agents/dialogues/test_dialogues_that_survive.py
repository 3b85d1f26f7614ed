"""Conversations survive the crash of a session, in virtual time: states, messages, deadlines, handlers."""

from __future__ import annotations

import json
from collections.abc import Callable

import anyio
import pytest
from pydantic import BaseModel

from kit.dialogues import Accept, Ask, Offer, Refuse, Talker, negotiation
from kit.surviving import World, contents, in_a_world, with_error
from vivavoce.agents.dialogues import DialogueContext, MessageStatus
from vivavoce.agents.testing import Harnesses
from vivavoce.pipelines.core.errors import ConfigurationError


def offers(price: int, statuses: list[MessageStatus] | None = None) -> Callable[[Talker], None]:
    """Have a seller answer each question with an offer."""

    def prepare(talker: Talker) -> None:
        @talker.dialogue.on("ask", Ask)
        async def offer(ctx: DialogueContext, sender: str, message: Ask) -> None:
            talker.log.append(f"asked for {message.item}")
            status = await ctx.send(sender, Offer(price=price))
            if statuses is not None:
                statuses.append(status)

    return prepare


def answers(model: type[BaseModel], edge: str) -> Callable[[Talker], None]:
    """Have a buyer answer each message of an edge with an empty message of that model."""

    def prepare(talker: Talker) -> None:
        edge_model = talker.dialogue.get_edge(edge).model
        assert edge_model is not None

        @talker.dialogue.on(edge, edge_model)
        async def answer(ctx: DialogueContext, sender: str, message: BaseModel) -> None:
            talker.log.append(f"{sender}: {message!r}")
            await ctx.send(sender, model())

    return prepare


# --- states and messages


@in_a_world
async def test_after_a_crash_both_sides_go_on_where_the_conversation_was(world: World) -> None:
    buyer = await world.start("buyer")
    seller = await world.start("seller", prepare=offers(3))
    (begun,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
    await anyio.sleep(1.0)
    await world.crash(buyer)
    await world.crash(seller)
    await anyio.sleep(2.0)
    buyer, seller = await world.resume("buyer"), await world.resume("seller")
    seller.logs("again", "accept")
    for side in (buyer, seller):
        assert side.dialogue.get_sessions() == [begun.session_id]
        assert side.dialogue.get_current_state(begun.session_id) == "offered"
        assert contents(side, begun.session_id) == [Ask(item="tea"), Offer(price=3)]
        assert [one.at for one in side.dialogue.get_conversation(begun.session_id)] == pytest.approx([0.0] * 2, abs=0.1)
    context = buyer.dialogue.get_context(begun.session_id)
    assert (await context.send("seller", Accept())).status == "delivered"
    await anyio.sleep(1.0)
    assert seller.log == ["buyer: Accept()"]
    assert buyer.dialogue.is_finished(begun.session_id)
    assert seller.dialogue.is_finished(begun.session_id)
    assert buyer.errors == seller.errors == []


@in_a_world
async def test_each_of_many_conversations_is_in_its_own_state(world: World) -> None:
    buyer = await world.start("buyer")
    seller = await world.start("seller")
    begun = [(await buyer.dialogue.start_dialogue("seller", Ask(item=str(number))))[0] for number in range(20)]
    for one in begun[::2]:
        await seller.dialogue.get_context(one.session_id).send("buyer", Offer(price=1))
    await world.crash(seller)
    seller = await world.resume("seller")
    states = [seller.dialogue.get_current_state(one.session_id) for one in begun]
    assert states == ["offered", "asked"] * 10
    assert [contents(seller, one.session_id)[0] for one in begun] == [Ask(item=str(number)) for number in range(20)]


@in_a_world
async def test_a_snapshot_taken_by_hand_carries_them_too_as_json(world: World) -> None:
    buyer, seller = await world.start("buyer"), await world.start("seller")
    (begun,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
    taken = json.loads(json.dumps(buyer.session.snapshot()))
    await buyer.session.close()
    again = Talker(world.hub, "buyer")
    again.resume_from = taken
    await world.calls.start(again)
    again.logs("offer")
    assert again.session.snapshot()["extensions"]["dialogues"] == taken["extensions"]["dialogues"]
    assert (await seller.dialogue.get_context(begun.session_id).send("buyer", Offer(price=1))).status == "delivered"
    await anyio.sleep(0.1)
    assert again.log == ["seller: Offer(price=1)"]


@in_a_world
async def test_a_closed_session_is_resumed_with_its_conversations(world: World) -> None:
    buyer, seller = await world.start("buyer"), await world.start("seller")
    (begun,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
    await buyer.session.close()
    status = await seller.dialogue.get_context(begun.session_id).send("buyer", Offer(price=1))
    assert status.status == "failed"
    again = await world.resume("buyer")
    assert again.dialogue.get_current_state(begun.session_id) == "asked"
    assert (await seller.dialogue.get_context(begun.session_id).send("buyer", Offer(price=2))).status == "delivered"


@in_a_world
async def test_conversations_that_ended_do_not_come_back(world: World) -> None:
    buyer = await world.start("buyer", prepare=answers(Accept, "offer"))
    seller = await world.start("seller", prepare=offers(3))
    (ended,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
    (removed,) = await buyer.dialogue.start_dialogue("seller", Ask(item="coffee"))
    await anyio.sleep(0.1)
    assert seller.dialogue.is_finished(ended.session_id)
    seller.dialogue.cleanup_conversation(removed.session_id)
    await anyio.sleep(1.0)
    await world.crash(seller)
    seller = await world.resume("seller")
    assert seller.dialogue.get_sessions() == []
    await anyio.sleep(100.0)
    assert seller.expired == []
    assert seller.errors == []


@in_a_world
async def test_a_new_call_under_the_id_of_a_crashed_one_begins_without_conversations(world: World) -> None:
    buyer, seller = await world.start("buyer"), await world.start("seller")
    (begun,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
    await world.crash(seller)
    await anyio.sleep(20.0)  # until its lease has run out
    seller = await world.start("seller")
    assert seller.dialogue.get_sessions() == []
    assert buyer.dialogue.get_sessions() == [begun.session_id]


# --- deadlines


@in_a_world
async def test_a_deadline_goes_on_by_wall_time(world: World) -> None:
    buyer, seller = await world.start("buyer", negotiation(timeout=0)), await world.start("seller")
    (begun,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
    await anyio.sleep(20.0)
    await world.crash(seller)
    await anyio.sleep(20.0)
    seller = await world.resume("seller")
    await anyio.sleep(19.0)
    assert seller.expired == []
    await anyio.sleep(2.0)
    (expired,) = seller.expired
    assert (expired.session_id, expired.peer, expired.state) == (begun.session_id, "buyer", "asked")
    assert [one.session_id for one in buyer.expired] == [begun.session_id]


@in_a_world
async def test_a_deadline_that_passed_during_the_outage_fires_after_the_resume(world: World) -> None:
    buyer, seller = await world.start("buyer", negotiation(timeout=0)), await world.start("seller")
    (begun,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
    await world.crash(seller)
    await anyio.sleep(500.0)
    assert buyer.dialogue.get_sessions() == [begun.session_id]
    seller = await world.resume("seller")
    await anyio.sleep(0.1)
    assert [one.session_id for one in seller.expired] == [begun.session_id]
    assert [one.session_id for one in buyer.expired] == [begun.session_id]
    assert seller.dialogue.get_sessions() == buyer.dialogue.get_sessions() == []


# --- messages on their way


@in_a_world
async def test_a_message_that_was_acknowledged_is_handled_after_the_crash(world: World) -> None:
    def slow(talker: Talker) -> None:
        @talker.dialogue.on("ask", Ask)
        async def think(ctx: DialogueContext, sender: str, message: Ask) -> None:
            talker.log.append(message.item)
            await anyio.sleep(3.0)
            await ctx.send(sender, Offer(price=1))

    buyer, seller = await world.start("buyer"), await world.start("seller", prepare=slow)
    (begun,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
    await anyio.sleep(1.0)
    await world.crash(seller)
    await anyio.sleep(10.0)
    seller = await world.resume("seller", prepare=slow)
    await anyio.sleep(4.0)
    assert seller.log == ["tea"]
    assert buyer.dialogue.get_current_state(begun.session_id) == "offered"
    await world.crash(seller)
    seller = await world.resume("seller", prepare=slow)
    await anyio.sleep(4.0)
    assert seller.log == [], "its handler has ended"


@in_a_world
async def test_handlers_that_have_answered_do_not_run_again(world: World) -> None:
    def talkative(talker: Talker) -> None:
        @talker.dialogue.on("ask", Ask)
        async def answer(ctx: DialogueContext, sender: str, message: Ask) -> None:
            talker.log.append(message.item)
            await ctx.send(sender, Offer(price=1))
            await anyio.sleep(3.0)

    buyer, seller = await world.start("buyer"), await world.start("seller", prepare=talkative)
    await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
    await anyio.sleep(1.0)
    await world.crash(seller)
    seller = await world.resume("seller", prepare=talkative)
    await anyio.sleep(4.0)
    assert seller.log == []


@in_a_world
async def test_a_message_that_is_sent_again_after_the_receiver_s_crash_is_taken_once(world: World) -> None:
    buyer, seller = await world.start("buyer"), await world.start("seller", prepare=offers(3))
    (begun,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
    await anyio.sleep(1.0)
    context = buyer.dialogue.get_context(begun.session_id)
    world.lines[buyer].is_deaf = True  # the seller takes it, and its acknowledgement is lost
    assert (await context.send("seller", Refuse(reason="dear"))).status == "failed"
    assert buyer.dialogue.get_current_state(begun.session_id) == "offered"
    await world.crash(seller)
    seller = await world.resume("seller")
    seller.logs("refuse")
    world.lines[buyer].is_deaf = False
    assert (await context.send("seller", Refuse(reason="dear"))).status == "delivered"
    assert (await context_status(buyer, begun.session_id)) == "the dialogue 'negotiation' expects no message"
    await anyio.sleep(1.0)
    assert seller.log == [], "it was handled before the crash"
    assert buyer.dialogue.is_finished(begun.session_id)


async def context_status(talker: Talker, session_id: str) -> str:
    with pytest.raises(ConfigurationError) as error:
        await talker.dialogue.get_context(session_id).send("seller", Accept())
    return str(error.value).split(",")[0]


@pytest.mark.parametrize("is_under_way", [True, False])
def test_a_first_message_that_is_sent_again_begins_no_second_conversation(is_under_way: bool) -> None:
    """Whether the seller's answer was on its way in the crash, or was refused, since the buyer did not know of it."""

    async def scenario(calls: Harnesses) -> None:
        world = World(calls)
        buyer, seller = await world.start("buyer"), await world.start("seller", prepare=offers(3))
        world.lines[buyer].is_deaf = True
        world.lines[seller].is_cut = is_under_way
        (lost,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
        assert lost.status == "failed"
        await anyio.sleep(1.0)
        await world.crash(seller)
        world.lines[buyer].is_deaf = False
        seller = await world.resume("seller", None, answers_that_fail if is_under_way else offers(3))
        await anyio.sleep(1.0)
        seller.log.clear()
        (begun,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
        assert (begun.status, begun.session_id) == ("delivered", lost.session_id)
        await anyio.sleep(1.0)
        assert seller.dialogue.get_sessions() == [lost.session_id]
        assert buyer.dialogue.get_current_state(lost.session_id) == "offered", "it was answered again"
        assert seller.log == ["asked for tea"]
        (other,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
        assert other.session_id != lost.session_id

    Harnesses().run(scenario)


def answers_that_fail(talker: Talker) -> None:
    talker.expects_error("dialogues", contains="the dialogue 'negotiation' expects Ask")
    offers(3)(talker)


@in_a_world
async def test_the_sender_s_crash_between_message_and_acknowledgement_loses_and_doubles_nothing(world: World) -> None:
    buyer, seller = await world.start("buyer"), await world.start("seller")
    seller.logs("ask")
    async with anyio.create_task_group() as tasks:
        world.lines[buyer].is_cut = True  # its message is stored, and does not leave
        tasks.start_soon(buyer.dialogue.start_dialogue, "seller", Ask(item="tea"))
        await anyio.sleep(1.0)
        await world.crash(buyer)
        buyer = await world.resume("buyer")
        await anyio.sleep(1.0)
        assert seller.log == ["buyer: Ask(item='tea')"]
        (session_id,) = seller.dialogue.get_sessions()
        assert buyer.dialogue.get_current_state(session_id) == "asked"
        await world.crash(buyer)  # and again, though it was acknowledged: the other side would know it
        buyer = await world.resume("buyer")
        await anyio.sleep(1.0)
        assert len(seller.log) == 1
        tasks.cancel_scope.cancel()


@in_a_world
async def test_a_message_of_before_the_crash_is_taken_back_if_its_receiver_stays_away(
    world: World,
) -> None:
    buyer, seller = await world.start("buyer", negotiation(timeout=0)), await world.start("seller")
    async with anyio.create_task_group() as tasks:
        world.lines[buyer].is_cut = True
        tasks.start_soon(buyer.dialogue.start_dialogue, "seller", Ask(item="tea"))
        await anyio.sleep(1.0)
        await world.crash(buyer)
        await world.crash(seller)
        buyer = await world.resume("buyer", negotiation(timeout=0), with_error)
        await anyio.sleep(50.0)
        assert len(buyer.dialogue.get_sessions()) == 1
        assert buyer.errors == []
        await anyio.sleep(30.0)
        assert buyer.dialogue.get_sessions() == []
        (error,) = buyer.errors
        assert "a message of the dialogue 'negotiation' to 'seller', which was on its way" in error
        tasks.cancel_scope.cancel()
