"""The order of messages of a dialogue, its conversations and checks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, create_model

from kit.dialogues import MODELS, RECORD
from vivavoce.agents.dialogues.conversations import MAX_CONVERSATIONS, Conversations, DialogueMessage
from vivavoce.agents.dialogues.edge import Edge, Node, digest_of
from vivavoce.agents.dialogues.structure import DialogueStructure
from vivavoce.pipelines.core.errors import ConfigurationError, GraphError

Ask, Offer, Accept, Refuse, Other = MODELS
DIGESTS = [digest_of(model) for model in MODELS]


def structure_of(edges: list[list[int | None]]) -> DialogueStructure:
    """Return the structure of recorded edges."""
    nodes = [Node(f"n{number}", "", number == edges[0][0]) for number in range(4)]
    made = []
    for number, (parent, child, model) in enumerate(edges):
        assert child is not None
        assert model is not None
        edge = Edge(f"e{number}", "", None if parent is None else nodes[parent], nodes[child])
        edge.model = MODELS[model]
        made.append(edge)
    return DialogueStructure("d", nodes, made)


def verdicts(edges: list[list[int | None]], sequence: list[int]) -> list[list[bool]]:
    """Return ours, as the record has those of uagents."""
    structure, said = structure_of(edges), []
    conversations, before = Conversations(structure, 0), "model:none"
    for number in sequence:
        digest = DIGESTS[number]  # a model costs its schema at each question
        about = [structure.is_included(digest), structure.is_starter(digest), structure.is_ender(digest)]
        is_valid, is_reply = conversations.may_come("c", digest), structure.is_valid_reply(before, digest)
        if is_valid:
            conversations.move("c", digest, 0.0)
        said.append([*about, is_valid, is_reply, conversations.is_finished("c")])
        before = digest
    return said


def _has_shared_model(case: dict[str, Any]) -> bool:
    models = [edge[2] for edge in case["edges"]]
    return len(models) > len(set(models))


def test_sequences_get_the_verdicts_of_uagents_where_each_edge_has_its_own_model() -> None:
    cases = [case for case in RECORD["cases"] if not _has_shared_model(case)]

    assert len(cases) >= 160
    assert sum(case["edges"][0][0] is not None for case in cases) >= 60, "many begin out of an initial node"
    for verdict, least in ((3, 300), (4, 200), (5, 100)):
        assert sum(one[verdict] for case in cases for one in case["verdicts"]) > least
    for case in cases:
        assert verdicts(case["edges"], case["sequence"]) == case["verdicts"], case


def test_where_edges_share_a_model_the_node_decides_and_not_the_first_edge_with_that_model() -> None:
    """The one difference of the verdicts: uagents takes a digest for the first edge that has it, wherever it is."""
    cases = [case for case in RECORD["cases"] if _has_shared_model(case)]
    differing: set[int] = set()
    for case in cases:
        for ours, theirs in zip(verdicts(case["edges"], case["sequence"]), case["verdicts"], strict=True):
            differing.update(verdict for verdict in range(6) if ours[verdict] != theirs[verdict])

    assert len(cases) >= 40
    assert differing == {3, 4, 5}, "a valid message, a valid reply, the end; included, starter, ender are the same"


def negotiation() -> DialogueStructure:
    """Ask, then offers until one is accepted or refused."""
    begin, asked, offered, closed = (
        Node(name, f"the {name} node", name == "begin") for name in ("begin", "asked", "offered", "closed")
    )
    ask = Edge("ask", "a question", begin, asked)
    offer = Edge("offer", "an answer", asked, offered)
    again = Edge("again", "another question", offered, asked)
    accept, refuse = Edge("accept", "yes", offered, closed), Edge("refuse", "no", offered, closed)
    for edge, model in zip((ask, offer, again, accept, refuse), (Ask, Offer, Ask, Accept, Refuse), strict=True):
        edge.model = model
    return DialogueStructure("negotiation", [begin, asked, offered, closed], [ask, offer, again, accept, refuse])


def test_rules_name_the_edges_that_may_follow() -> None:
    structure = negotiation()

    assert structure.check({}) == ()
    assert structure.rules == {
        "ask": ["offer"],
        "offer": ["again", "accept", "refuse"],
        "again": ["offer"],
        "accept": [],
        "refuse": [],
    }
    assert structure.is_cyclic
    assert structure.starter is structure.edge("ask")


def test_a_message_is_judged_by_its_model_by_itself_or_by_its_digest_and_an_unknown_one_is_none() -> None:
    structure = negotiation()

    for message in (Ask, Ask(field0="x"), digest_of(Ask)):
        assert structure.is_starter(message)
        assert structure.is_valid_reply(message, Offer)
        assert not structure.is_ender(message)
    for unknown in (Other, "model:0"):
        assert not structure.is_included(unknown)
        assert not structure.is_starter(unknown)
        assert not structure.is_ender(unknown)
        assert not structure.is_valid_reply(Ask, unknown)
        assert not Conversations(structure, 0).may_come("c", unknown)
    with pytest.raises(ConfigurationError, match="need a pydantic model, a message or a digest, got 3"):
        structure.is_starter(3)  # type: ignore[arg-type]  # on purpose


class Callback(BaseModel):
    """Has no JSON schema."""

    call: Callable[[int], int]


def test_a_model_without_a_json_schema_is_an_unknown_one_and_none_of_an_edge() -> None:
    structure = negotiation()
    for message in (Callback, Callback(call=abs)):
        assert not structure.is_included(message)
        assert not structure.is_starter(message)
        assert not structure.is_ender(message)
        assert not structure.is_valid_reply(message, Offer)
        assert not Conversations(structure, 0).may_come("c", message)
    with pytest.raises(ConfigurationError, match="the model Callback has no JSON schema: .+"):
        Edge("call", "", None, structure.nodes[0]).model = Callback


def test_an_unknown_edge_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigurationError, match="the dialogue 'negotiation' has no edge 'ofer'.*offer"):
        negotiation().edge("ofer")


def _with_model(old: Edge, model: type[BaseModel]) -> Edge:
    edge = Edge(old.name, old.description, old.parent, old.child)
    edge.model = model
    return edge


def test_the_digest_changes_with_each_field() -> None:
    def changed(change: Callable[[DialogueStructure], object]) -> str:
        structure = negotiation()
        changed_to = change(structure)
        return (changed_to if isinstance(changed_to, DialogueStructure) else structure).digest

    def swap(structure: DialogueStructure) -> DialogueStructure:
        return DialogueStructure(structure.name, structure.nodes, structure.edges[::-1])

    def other_model(one: DialogueStructure) -> DialogueStructure:
        return DialogueStructure(one.name, one.nodes, [one.edges[0], _with_model(one.edges[1], Other), *one.edges[2:]])

    digests = [
        negotiation().digest,
        changed(lambda one: setattr(one, "name", "other")),
        changed(lambda one: setattr(one.nodes[1], "name", "other")),
        changed(lambda one: setattr(one.nodes[1], "description", "other")),
        changed(lambda one: setattr(one.nodes[0], "initial", False)),
        changed(lambda one: setattr(one.edges[1], "name", "other")),
        changed(lambda one: setattr(one.edges[1], "description", "other")),
        changed(lambda one: setattr(one.edges[1], "parent", one.nodes[0])),
        changed(lambda one: setattr(one.edges[1], "child", one.nodes[3])),
        changed(other_model),
        changed(swap),
        changed(lambda one: DialogueStructure(one.name, one.nodes[:-1], one.edges)),
        changed(lambda one: DialogueStructure(one.name, one.nodes, one.edges[:-1])),
    ]

    assert len(set(digests)) == len(digests)
    assert negotiation().digest == digests[0]
    assert all(digest.startswith("dialogue:") for digest in digests)


def test_the_digest_of_a_model_changes_with_its_fields() -> None:
    other = create_model("Model0", field0=(int, ...))

    assert digest_of(other) != digest_of(Ask)
    assert digest_of(create_model("Model0", field0=(str, ...))) == digest_of(Ask)


async def handle(ctx: object, sender: str, message: object) -> None:
    """A handler."""


def _fault(change: Callable[[list[Node], list[Edge]], object]) -> tuple[str, ...]:
    structure = negotiation()
    nodes, edges = list(structure.nodes), list(structure.edges)
    change(nodes, edges)
    with pytest.raises(GraphError) as raised:
        DialogueStructure("d", nodes, edges).check({})
    return raised.value.findings


def _two_openers(_nodes: list[Node], edges: list[Edge]) -> None:
    edges[0].parent = None
    edges.append(edges[0])


@pytest.mark.parametrize(
    ("change", "findings"),
    [
        (lambda nodes, edges: setattr(nodes[1], "name", "begin"), ["2 nodes have the name 'begin'; give each its own"]),
        (lambda nodes, edges: setattr(edges[1], "name", "ask"), ["2 edges have the name 'ask'; give each its own"]),
        (lambda nodes, edges: setattr(nodes[1], "initial", True), ["one node may be initial, got 'begin', 'asked'"]),
        (
            _two_openers,
            ["2 edges have the name 'ask'; give each its own", "one edge may have no parent, got 'ask', 'ask'"],
        ),
        (
            lambda nodes, edges: setattr(nodes[0], "initial", False),
            ["no message starts the dialogue; give an edge no parent, or an initial node an edge out of it"],
        ),
        (
            lambda nodes, edges: nodes.pop(),
            [
                f"the child of the edge {name!r}, 'closed', is no node of the dialogue; add it to nodes"
                for name in ("accept", "refuse")
            ],
        ),
        (
            lambda nodes, edges: nodes.append(Node("lost", "")),
            ["no message leads to the node 'lost'; add an edge, or remove it"],
        ),
        (
            lambda nodes, edges: edges.__setitem__(4, _with_model(edges[4], Accept)),
            ["out of 'offered', the edges 'accept', 'refuse' have one model; give each its own"],
        ),
        (
            lambda nodes, edges: edges.append(Edge("empty", "", nodes[1], nodes[3])),
            ["the edge 'empty' can never be taken: it has no model; set edge.model or a handler"],
        ),
    ],
)
def test_a_fault_is_named_with_its_place(
    change: Callable[[list[Node], list[Edge]], object], findings: list[str]
) -> None:
    assert list(_fault(change)) == findings


def test_no_way_to_an_end_is_a_warning_and_no_fault() -> None:
    full = negotiation()
    haggling = DialogueStructure("haggling", full.nodes[:3], full.edges[:3])
    assert haggling.check({}) == ("no way leads to an end of the dialogue 'haggling'",)

    offered, lost, found = full.nodes[2], Node("lost", ""), Node("found", "")
    ways = [Edge("away", "", offered, lost), Edge("on", "", lost, found), Edge("back", "", found, lost)]
    for edge in ways:
        edge.model = Other
    one_way = DialogueStructure("one way", [*full.nodes, lost, found], [*full.edges, *ways])
    assert one_way.check({}) == tuple(
        f"no way leads from the node {name!r} to an end of the dialogue 'one way'" for name in ("lost", "found")
    )
    assert (full.is_cyclic, DialogueStructure("d", full.nodes, [*full.edges[:2], *full.edges[3:]]).is_cyclic) == (
        True,
        False,
    )


def test_of_two_edges_out_of_the_initial_node_the_first_one_starts() -> None:
    full = negotiation()
    begin, asked, offered, _ = full.nodes
    other, back = Edge("other", "", begin, asked), Edge("back", "", offered, begin)
    other.model, back.model = Other, Other
    structure = DialogueStructure("d", full.nodes, [*full.edges, other, back])

    assert structure.check({}) == ()
    assert structure.starter is full.edge("ask")
    conversations = Conversations(structure, 0)
    assert not conversations.may_come("c", Other)
    for model in (Ask, Offer, Other, Other):  # back at the initial node, both may come
        conversations.move("c", model, 0)
    assert conversations.state("c") == "asked"


def test_a_handler_of_another_signature_is_a_fault() -> None:
    def change(_nodes: list[Node], edges: list[Edge]) -> None:
        edges[0].set_edge_handler(Ask, handle)
        edges[1].set_message_handler(Offer, lambda ctx: None)  # type: ignore[arg-type,misc]  # on purpose

    (finding,) = _fault(change)
    assert finding.startswith("the message handler of 'offer' must be async f(ctx, sender, message), got <function")


def test_an_edge_out_of_an_initial_node_is_never_taken_where_another_edge_starts() -> None:
    def change(nodes: list[Node], edges: list[Edge]) -> None:
        first = Edge("first", "", None, nodes[1])
        first.model = Other
        edges.append(first)

    assert _fault(change) == ("the edge 'ask' can never be taken: the dialogue starts with 'first'",)


def test_a_second_model_for_an_edge_is_refused() -> None:
    edge = negotiation().edge("ask")

    with pytest.raises(ConfigurationError, match="the edge 'ask' has the model Model0, got Model1; an edge has one"):
        edge.set_message_handler(Offer, handle)
    with pytest.raises(ConfigurationError, match="the edge 'ask' has the model Model0, got Model1; an edge has one"):
        edge.model = Offer
    edge.model = Ask
    with pytest.raises(ConfigurationError, match="the model of an edge must be a pydantic model class, got 3"):
        edge.model = 3  # type: ignore[assignment]  # on purpose


def test_an_unexpected_message_names_the_expected_ones_and_moves_nothing() -> None:
    conversations = Conversations(negotiation(), 0)
    conversations.move("c", Ask, 0)

    with pytest.raises(ConfigurationError, match="the dialogue 'negotiation' expects Model1, got Model2"):
        conversations.move("c", Accept(field2="secret"), 0)
    assert conversations.state("c") == "asked"
    for model in (Offer, Accept):
        conversations.move("c", model, 0)
    assert conversations.is_finished("c")
    with pytest.raises(ConfigurationError, match="expects no message, since the conversation is over"):
        conversations.move("c", Ask, 0)


def test_an_unknown_conversation_has_no_state_and_no_messages() -> None:
    conversations = Conversations(negotiation(), 0)

    assert (conversations.state("c"), conversations.is_finished("c"), conversations.messages("c")) == ("", False, [])
    assert not conversations.remove("c")


def test_messages_are_kept_in_order_and_filtered_by_their_model_s_name() -> None:
    conversations = Conversations(negotiation(), 0)
    for number, content in enumerate((Ask(field0="a"), Offer(field1="b"), Ask(field0="c"))):
        kept = DialogueMessage(model=type(content).__name__, content=content, sender="x", receiver="y", at=number)
        conversations.add("c", kept)

    assert [one.at for one in conversations.messages("c")] == [0, 1, 2]
    assert [one.at for one in conversations.messages("c", "Model0")] == [0, 2]
    assert "field0" not in repr(conversations.messages("c"))
    assert conversations.remove("c")
    assert conversations.messages("c") == []


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 30)), max_size=20), st.floats(1, 20))
def test_a_conversation_is_removed_after_its_idle_time_and_never_before(
    uses: list[tuple[str, float]], timeout: float
) -> None:
    conversations, structure, now = Conversations(negotiation(), timeout), negotiation(), 0.0
    used: dict[str, float] = {}
    for session_id, pause in uses:
        due = conversations.next_deadline()
        assert due == min((at + timeout for at in used.values()), default=None)
        now += pause
        gone = [one.session_id for one in conversations.expire(now)]
        assert sorted(gone) == sorted(one for one, at in used.items() if at + timeout <= now)
        used = {one: at for one, at in used.items() if one not in gone}
        edge = structure.edge("ask")
        assert edge.model is not None
        if session_id not in used:
            conversations.move(session_id, edge.model, now)
            used[session_id] = now


def test_without_a_timeout_a_conversation_stays() -> None:
    conversations = Conversations(negotiation(), 0)
    conversations.move("c", Ask, 0)

    assert conversations.next_deadline() is None
    assert conversations.expire(1e9) == []


def test_of_too_many_conversations_the_finished_ones_go_first_and_then_the_longest_idle() -> None:
    conversations = Conversations(negotiation(), 0)
    for number in range(MAX_CONVERSATIONS):
        conversations.move(f"c{number}", Ask, float(number))
    for finished, at in (("c7", 2000.0), ("c3", 3000.0)):
        conversations.move(finished, Offer, at)
        conversations.move(finished, Refuse, at)
    assert conversations.next_deadline() is None

    for number, gone in enumerate(("c7", "c3", "c0", "c1")):
        now = 5000.0 + number
        conversations.move(f"new{number}", Ask, now)
        due = conversations.next_deadline()
        assert due is not None
        assert due <= now
        assert [one.session_id for one in conversations.expire(now)] == [gone]
        assert conversations.next_deadline() is None
    for number in range(3):
        conversations.move(f"more{number}", Ask, 6000.0)
    assert [one.session_id for one in conversations.expire(6000.0)] == ["c2", "c4", "c5"]


def test_the_overview_is_json_and_names_every_part() -> None:
    overview = json.loads(json.dumps(negotiation().overview))

    assert overview["nodes"][3] == {
        "name": "closed",
        "description": "the closed node",
        "initial": False,
        "final": True,
    }
    assert overview["edges"][0] == {
        "name": "ask",
        "description": "a question",
        "parent": "begin",
        "child": "asked",
        "model": "Model0",
        "starter": True,
        "ender": False,
    }
    assert set(negotiation().schemas) == {digest_of(model) for model in (Ask, Offer, Accept, Refuse)}
