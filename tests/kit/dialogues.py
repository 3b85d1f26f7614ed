"""Two agents that negotiate a price, in sessions of virtual time on one channel; the recorded verdicts of uagents."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, create_model

from vivavoce.agents import (
    Agent,
    AgentSession,
    Dialogue,
    DialogueOptions,
    Edge,
    Envelope,
    MessageChannel,
    Node,
    SessionOptions,
)
from vivavoce.agents.events import DialogueExpired, ErrorOccurred
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, VirtualClock
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.testing import ScriptedRealtimeModel

RECORD = json.loads((Path(__file__).parents[1] / "agents" / "dialogues" / "uagents_verdicts.json").read_text())


def model_of(name: str, **fields: Any) -> type[BaseModel]:
    """Return a model with these fields: name=(type, default)."""
    return create_model(name, **fields)


MODELS = [model_of(f"Model{number}", **{f"field{number}": (str, ...)}) for number in range(5)]
"""The models of the record, by their numbers."""


class Ask(BaseModel):
    item: str


class Offer(BaseModel):
    price: int


class Accept(BaseModel):
    """Takes the offer."""


class Refuse(BaseModel):
    reason: str = ""


NODES = [Node("begin", "", True), Node("asked", ""), Node("offered", ""), Node("closed", "")]


def negotiation(name: str = "negotiation", **options: float) -> Dialogue:
    """Ask, then offers until one is accepted or refused."""
    begin, asked, offered, closed = nodes = [Node(one.name, one.description, one.initial) for one in NODES]
    edges = []
    for edge_name, parent, child, model in (
        ("ask", begin, asked, Ask),
        ("offer", asked, offered, Offer),
        ("again", offered, asked, Ask),
        ("accept", offered, closed, Accept),
        ("refuse", offered, closed, Refuse),
    ):
        edge = Edge(edge_name, "", parent, child)
        edge.model = model
        edges.append(edge)
    return Dialogue(name, nodes, edges, **options)


class Talker:
    """A session of an agent with dialogues, and a record of its errors and expired conversations.

    Args:
        dialogues: By default one negotiation.
        kind: Of the pipeline: "cascading" or "realtime".
    """

    def __init__(
        self,
        channel: MessageChannel,
        id: str,
        *dialogues: Dialogue,
        kind: str = "cascading",
        agent: Agent | None = None,
        options: Callable[[SessionOptions], SessionOptions] = lambda options: options,
    ) -> None:
        self.dialogues: Sequence[Dialogue] = dialogues or (negotiation(),)
        self.agent = agent or Agent("Be brief.", id=id)
        made = SessionOptions(
            clock=VirtualClock(), dialogues=DialogueOptions(dialogues=self.dialogues, channel=channel)
        )
        self.session: AgentSession[Any] = AgentSession(
            self.agent, pipeline_of(self.agent, kind), options=options(made), id=f"call of {id}"
        )
        self.errors: list[str] = []
        self.expired: list[DialogueExpired] = []
        self.log: list[str] = []
        """For handlers of the test."""
        self.session.on(ErrorOccurred, lambda event: self.errors.append(f"{event.source}: {event.error}"))
        self.session.on(DialogueExpired, self.expired.append)

    @property
    def dialogue(self) -> Dialogue:
        """The first dialogue."""
        return self.dialogues[0]

    async def start(self) -> Talker:
        """Start the session."""
        await self.session.start(LocalTransport(VirtualClock()))
        return self

    def logs(self, *edges: str) -> None:
        """Have message handlers note the messages of those edges."""
        for name in edges:
            model = self.dialogue.get_edge(name).model
            assert model is not None

            async def note(ctx: object, sender: str, message: BaseModel) -> None:
                self.log.append(f"{sender}: {message!r}")

            self.dialogue.on(name, model)(note)


def pipeline_of(agent: Agent, kind: str) -> Any:
    """Return a pipeline with scripted parts."""
    if kind == "realtime":
        return SessionHarness(agent, model=ScriptedRealtimeModel()).pipeline
    return SessionHarness(agent, ScriptedLLM(default="Fine.")).pipeline


async def pair(channel: MessageChannel, kind: str = "cascading") -> tuple[Talker, Talker]:
    """Return a started buyer and a started seller."""
    return await Talker(channel, "buyer", kind=kind).start(), await Talker(channel, "seller", kind=kind).start()


async def closed(*talkers: Talker) -> None:
    """Close sessions and check that they were closed in order."""
    for talker in talkers:
        report = await talker.session.close()
        assert report.is_clean, report


def letter(dialogue: Dialogue, message: BaseModel, /, **given: Any) -> Envelope:
    """A message of a stranger to the seller."""
    edge = next(edge for edge in (dialogue.get_edge(name) for name in dialogue.rules) if edge.model is type(message))
    made = Envelope(
        kind="message",
        dialogue=dialogue.digest,
        session_id="c",
        sender="stranger",
        receiver="seller",
        model=edge.digest,
        content=message.model_dump_json(),
    )
    return replace(made, **given)
