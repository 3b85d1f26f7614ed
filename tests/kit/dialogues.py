"""Two agents that negotiate a price, in sessions of virtual time on one channel; the recorded verdicts of uagents."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, create_model

from vivavoce.agents import Agent, MemoryOptions, SessionOptions
from vivavoce.agents.dialogues import Dialogue, DialogueOptions, Edge, Envelope, MessageChannel, Node
from vivavoce.agents.events import DialogueExpired, ErrorOccurred
from vivavoce.agents.memory import SessionStore
from vivavoce.agents.testing import Harnesses, ScriptedLLM, ScriptedRealtimeModel, ScriptedTTS, SessionHarness
from vivavoce.pipelines import CascadingPipeline, Pipeline, RealtimePipeline, SilentPipeline

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


class Talker(SessionHarness):
    """A session of an agent with dialogues, by default without a pipeline, and a log for handlers of the test.

    Args:
        dialogues: By default one negotiation.
        pipeline: By default the session has no voice.
        store: Keeps the session.
    """

    def __init__(
        self,
        channel: MessageChannel,
        id: str,
        *dialogues: Dialogue,
        pipeline: Pipeline | None = None,
        agent: Agent | None = None,
        handler_timeout: float | None = None,
        store: SessionStore | None = None,
    ) -> None:
        self.dialogues: Sequence[Dialogue] = dialogues or (negotiation(),)
        super().__init__(
            agent or Agent("Be brief.", id=id),
            pipeline=pipeline or SilentPipeline(),
            options=SessionOptions(
                dialogues=DialogueOptions(dialogues=self.dialogues, channel=channel, handler_timeout=handler_timeout),
                memory=None if store is None else MemoryOptions(store=store),
            ),
            id=f"call of {id}",
        )
        self.log: list[str] = []
        """For handlers of the test."""

    @property
    def dialogue(self) -> Dialogue:
        """The first dialogue."""
        return self.dialogues[0]

    @property
    def errors(self) -> list[str]:
        """The errors of the session, each with its source."""
        return [f"{event.source}: {event.error}" for event in self.recording.of(ErrorOccurred)]

    @property
    def expired(self) -> list[DialogueExpired]:
        """The conversations that were removed."""
        return self.recording.of(DialogueExpired)

    def logs(self, *edges: str) -> None:
        """Have message handlers note the messages of those edges."""
        for name in edges:
            model = self.dialogue.get_edge(name).model
            assert model is not None

            async def note(ctx: object, sender: str, message: BaseModel) -> None:
                self.log.append(f"{sender}: {message!r}")

            self.dialogue.on(name, model)(note)


PIPELINES: dict[str, Callable[[], Pipeline]] = {
    "silent": SilentPipeline,
    "cascading": lambda: CascadingPipeline(llm=ScriptedLLM(), tts=ScriptedTTS()),
    "realtime": lambda: RealtimePipeline(ScriptedRealtimeModel()),
}


async def pair(calls: Harnesses, channel: MessageChannel, kind: str = "silent") -> tuple[Talker, Talker]:
    """Return a started buyer and a started seller."""
    buyer, seller = (Talker(channel, id, pipeline=PIPELINES[kind]()) for id in ("buyer", "seller"))
    return await calls.start(buyer), await calls.start(seller)


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
