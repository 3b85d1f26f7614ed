"""Messages of a dialogue that are rejected, and handlers that fail, in virtual time."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest
from pydantic import BaseModel, ConfigDict, Field, Json, computed_field, field_validator

from kit.dialogues import PIPELINES, Accept, Ask, Offer, Refuse, Talker, closed, letter, pair
from vivavoce.agents.dialogues import Dialogue, DialogueContext, Edge, LocalChannel, MessageStatus, Node
from vivavoce.agents.testing import Harnesses
from vivavoce.pipelines.core.errors import ConfigurationError


def test_an_unexpected_message_runs_no_handler_and_gets_a_rejection_that_echoes_nothing() -> None:
    async def test(calls: Harnesses) -> None:
        channel = LocalChannel()
        seller = await calls.start(Talker(channel, "seller"))
        seller.logs("ask", "offer", "again", "accept", "refuse")
        dialogue = seller.dialogue

        async def rejection(message: BaseModel, /, **given: Any) -> str:
            status = await channel.deliver(letter(dialogue, message, **given))
            assert status.status == "rejected"
            return status.detail

        expects_ask = "the dialogue 'negotiation' expects Ask"
        assert await rejection(Refuse(reason="secret")) == expects_ask
        assert await rejection(Ask(item="secret"), model="model:secret") == expects_ask
        assert await rejection(Ask(item="x"), content='{"item": 3, "secret": 1}') == (
            f"{expects_ask}; the content does not fit its schema"
        )
        assert await rejection(Ask(item="x"), content="secret") == f"{expects_ask}; the content does not fit its schema"
        assert await rejection(Ask(item="x"), dialogue="dialogue:secret") == (
            "the agent 'seller' does not speak this dialogue"
        )
        assert dialogue.get_current_state("c") == ""
        assert (await channel.deliver(letter(dialogue, Ask(item="tea")))).status == "delivered"
        assert await rejection(Accept()) == "the dialogue 'negotiation' expects Offer"
        assert await rejection(Offer(price=3), sender="thief") == "the conversation is one of other agents"
        for content in (Offer(price=3), Refuse()):
            assert (await channel.deliver(letter(dialogue, content))).status == "delivered"
        assert await rejection(Ask(item="secret")) == (
            "the dialogue 'negotiation' expects no message, since the conversation is over"
        )
        await anyio.sleep(1.0)
        assert seller.log == [f"stranger: {one!r}" for one in (Ask(item="tea"), Offer(price=3), Refuse())]
        assert seller.errors == []
        await closed(seller)

    Harnesses().run(test)


def test_a_rejected_message_moves_neither_side_and_is_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    async def test(calls: Harnesses) -> None:
        buyer, seller = await pair(calls, LocalChannel())
        statuses: list[MessageStatus] = []

        @buyer.dialogue.on("offer", Offer)
        async def accept(ctx: DialogueContext, sender: str, message: Offer) -> None:
            seller.dialogue.cleanup_conversation(ctx.session_id)
            statuses.append(await ctx.send(sender, Refuse(reason="secret")))

        @seller.dialogue.on("ask", Ask)
        async def offer(ctx: DialogueContext, sender: str, message: Ask) -> None:
            statuses.append(await ctx.send(sender, Offer(price=3)))

        (begun,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
        await anyio.sleep(1.0)
        assert [one.status for one in statuses] == ["delivered", "rejected"]
        assert statuses[1].detail == "the dialogue 'negotiation' expects Ask"
        assert buyer.dialogue.get_current_state(begun.session_id) == "offered"
        assert [one.model for one in buyer.dialogue.get_conversation(begun.session_id)] == ["Ask", "Offer"]
        assert seller.dialogue.get_conversation(begun.session_id) == []
        assert "was not delivered: the dialogue 'negotiation' expects Ask" in caplog.text
        assert "secret" not in caplog.text
        await closed(buyer, seller)

    caplog.set_level(logging.WARNING)
    Harnesses().run(test)


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def check_number(cls, number: int) -> int:
        if number < 0:
            raise RuntimeError("scripted")
        if number % 2:
            raise ValueError(f"{number} is odd")
        return number


def test_validators_of_a_model_reject_a_message_and_one_that_fails_is_an_error_of_the_receiver() -> None:
    def dialogue() -> Dialogue:
        begin, end = Node("begin", "", True), Node("end", "")
        edge = Edge("count", "", begin, end)
        edge.model = Even
        return Dialogue("numbers", [begin, end], [edge])

    async def test(calls: Harnesses) -> None:
        channel = LocalChannel()
        one, other = [await calls.start(Talker(channel, id, dialogue())) for id in ("a", "b")]
        other.expects_error("dialogues").logs("count")
        for number, status in ((3, "rejected"), (-1, "rejected"), (4, "delivered")):
            (sent,) = await one.dialogue.start_dialogue("b", Even.model_construct(number=number))
            assert sent.status == status
            assert one.dialogue.get_current_state(sent.session_id) == ("end" if status == "delivered" else "")
        await anyio.sleep(1.0)
        assert other.log == ["a: Even(number=4)"]
        assert other.errors == ["dialogues: scripted"]
        await closed(one, other)

    Harnesses().run(test)


class Named(BaseModel):
    model_config = ConfigDict(extra="forbid")
    first: str = Field(alias="firstName")
    second: str = Field(validation_alias="secondName")
    third: str = Field(serialization_alias="thirdName")
    data: Json[list[int]]

    @computed_field
    def whole(self) -> str:
        return f"{self.first} {self.second} {self.third}"


def test_a_message_arrives_as_it_was_whatever_names_its_model_gives_to_the_fields() -> None:
    def dialogue() -> Dialogue:
        begin, end = Node("begin", "", True), Node("end", "")
        edge = Edge("name", "", begin, end)
        edge.model = Named
        return Dialogue("names", [begin, end], [edge])

    async def test(calls: Harnesses) -> None:
        channel = LocalChannel()
        one, other = [await calls.start(Talker(channel, id, dialogue())) for id in ("a", "b")]
        message = Named.model_validate({"firstName": "a", "secondName": "b", "third": "c", "data": "[1, 2]"})
        (status,) = await one.dialogue.start_dialogue("b", message)
        assert (status.status, status.detail) == ("delivered", "")
        assert [kept.content for kept in other.dialogue.get_conversation(status.session_id)] == [message]
        await closed(one, other)

    Harnesses().run(test)


def test_a_message_without_the_id_of_a_conversation_or_of_ten_megabytes_is_refused_and_nothing_moves() -> None:
    async def test(calls: Harnesses) -> None:
        channel = LocalChannel()
        buyer, seller = await pair(calls, channel)
        seller.logs("ask")
        for message, refusal in (
            (letter(seller.dialogue, Ask(item="tea"), session_id=""), "a conversation needs an id"),
            (
                letter(seller.dialogue, Ask(item="x" * 10_000_000)),
                "a message may have 1,000,000 bytes as JSON, got 10,000,011",
            ),
        ):
            status = await channel.deliver(message)
            assert (status.status, status.detail) == ("rejected", refusal)
            assert seller.dialogue.get_current_state(message.session_id or "c") == ""
        with pytest.raises(ConfigurationError, match=r"may have 1,000,000 bytes .*; send a reference to it"):
            await buyer.dialogue.start_dialogue("seller", Ask(item="x" * 10_000_000))
        with pytest.raises(ConfigurationError, match="need session_id as the id of a conversation, got ''"):
            seller.dialogue.update_state(Ask, "")
        (status,) = await buyer.dialogue.start_dialogue("seller", Ask(item="x" * 900_000))
        assert status.status == "delivered"
        await anyio.sleep(1.0)
        assert len(seller.log) == 1
        await closed(buyer, seller)

    Harnesses().run(test)


# --- handlers that fail


def test_a_handler_that_raises_is_an_error_event_and_the_next_message_is_handled() -> None:
    async def test(calls: Harnesses) -> None:
        channel = LocalChannel()
        seller = await calls.start(Talker(channel, "seller"))

        seller.expects_error("dialogues")

        async def edge_handler(ctx: DialogueContext, sender: str, message: Ask) -> None:
            raise ValueError("scripted")

        seller.dialogue.get_edge("ask").set_edge_handler(Ask, edge_handler)
        seller.logs("ask", "offer")
        for content in (Ask(item="tea"), Offer(price=3)):
            assert (await channel.deliver(letter(seller.dialogue, content))).status == "delivered"
        await anyio.sleep(1.0)
        assert seller.errors == ["dialogues: scripted"]
        assert seller.log == ["stranger: Offer(price=3)"], "after a failed edge handler no message handler runs"
        await closed(seller)

    Harnesses().run(test)


def test_a_handler_that_is_not_async_and_was_set_after_the_start_is_an_error_event() -> None:
    async def test(calls: Harnesses) -> None:
        channel = LocalChannel()
        seller = await calls.start(Talker(channel, "seller"))
        seller.expects_error("dialogues")
        seller.dialogue.on("ask", Ask)(lambda ctx, sender, message: None)  # type: ignore[type-var]
        assert (await channel.deliver(letter(seller.dialogue, Ask(item="tea")))).status == "delivered"
        await anyio.sleep(1.0)
        (error,) = seller.errors
        assert "message handler of 'ask' in the dialogue 'negotiation' must be async" in error
        await closed(seller)

    Harnesses().run(test)


def test_a_handler_that_hangs_is_cut_at_its_limit_and_speech_does_not_count() -> None:
    async def test(calls: Harnesses) -> None:
        channel = LocalChannel()
        seller = await calls.start(Talker(channel, "seller", pipeline=PIPELINES["cascading"]()))
        seller.expects_error("dialogues")

        @seller.dialogue.on("ask", Ask)
        async def speak(ctx: DialogueContext, sender: str, message: Ask) -> None:
            await ctx.session.say(" ".join(["word"] * 60))
            seller.log.append("spoken")
            await anyio.sleep_forever()

        seller.logs("offer")
        for content in (Ask(item="tea"), Offer(price=3)):
            assert (await channel.deliver(letter(seller.dialogue, content))).status == "delivered"
        await anyio.sleep(50.0)
        assert seller.log == ["spoken", "stranger: Offer(price=3)"]
        (error,) = seller.errors
        assert "message handler of 'ask' in the dialogue 'negotiation' did not end within 10 s, speech apart" in error
        await closed(seller)

    Harnesses().run(test)


def test_a_flood_of_messages_behind_a_slow_handler_is_refused() -> None:
    async def test(calls: Harnesses) -> None:
        channel = LocalChannel()
        seller = await calls.start(Talker(channel, "seller"))

        @seller.dialogue.on("ask", Ask)
        async def hang(ctx: DialogueContext, sender: str, message: Ask) -> None:
            await anyio.sleep_forever()

        contents = [Ask(item="tea"), *([Offer(price=1), Ask(item="tea")] * 40)]
        statuses = [await channel.deliver(letter(seller.dialogue, content)) for content in contents]
        assert [one.status for one in statuses[:66]] == ["delivered"] * 65 + ["failed"]
        assert statuses[65].detail == "64 messages of the conversation wait for their handlers"
        report = await seller.session.close()
        assert [step.name for step in report.steps if step.error] == ["handlers"]

    Harnesses().run(test)
