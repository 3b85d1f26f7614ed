"""Laws of dialogues on a channel: both sides agree, whatever is sent; the verdicts of uagents; several event loops."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from kit.dialogues import MODELS, RECORD, Talker, closed
from vivavoce.agents.core.message_channel import Envelope
from vivavoce.agents.dialogues import Dialogue, DialogueContext, Edge, LocalChannel, MessageStatus, Node
from vivavoce.agents.dialogues.conversations import Conversations
from vivavoce.agents.dialogues.structure import DialogueStructure
from vivavoce.agents.testing import Harnesses
from vivavoce.pipelines.core.errors import ConfigurationError

Edges = list[tuple[int | None, int, int]]
"""Parent, child and model of each edge, as numbers; the first one has no parent."""


def parts_of(edges: Any) -> tuple[list[Node], list[Edge]]:
    """Return the nodes that messages reach, and the edges."""
    nodes = {number: Node(f"n{number}", "") for number in sorted({child for _, child, _ in edges})}
    made = []
    for number, (parent, child, model) in enumerate(edges):
        edge = Edge(f"e{number}", "", None if parent is None else nodes[parent], nodes[child])
        edge.model = MODELS[model]
        made.append(edge)
    return list(nodes.values()), made


def dialogue_of(edges: Any) -> Dialogue:
    return Dialogue("d", *parts_of(edges))


@st.composite
def graphs(draw: st.DrawFn) -> Edges:
    """Draw a dialogue without faults: each node is reached, and a node's edges have models of their own."""
    edges: Edges = [(None, 0, draw(st.integers(0, 4)))]
    for _ in range(draw(st.integers(0, 6))):
        parent = draw(st.sampled_from(sorted({child for _, child, _ in edges})))
        taken = {model for of, _, model in edges if of == parent}
        model = draw(st.integers(0, 4))
        if model not in taken:
            edges.append((parent, draw(st.integers(0, 3)), model))
    return edges


def message_of(number: int) -> BaseModel:
    return MODELS[number](**{f"field{number}": "x"})


async def two_sides(calls: Harnesses, edges: Any) -> tuple[Talker, Talker, dict[str, DialogueContext]]:
    """Return the sessions of a and b, and the contexts of their handlers once they have received a message."""
    channel, contexts = LocalChannel(), dict[str, DialogueContext]()
    sides = []
    for id in ("a", "b"):
        talker = Talker(channel, id, dialogue_of(edges))

        def keep(talker: Talker) -> Any:
            async def handler(ctx: DialogueContext, sender: str, message: BaseModel) -> None:
                contexts[talker.agent.id] = ctx
                talker.log.append(type(message).__name__)

            return handler

        for number, (_, _, model) in enumerate(edges):
            talker.dialogue.on(f"e{number}", MODELS[model])(keep(talker))
        sides.append(await calls.start(talker))
    return sides[0], sides[1], contexts


@settings(max_examples=15)
@given(graphs(), st.lists(st.tuples(st.booleans(), st.integers(0, 4)), max_size=12))
def test_both_sides_stay_at_one_place_and_a_handler_runs_for_each_message_that_arrived(
    edges: Edges, sends: list[tuple[bool, int]]
) -> None:
    async def test(calls: Harnesses) -> None:
        one, other, contexts = await two_sides(calls, edges)
        (begun,) = await one.dialogue.start_dialogue("b", message_of(edges[0][2]))
        reference = Conversations(DialogueStructure("d", *parts_of(edges)), 0)
        reference.move("c", MODELS[edges[0][2]], 0.0)
        delivered: dict[str, list[str]] = {"a": [], "b": [MODELS[edges[0][2]].__name__]}
        conversation = begun.session_id
        await anyio.sleep(0.1)
        for is_a, number in sends:
            sender, receiver = ("a", "b") if is_a else ("b", "a")
            if sender not in contexts:
                continue
            is_valid = reference.may_come("c", MODELS[number])
            try:
                status = await contexts[sender].send(receiver, message_of(number))
            except ConfigurationError:
                assert not is_valid
            else:
                assert is_valid
                assert status.status == "delivered"
                reference.move("c", MODELS[number], 0.0)
                delivered[receiver].append(MODELS[number].__name__)
            await anyio.sleep(0.1)
            for side in (one.dialogue, other.dialogue):
                assert side.get_current_state(conversation) == reference.state("c")
        assert {"a": one.log, "b": other.log} == delivered
        assert one.errors == other.errors == []
        kept = [[message.model for message in side.dialogue.get_conversation(conversation)] for side in (one, other)]
        assert kept[0] == kept[1]
        await closed(one, other)

    Harnesses().run(test)


def test_sequences_on_the_channel_get_the_verdicts_of_uagents() -> None:
    """One session each for the receiver of all recorded sequences of a graph whose edges have models of their own."""
    cases = [
        case
        for case in RECORD["cases"]
        if len({edge[2] for edge in case["edges"]}) == len(case["edges"]) and case["edges"][0][0] is None
    ]

    async def test(calls: Harnesses) -> None:
        checked = 0
        for case in cases[::8]:  # all of them are judged without a channel by test_dialogue_structure
            channel = LocalChannel()
            talker = await calls.start(Talker(channel, "receiver", dialogue_of(case["edges"])))
            for number, verdict in zip(case["sequence"], case["verdicts"], strict=True):
                content = message_of(number)
                edges = [talker.dialogue.get_edge(name) for name in talker.dialogue.rules]
                digest = next((edge.digest for edge in edges if edge.model is type(content)), "model:unknown")
                status = await channel.deliver(
                    Envelope(
                        kind="message",
                        dialogue=talker.dialogue.digest,
                        session_id="c",
                        sender="s",
                        receiver="receiver",
                        model=digest,
                        content=content.model_dump_json(),
                    )
                )
                assert (status.status == "delivered") == verdict[3], case
                checked += 1
            await closed(talker)
        assert checked > 80

    Harnesses().run(test)


class Echo:
    """A member on an event loop of its own, in another thread."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.digests = frozenset({"dialogue:x"})
        self.thread = 0

    def receive(self, envelope: Envelope) -> MessageStatus:
        self.thread = threading.get_ident()
        if envelope.content == "raise":
            raise ValueError("scripted")
        return envelope.status("delivered")


async def test_members_on_several_event_loops_get_their_messages_on_their_own() -> None:
    channel, echo = LocalChannel(), Echo("far")
    joined, over = threading.Event(), threading.Event()

    def envelope(content: str = "") -> Envelope:
        return Envelope(
            kind="message", dialogue="dialogue:x", session_id="c", sender="near", receiver="far", content=content
        )

    async def far() -> None:
        await channel.join(echo)
        joined.set()
        await asyncio.to_thread(over.wait, 10.0)

    thread = threading.Thread(target=asyncio.run, args=(far(),))
    thread.start()
    try:
        await asyncio.to_thread(joined.wait, 10.0)
        assert await channel.speakers("dialogue:x") == ["far"]
        assert (await channel.deliver(envelope())).status == "delivered"
        assert echo.thread == thread.ident
        with pytest.raises(ValueError, match="scripted"):
            await channel.deliver(envelope("raise"))
    finally:
        over.set()
        await asyncio.to_thread(thread.join, 10.0)
    status = await channel.deliver(envelope())
    assert (status.status, status.detail) == ("failed", "the event loop of the agent 'far' has ended")
    await channel.leave(echo)
    await channel.leave(echo)
    assert await channel.speakers("dialogue:x") == []
