"""Records the verdicts of uagents 0.26.1 on sequences of messages, for test_dialogue_structure.py. By hand:

    python -m venv /tmp/ua && /tmp/ua/bin/pip install uagents==0.26.1
    /tmp/ua/bin/python tests/agents/dialogues/uagents_verdicts.py > tests/agents/dialogues/uagents_verdicts.json

A graph is a list of edges, each with parent (None: it starts), child and model, all numbers. Without an edge that
starts, the parent of the first edge is the initial node. A sequence is a list of models; each valid one moves the
conversation.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any
from uuid import uuid4

from uagents import Model  # type: ignore[import-not-found]  # in its own environment
from uagents.experimental.dialogues import Dialogue, Edge, Node  # type: ignore[import-not-found]  # as above
from uagents.storage import StorageAPI  # type: ignore[import-not-found]  # as above

MODELS = [type(f"Model{number}", (Model,), {"__annotations__": {f"field{number}": str}}) for number in range(5)]


class NoStorage(StorageAPI):  # type: ignore[misc]  # its package is not in our environment
    """Keeps nothing."""

    def get(self, key: str) -> Any:
        return None

    def set(self, key: str, value: Any) -> None:
        pass

    def remove(self, key: str) -> None:
        pass

    def has(self, key: str) -> bool:
        return False

    def clear(self) -> None:
        pass


def graph(random_source: random.Random, *, are_models_unique: bool) -> list[list[int | None]]:
    """Return a graph of up to four nodes and five edges."""
    models = random_source.sample(range(5), 5) if are_models_unique else [random_source.randrange(3) for _ in range(5)]
    edges: list[list[int | None]] = [[None, 0, models[0]]]
    reached = [0]
    for model in models[1 : random_source.randint(2, 5)]:
        edges.append([random_source.choice(reached), random_source.randrange(4), model])
        reached.append(edges[-1][1] or 0)
    return edges


def graph_from_node(random_source: random.Random) -> list[list[int | None]]:
    """Return a graph whose edges have models of their own, and whose first edge leads out of the initial node."""
    edges = graph(random_source, are_models_unique=True)
    return [[3, *edges[0][1:]], *edges[1:]]


def verdicts(edges: list[list[int | None]], sequence: list[int]) -> list[list[bool]]:
    """Return for each message: included, starter, ender, valid now, a valid reply to the one before, finished after it.

    The state moves with each valid one.
    """
    nodes = [Node(f"n{number}", "", number == edges[0][0]) for number in range(4)]
    made = []
    for number, (parent, child, model) in enumerate(edges):
        assert child is not None
        assert model is not None
        edge = Edge(f"e{number}", "", None if parent is None else nodes[parent], nodes[child])
        edge.model = MODELS[model]
        made.append(edge)
    dialogue = Dialogue("d", NoStorage(), nodes, made, cleanup_interval=0)
    session, said = uuid4(), []
    before = ""
    for number in sequence:
        digest = Model.build_schema_digest(MODELS[number])
        included = dialogue.is_included(digest)
        is_valid = included and dialogue.is_valid_message(session, digest)
        is_reply = included and dialogue.is_included(before) and dialogue.is_valid_reply(before, digest)
        if is_valid:
            dialogue.add_message(session, "", digest, "", "", "")
            dialogue.update_state(digest, session)
        about = [included, dialogue.is_starter(digest), dialogue.is_ender(digest)]
        said.append([*about, is_valid, is_reply, dialogue.is_finished(session)])
        before = digest
    return said


def main() -> None:
    """Print the record."""
    source, record = random.Random(19), []
    for number in range(80):
        edges = graph(source, are_models_unique=number < 40) if number < 60 else graph_from_node(source)
        used = [edge[2] or 0 for edge in edges]
        for _ in range(3):
            sequence = [source.choice([*used, *used, 4]) for _ in range(6)]
            sequence = [used[0], *sequence] if source.random() < 0.8 else sequence  # most begin well
            record.append({"edges": edges, "sequence": sequence, "verdicts": verdicts(edges, sequence)})
    json.dump({"uagents": "0.26.1", "cases": record}, sys.stdout)


if __name__ == "__main__":
    main()
