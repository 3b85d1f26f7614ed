"""DialogueStructure: the nodes and edges of a dialogue, its rules and checks. It holds no conversation."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vivavoce.agents.dialogues.edge import Edge, Handler, Message, Node, digest_of, sha256_of
from vivavoce.pipelines.core.checks import check_items, check_text, nearest, shown
from vivavoce.pipelines.core.errors import ConfigurationError, GraphError


class DialogueStructure:
    """Nodes, edges, and the order of messages that follows from them.

    Args:
        edges: In the order of their definition: without an edge that has no parent, the first one out of the initial
            node starts.
    """

    def __init__(self, name: str, nodes: Sequence[Node], edges: Sequence[Edge]) -> None:
        check_items("nodes", nodes, Node)
        check_items("edges", edges, Edge)
        self.name = name
        self.nodes = tuple(nodes)
        self.edges = tuple(edges)

    def edge(self, name: str) -> Edge:
        """Return an edge.

        Raises:
            ConfigurationError: There is none of that name, or it is no text.
        """
        name = check_text("name", name)
        for edge in self.edges:
            if edge.name == name:
                return edge
        near = nearest(name, [edge.name for edge in self.edges])
        meant = f"; did you mean {near!r}?" if near else ""
        raise ConfigurationError(f"the dialogue {self.name!r} has no edge {name!r}{meant}")

    @property
    def starter(self) -> Edge | None:
        """The edge of the first message."""
        without_parent = [edge for edge in self.edges if edge.parent is None]
        out_of_initial = [edge for edge in self.edges if edge.parent is not None and edge.parent.initial]
        return next(iter(without_parent or out_of_initial), None)

    @property
    def rules(self) -> dict[str, list[str]]:
        """The edges that may follow each edge, by name."""
        return {edge.name: [following.name for following in self.out_of(edge.child)] for edge in self.edges}

    @property
    def is_cyclic(self) -> bool:
        """Whether a conversation may come back to a node."""
        return any(node in self._after(node) for node in self.nodes)

    def out_of(self, node: Node) -> list[Edge]:
        """Return the edges out of a node."""
        return [edge for edge in self.edges if edge.parent is node]

    def edges_from(self, node: Node | None) -> list[Edge]:
        """Return the edges that a conversation may take from a node, or from its beginning for None."""
        if node is not None:
            return self.out_of(node)
        return [] if self.starter is None else [self.starter]

    def is_end(self, node: Node) -> bool:
        """Return whether no message may follow in a node."""
        return not self.out_of(node)

    def next_edge(self, node: Node | None, message: Message) -> Edge | None:
        """Return the edge that a message takes from a node, or from the beginning for None; None if it may not come
        now."""
        digest = digest_of(message)
        return next((edge for edge in self.edges_from(node) if edge.model is not None and edge.digest == digest), None)

    # --- about messages alone

    def is_included(self, message: Message) -> bool:
        """Return whether an edge has that model."""
        return digest_of(message) in [edge.digest for edge in self.edges if edge.model is not None]

    def is_starter(self, message: Message) -> bool:
        """Return whether a dialogue starts with the model or message."""
        starter = self.starter
        return starter is not None and starter.model is not None and starter.digest == digest_of(message)

    def is_ender(self, message: Message) -> bool:
        """Return whether it leads to a node where no message may follow."""
        digest = digest_of(message)
        return any(edge.model is not None and edge.digest == digest and self.is_end(edge.child) for edge in self.edges)

    def is_valid_reply(self, received: Message, sent: Message) -> bool:
        """Return whether `sent` may follow `received` on some edge."""
        before, after = digest_of(received), digest_of(sent)
        return any(
            following.digest == after
            for edge in self.edges
            if edge.model is not None and edge.digest == before
            for following in self.out_of(edge.child)
            if following.model is not None
        )

    # --- for people and for others

    @property
    def overview(self) -> dict[str, Any]:
        """The nodes and edges as JSON data."""
        starter = self.starter
        return {
            "nodes": [
                {
                    "name": node.name,
                    "description": node.description,
                    "initial": node.initial,
                    "final": self.is_end(node),
                }
                for node in self.nodes
            ],
            "edges": [
                {
                    "name": edge.name,
                    "description": edge.description,
                    "parent": None if edge.parent is None else edge.parent.name,
                    "child": edge.child.name,
                    "model": None if edge.model is None else edge.model.__name__,
                    "starter": edge is starter,
                    "ender": self.is_end(edge.child),
                }
                for edge in self.edges
            ],
        }

    @property
    def schemas(self) -> dict[str, Any]:
        """The JSON schemas of the messages, by digest."""
        return {edge.digest: edge.model.model_json_schema() for edge in self.edges if edge.model is not None}

    @property
    def digest(self) -> str:
        """`dialogue:` and the sha256 over name, nodes, edges and schemas."""
        models = {edge.name: edge.digest for edge in self.edges}
        return "dialogue:" + sha256_of({"name": self.name, **self.overview, "models": models})

    @property
    def manifest(self) -> dict[str, Any]:
        """The dialogue as JSON data, for others who want to speak it."""
        schemas = self.schemas
        return {
            "version": "1.0",
            "metadata": {"name": self.name, "digest": self.digest},
            "models": [{"digest": digest, "schema": schema} for digest, schema in schemas.items()],
            "interactions": [
                {"type": "normal", "request": one, "responses": [to for to in schemas if self.is_valid_reply(one, to)]}
                for one in schemas
            ],
            **self.overview,
        }

    # --- checks

    def check(self, handlers: Mapping[str, Handler]) -> tuple[str, ...]:
        """Check the structure and return the warnings.

        Args:
            handlers: Further handlers, by the names of their edges.
        Raises:
            GraphError: It has faults; the error names all of them.
        """
        if findings := [*self._names(), *self._starts(), *self._places(), *self._messages(), *_handlers(handlers)]:
            raise GraphError(findings)
        if not any(self.is_end(node) for node in self.nodes):
            return (f"no way leads to an end of the dialogue {self.name!r}",)
        endless = [node for node in self.nodes if not any(map(self.is_end, {node, *self._after(node)}))]
        return tuple(
            f"no way leads from the node {one.name!r} to an end of the dialogue {self.name!r}" for one in endless
        )

    def _names(self) -> Iterator[str]:
        for kind, names in (
            ("nodes", [node.name for node in self.nodes]),
            ("edges", [edge.name for edge in self.edges]),
        ):
            for name, count in Counter(names).items():
                if count > 1:
                    yield f"{count} {kind} have the name {name!r}; give each its own"

    def _starts(self) -> Iterator[str]:
        initial = [node.name for node in self.nodes if node.initial]
        openers = [edge.name for edge in self.edges if edge.parent is None]
        if len(initial) > 1:
            yield f"one node may be initial, got {', '.join(map(repr, initial))}"
        if len(openers) > 1:
            yield f"one edge may have no parent, got {', '.join(map(repr, openers))}"
        if self.starter is None:
            yield "no message starts the dialogue; give an edge no parent, or an initial node an edge out of it"

    def _places(self) -> Iterator[str]:
        known = set(self.nodes)
        for edge in self.edges:
            for side, node in (("parent", edge.parent), ("child", edge.child)):
                if node is not None and node not in known:
                    where = f"the {side} of the edge {edge.name!r}, {node.name!r}"
                    yield f"{where}, is no node of the dialogue; add it to nodes"
        starter = self.starter
        if starter is None:
            return
        found = {starter.child, *self._after(starter.child)}
        beginning = {starter.parent, *(node for node in self.nodes if node.initial)}
        for node in self.nodes:
            if node not in found | beginning:
                yield f"no message leads to the node {node.name!r}; add an edge, or remove it"
        for edge in self.edges:
            if edge is not starter and edge.parent is not None and edge.parent in known - found:
                yield f"the edge {edge.name!r} can never be taken: the dialogue starts with {starter.name!r}"

    def _messages(self) -> Iterator[str]:
        for edge in self.edges:
            if edge.model is None:
                yield f"the edge {edge.name!r} can never be taken: it has no model; set edge.model or a handler"
            for kind, handler in (("edge", edge.efunc), ("message", edge.func)):
                if handler is not None:
                    yield from _faults_of(kind, edge.name, handler)
        for node in self.nodes:
            models = Counter(edge.digest for edge in self.out_of(node) if edge.model is not None)
            for digest, count in models.items():
                if count > 1:
                    names = ", ".join(repr(edge.name) for edge in self.out_of(node) if edge.digest == digest)
                    yield f"out of {node.name!r}, the edges {names} have one model; give each its own"

    def _after(self, node: Node) -> set[Node]:
        """Return the nodes that messages lead to from a node."""
        found: set[Node] = set()
        todo = [node]
        while todo:
            for edge in self.out_of(todo.pop()):
                if edge.child not in found:
                    found.add(edge.child)
                    todo.append(edge.child)
        return found


def _handlers(handlers: Mapping[str, Handler]) -> Iterator[str]:
    for name, handler in handlers.items():
        yield from _faults_of("message", name, handler)


def _faults_of(kind: str, name: str, handler: Handler) -> Iterator[str]:
    if not _is_handler(handler):
        yield f"the {kind} handler of {name!r} must be async f(ctx, sender, message), got {shown(handler)}"


def _is_handler(handler: Handler) -> bool:
    if not inspect.iscoroutinefunction(handler):
        return False
    try:
        inspect.signature(handler).bind("ctx", "sender", "message")
    except TypeError:
        return False
    return True
