"""Conversations in snapshots and stores: ones that do not fit any more, ones of the application, stores that fail."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from pydantic import BaseModel, field_serializer

from kit.dialogues import Ask, Talker, negotiation
from kit.keeping import Keeping
from kit.surviving import World, contents, in_a_world, with_error
from vivavoce.agents.dialogues import Dialogue, Edge, LocalChannel, Node
from vivavoce.agents.session_watch import watch_scope
from vivavoce.agents.testing import Harnesses
from vivavoce.pipelines.core.errors import ConfigurationError

# --- dialogues that have changed


@in_a_world
async def test_conversations_of_a_dialogue_that_has_changed_are_refused_and_the_session_goes_on(world: World) -> None:
    buyer, seller = await world.start("buyer"), await world.start("seller")
    (begun,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
    await world.crash(seller)
    begin, asked = Node("begin", "", True), Node("asked", "")
    edge = Edge("ask", "", begin, asked)
    edge.model = Ask
    changed = Dialogue("negotiation", [begin, asked], [edge])
    seller = await world.resume("seller", changed, with_error)
    (error,) = seller.errors
    assert error == (
        f"dialogues: 1 conversation of the dialogue 'negotiation' cannot be continued: the snapshot's has the digest "
        f"{buyer.dialogue.digest}, and its digest is {changed.digest} now; resume them with the definition that they "
        "began with"
    )
    assert changed.get_sessions() == []
    assert seller.session.agent_state == "idle"
    assert begun.session_id in buyer.dialogue.get_sessions()


@in_a_world
async def test_a_session_without_the_dialogue_reports_its_conversations(world: World) -> None:
    buyer, _ = await world.start("buyer"), await world.start("seller")
    await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
    await world.crash(buyer)
    buyer = await world.resume("buyer", negotiation("other"), with_error)
    (error,) = buyer.errors
    assert "the session has no dialogue of that name" in error


# --- snapshots


@in_a_world
async def test_a_message_that_its_model_takes_no_more_costs_its_conversation_alone(world: World) -> None:
    buyer, seller = await world.start("buyer"), await world.start("seller")
    (kept,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
    (bad,) = await buyer.dialogue.start_dialogue("seller", Ask(item="hunter2"))
    taken = seller.session.snapshot()
    (saved,) = taken["extensions"]["dialogues"]["dialogues"]
    (broken,) = [one for one in saved["conversations"] if one["id"] == bad.session_id]
    broken["messages"][0]["content"] = '{"hunter2": 1}'
    await seller.session.close()
    again = Talker(world.hub, "seller")
    again.resume_from = taken
    again.expects_error("dialogues")
    await world.calls.start(again)
    assert again.dialogue.get_sessions() == [kept.session_id]
    assert again.errors == [
        "dialogues: 1 of 2 conversations of the dialogue 'negotiation' are not continued, since the snapshot does not "
        "fit: ConfigurationError: a message does not fit the model Ask"
    ]


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (None, "must be what snapshot\\(\\) returned, got None"),
        ({}, "need 'dialogues' as list, got NoneType"),
        ({"dialogues": [1]}, "need 'dialogues' as a list of objects"),
        ({"dialogues": [{"conversations": [{"id": 1}], "ended": []}]}, "need 'id' as str, got int"),
        ({"dialogues": [{"conversations": [], "ended": [], "name": "n"}]}, "need 'digest' as str, got NoneType"),
    ],
)
def test_data_that_are_no_conversations_are_refused_before_the_start(data: Any, match: str) -> None:
    async def scenario(calls: Harnesses) -> None:
        world = World(calls)
        buyer = await world.start("buyer")
        taken = buyer.session.snapshot()
        await buyer.session.close()
        again = Talker(world.hub, "buyer")
        again.resume_from = {**taken, "extensions": {"dialogues": data}}
        with pytest.raises(ConfigurationError, match=match):
            await calls.start(again)

    Harnesses().run(scenario)


@in_a_world
async def test_snapshots_of_before_without_dialogues_are_taken(world: World) -> None:
    seller = await world.start("seller")
    taken = seller.session.snapshot()
    assert "dialogues" not in taken["extensions"]
    await seller.session.close()
    again = Talker(world.hub, "seller")
    again.resume_from = taken
    await world.calls.start(again)
    assert again.errors == []


@in_a_world
async def test_messages_of_the_application_s_own_are_kept_if_they_can_be_json(world: World) -> None:
    class Locked(BaseModel):
        item: str

        @field_serializer("item")
        def _refuse(self, item: str) -> str:
            raise RuntimeError("hunter2")

    seller = await world.start("seller")
    seller.dialogue.update_state(Ask, "by hand")
    seller.dialogue.add_message("by hand", Ask(item="tea"), "stranger", "seller")
    seller.dialogue.add_message("by hand", Locked(item="x"), "stranger", "seller")
    await anyio.sleep(1.0)
    await world.crash(seller)
    seller = await world.resume("seller")
    assert contents(seller, "by hand") == [Ask(item="tea")]
    assert seller.dialogue.get_current_state("by hand") == "asked"


# --- the store


@in_a_world
async def test_a_message_is_acknowledged_when_the_store_has_it(world: World) -> None:
    buyer, seller = await world.start("buyer"), await world.start("seller")
    await anyio.sleep(1.0)
    world.ways[seller].lateness = 0.2
    began = anyio.current_time()
    await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
    assert anyio.current_time() - began == pytest.approx(0.2, abs=0.05)
    assert seller.errors == []


@pytest.mark.parametrize("kind", ["hangs", "is_down"])
def test_a_store_that_hangs_or_fails_holds_a_dialogue_up_for_half_a_second_at_most_with_one_error(kind: str) -> None:
    async def scenario(calls: Harnesses) -> None:
        world = World(calls)
        buyer, seller = await world.start("buyer"), await world.start("seller")
        seller.expects_error("memory")
        await anyio.sleep(1.0)
        setattr(world.ways[seller], kind, True)
        for limit in (0.6, 0.01, 0.01):
            began = anyio.current_time()
            (status,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
            assert status.status == "delivered"
            assert anyio.current_time() - began <= limit
        await anyio.sleep(10.0)
        assert len(seller.errors) == 1
        setattr(world.ways[seller], kind, False)
        await anyio.sleep(20.0)
        taken = await world.store.snapshot("call of seller")
        (saved,) = taken["extensions"]["dialogues"]["dialogues"]
        assert len(saved["conversations"]) == 3, "it has all of them as soon as it is back"

    Harnesses().run(scenario)


def test_a_session_whose_job_keeps_its_call_acknowledges_a_message_when_the_call_is_kept() -> None:
    async def scenario(calls: Harnesses) -> None:
        hub, keeping = LocalChannel(), Keeping()
        keeping.delay = 0.2
        buyer, seller = Talker(hub, "buyer"), Talker(hub, "seller")
        await calls.start(buyer)
        with watch_scope(keeping):
            await calls.start(seller)
        await anyio.sleep(1.0)
        began = anyio.current_time()
        (begun,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
        assert anyio.current_time() - began == pytest.approx(0.2, abs=0.05)
        await anyio.sleep(1.0)
        await seller.session.close()
        again = Talker(hub, "seller")
        again.resume_from = keeping.kept[-1]
        await calls.start(again)
        assert again.dialogue.get_current_state(begun.session_id) == "asked"

    Harnesses().run(scenario)
