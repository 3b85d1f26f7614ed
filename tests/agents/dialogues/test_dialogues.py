"""Dialogues between two sessions in virtual time: handlers, addresses, mistakes."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from kit.dialogues import Accept, Ask, Offer, Talker, closed, letter, negotiation, pair
from kit.kinds import BAD, refuses
from vivavoce.agents import SessionOptions
from vivavoce.agents.dialogues import Dialogue, DialogueContext, DialogueOptions, Edge, LocalChannel, Node
from vivavoce.agents.tasks import AgentTask
from vivavoce.agents.testing import Harnesses, run_virtual
from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    GraphError,
    SessionNotStartedError,
)


@pytest.mark.parametrize("kind", ["silent", "cascading", "realtime"])
def test_two_agents_negotiate_and_both_keep_the_place_and_the_messages(kind: str) -> None:
    async def test(calls: Harnesses) -> None:
        buyer, seller = await pair(calls, LocalChannel(), kind)

        @seller.dialogue.on("ask", Ask)
        async def offer(ctx: DialogueContext, sender: str, message: Ask) -> None:
            assert ctx.session is seller.session
            price = 10 - len(ctx.dialogue)
            seller.log.append(f"{message.item} for {price}")
            await ctx.send(sender, Offer(price=price))

        seller.dialogue.on("again", Ask)(offer)

        @buyer.dialogue.on("offer", Offer)
        async def answer(ctx: DialogueContext, sender: str, message: Offer) -> None:
            await ctx.send(sender, Ask(item="tea") if message.price > 7 else Accept())

        (status,) = await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
        assert (status.status, status.destination, status.detail) == ("delivered", "seller", "")
        conversation = status.session_id
        assert buyer.dialogue.get_current_state(conversation) == "asked"
        await anyio.sleep(1.0)

        assert seller.log == ["tea for 9", "tea for 7"]
        for side in (buyer.dialogue, seller.dialogue):
            assert side.get_current_state(conversation) == "closed"
            assert side.is_finished(conversation)
            assert [(one.sender, one.receiver, one.model) for one in side.get_conversation(conversation)] == [
                ("buyer", "seller", "Ask"),
                ("seller", "buyer", "Offer"),
                ("buyer", "seller", "Ask"),
                ("seller", "buyer", "Offer"),
                ("buyer", "seller", "Accept"),
            ]
            for message_filter in (Offer, Offer(price=0), "Offer", side.get_edge("offer").digest):
                offers = side.get_conversation(conversation, message_filter)
                assert [one.content for one in offers] == [Offer(price=9), Offer(price=7)]
        await closed(buyer, seller)

    Harnesses().run(test)


def test_the_edge_handler_runs_first_and_a_handler_of_the_dialogue_replaces_the_message_handler_only() -> None:
    async def test(calls: Harnesses) -> None:
        buyer, seller = await pair(calls, LocalChannel())
        edge = seller.dialogue.get_edge("ask")

        def noting(what: str) -> Any:
            async def note(ctx: DialogueContext, sender: str, message: Ask) -> None:
                await anyio.sleep(0.1)
                seller.log.append(f"{what} {message.item}")

            return note

        async def ask(item: str) -> list[str]:
            seller.log.clear()
            await buyer.dialogue.start_dialogue("seller", Ask(item=item))
            await anyio.sleep(1.0)
            return list(seller.log)

        assert await ask("none") == []
        edge.func = noting("func")
        assert await ask("f") == ["func f"]
        edge.set_message_handler(Ask, noting("message"))
        assert await ask("a") == ["message a"]
        edge.set_edge_handler(Ask, noting("edge"))
        assert await ask("b") == ["edge b", "message b"]
        seller.dialogue.on("ask", Ask)(noting("on"))
        assert await ask("c") == ["edge c", "on c"]
        edge.set_message_handler(Ask, noting("later"))
        assert await ask("d") == ["edge d", "on d"]
        await closed(buyer, seller)

    Harnesses().run(test)


def test_an_edge_handler_alone_runs() -> None:
    async def test(calls: Harnesses) -> None:
        buyer, seller = await pair(calls, LocalChannel())

        async def note(ctx: DialogueContext, sender: str, message: Ask) -> None:
            seller.log.append(message.item)

        seller.dialogue.get_edge("ask").set_edge_handler(Ask, note)
        await buyer.dialogue.start_dialogue("seller", Ask(item="tea"))
        await anyio.sleep(1.0)
        assert seller.log == ["tea"]
        await closed(buyer, seller)

    Harnesses().run(test)


def test_the_messages_of_a_conversation_are_handled_one_after_the_other_and_conversations_side_by_side() -> None:
    async def test(calls: Harnesses) -> None:
        channel = LocalChannel()
        only = Node("only", "", True)
        talk = Edge("talk", "", only, only)
        dialogue = Dialogue("talk", [only], [talk])

        @dialogue.on("talk", Ask)
        async def hear(ctx: DialogueContext, sender: str, message: Ask) -> None:
            seller.log.append(f"begin {message.item}")
            await anyio.sleep(1.0)
            seller.log.append(f"end {message.item}")

        seller = await calls.start(Talker(channel, "seller", dialogue))
        for session_id, item in (("c", "c1"), ("c", "c2"), ("d", "d1")):
            status = await channel.deliver(letter(seller.dialogue, Ask(item=item), session_id=session_id))
            assert status.status == "delivered"
        await anyio.sleep(3.0)
        assert seller.log == ["begin c1", "begin d1", "end c1", "end d1", "begin c2", "end c2"]
        await closed(seller)

    Harnesses().run(test)


def test_a_digest_reaches_all_other_agents_that_speak_the_dialogue_each_in_a_conversation_of_its_own() -> None:
    async def test(calls: Harnesses) -> None:
        channel = LocalChannel()
        buyer, seller = await pair(calls, channel)
        shop = await calls.start(Talker(channel, "shop"))
        other = await calls.start(Talker(channel, "other", negotiation("another")))
        for talker in (seller, shop, other):
            talker.logs("ask")

        statuses = await buyer.dialogue.start_dialogue(buyer.dialogue.digest, Ask(item="tea"))
        await anyio.sleep(1.0)

        assert [(one.destination, one.status) for one in statuses] == [("seller", "delivered"), ("shop", "delivered")]
        assert len({one.session_id for one in statuses}) == 2
        assert seller.log == shop.log == ["buyer: Ask(item='tea')"]
        assert other.log == []
        assert await other.dialogue.start_dialogue(other.dialogue.digest, Ask(item="tea")) == []
        await closed(buyer, seller, shop, other)

    Harnesses().run(test)


def test_a_mistake_of_the_sender_raises_before_anything_leaves() -> None:
    async def test(calls: Harnesses) -> None:
        channel = LocalChannel()
        buyer, seller = await pair(calls, channel)
        bystander = await calls.start(Talker(channel, "bystander", negotiation("another")))
        mistakes: list[str] = []

        @seller.dialogue.on("ask", Ask)
        async def wrong(ctx: DialogueContext, sender: str, message: Ask) -> None:
            for destination, reply in ((sender, Ask(item="secret")), ("bystander", Offer(price=1)), (sender, Offer)):
                with pytest.raises(ConfigurationError) as raised:
                    await ctx.send(destination, reply)  # type: ignore[arg-type]  # on purpose
                mistakes.append(str(raised.value))

        buyer.logs("offer")
        start = buyer.dialogue.start_dialogue
        with pytest.raises(ConfigurationError, match="the dialogue 'negotiation' starts with Ask, got Offer"):
            await start("seller", Offer(price=1))
        for destination in ("nobody", "bystander", "buyer", negotiation("another").digest):
            with pytest.raises(
                ConfigurationError, match="that speaks the dialogue 'negotiation'.*'seller' can be reach"
            ):
                await start(destination, Ask(item="tea"))
        with pytest.raises(ConfigurationError, match="as an object of a pydantic model, got the class Ask"):
            await start("seller", Ask)  # type: ignore[arg-type]  # on purpose
        with pytest.raises(ConfigurationError, match="as an object of a pydantic model, got a dict") as raised:
            await start("seller", {"item": "secret"})  # type: ignore[arg-type]  # on purpose
        assert "secret" not in str(raised.value)
        (status,) = await start("seller", Ask(item="tea"))
        await anyio.sleep(1.0)

        assert mistakes == [
            "the dialogue 'negotiation' expects Offer, got Ask",
            "the conversation is with the agent 'buyer', got the destination 'bystander'; start_dialogue() begins one "
            "with another agent",
            "need a message as an object of a pydantic model, got the class Offer",
        ]
        assert seller.dialogue.get_current_state(status.session_id) == "asked"
        assert buyer.log == []
        await closed(buyer, seller, bystander)

    Harnesses().run(test)


@pytest.mark.parametrize("kind", BAD)
async def test_arguments_of_a_wrong_kind_are_refused(kind: str) -> None:
    dialogue, bad = negotiation(), BAD[kind]
    if kind not in ("text",):
        await refuses(lambda: Dialogue(bad(), [], []))
    await refuses(lambda: Dialogue("d", bad(), []) if kind != "empty list" else Dialogue("", [], []))
    await refuses(lambda: Dialogue("d", [], bad()) if kind != "empty list" else Dialogue("", [], []))
    if kind not in ("number", "infinite", "huge"):
        await refuses(lambda: Dialogue("d", [], [], timeout=bad()))
        await refuses(lambda: DialogueOptions(dialogues=bad()) if kind != "empty list" else Dialogue("", [], []))
    if kind != "None":
        await refuses(lambda: DialogueOptions(channel=bad()))
        await refuses(lambda: SessionOptions(dialogues=bad()))
    if kind not in ("text", "empty text"):
        await refuses(lambda: dialogue.is_starter(bad()))
        await refuses(lambda: dialogue.is_valid_message("c", bad()))
        await refuses(lambda: dialogue.get_current_state(bad()))
    await refuses(lambda: dialogue.get_edge(bad()))
    await refuses(lambda: dialogue.on("ask", bad()))
    await refuses(lambda: dialogue.add_message("c", bad(), "a", "b"))


def test_dialogues_without_a_channel_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="dialogues need a channel to other agents"):
        DialogueOptions(dialogues=[negotiation()])


def test_a_session_refuses_a_dialogue_with_faults_and_the_same_one_twice() -> None:
    faulty = negotiation()

    @faulty.on("ask", Ask)  # type: ignore[type-var]  # on purpose
    def sync(ctx: object, sender: str, message: Ask) -> None:
        """A handler that is not async."""

    with pytest.raises(GraphError, match=r"the message handler of 'ask' must be async f\(ctx, sender, message\)"):
        Harnesses(Talker(LocalChannel(), "buyer", faulty)).run()
    with pytest.raises(ConfigurationError, match=r"each dialogue once, got Dialogue\('negotiation'\) twice"):
        Harnesses(Talker(LocalChannel(), "buyer", negotiation(), negotiation())).run()


def test_a_session_logs_the_warnings_of_a_dialogue(caplog: pytest.LogCaptureFixture) -> None:
    only = Node("only", "", True)
    talk = Edge("talk", "", only, only)
    talk.model = Ask

    async def test(calls: Harnesses) -> None:
        talker = await calls.start(Talker(LocalChannel(), "buyer", Dialogue("for ever", [only], [talk])))
        await closed(talker)

    Harnesses().run(test)
    assert "no way leads to an end of the dialogue 'for ever'" in caplog.messages


def test_a_second_model_for_an_edge_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the edge 'ask' has the model Ask, got Offer; an edge has one model"):
        negotiation().on("ask", Offer)


def test_a_dialogue_outside_a_session_judges_messages_and_starts_none() -> None:
    async def test() -> None:
        dialogue = negotiation()
        assert dialogue.is_valid_message("c", Ask)
        dialogue.update_state(Ask, "c")
        dialogue.add_message("c", Ask(item="tea"), "a", "b")
        assert dialogue.get_current_state("c") == "asked"
        with pytest.raises(ConfigurationError, match="expects Offer, got Accept"):
            dialogue.update_state(Accept, "c")
        assert [one.content for one in dialogue.get_conversation("c")] == [Ask(item="tea")]
        dialogue.cleanup_conversation("c")
        assert (dialogue.get_current_state("c"), dialogue.get_conversation("c")) == ("", [])
        dialogue.cleanup_conversation("c")
        with pytest.raises(SessionNotStartedError, match="the dialogue 'negotiation' is in no session"):
            await dialogue.start_dialogue("seller", Ask(item="tea"))

    run_virtual(test())


def test_the_manifest_says_all_that_others_need_to_speak_the_dialogue() -> None:
    dialogue = negotiation()
    manifest = dialogue.manifest()

    assert manifest["metadata"] == {"name": "negotiation", "digest": dialogue.digest}
    schemas = {one["digest"]: one["schema"]["title"] for one in manifest["models"]}
    assert sorted(schemas.values()) == ["Accept", "Ask", "Offer", "Refuse"]
    replies = {schemas[one["request"]]: [schemas[to] for to in one["responses"]] for one in manifest["interactions"]}
    assert replies == {"Ask": ["Offer"], "Offer": ["Ask", "Accept", "Refuse"], "Accept": [], "Refuse": []}
    assert [node["name"] for node in manifest["nodes"]] == ["begin", "asked", "offered", "closed"]
    assert dialogue.get_overview()["edges"] == manifest["edges"]
    assert dialogue.rules["offer"] == ["again", "accept", "refuse"]
    assert dialogue.is_cyclic


def test_a_handler_may_await_a_task_in_which_the_caller_is_asked() -> None:
    class Confirm(AgentTask[bool]):
        async def on_enter(self) -> None:
            await self.session.say("Do you take it?")
            self.complete(True)

    async def test(calls: Harnesses) -> None:
        channel = LocalChannel()
        seller = await calls.start(Talker(channel, "seller"))

        @seller.dialogue.on("ask", Ask)
        async def ask(ctx: DialogueContext, sender: str, message: Ask) -> None:
            seller.log.append(f"takes it: {await Confirm('Confirm.')}")

        assert (await channel.deliver(letter(seller.dialogue, Ask(item="tea")))).status == "delivered"
        await anyio.sleep(30.0)
        assert seller.log == ["takes it: True"]
        assert [one.content for one in seller.session.history.messages("assistant")] == ["Do you take it?"]
        await closed(seller)

    Harnesses().run(test)
