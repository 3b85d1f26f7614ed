"""Sessions without a voice that talk with peers on loopback, and the models of their messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from pydantic import BaseModel

from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.peers import AgentRegistry, Peer, PeerOptions
from vivavoce.pipelines import Pipeline


class Question(BaseModel):
    number: int = 0
    words: str = ""


class Answer(BaseModel):
    number: int


class Note(BaseModel):
    words: str


def talker(
    id: str = "asker",
    pipeline: Pipeline | None = None,
    *,
    agent: Agent | None = None,
    registry: AgentRegistry | None = None,
    text_is_turn: bool = False,
    **options: Any,
) -> AgentSession[Any]:
    """Return a session with peers, whose agent has that id."""
    peers = PeerOptions(registry=registry, text_is_turn=text_is_turn)
    options = {"peers": peers, **options}
    return AgentSession(agent or Agent("Be brief.", id=id), pipeline, options=SessionOptions(**options), id=id)


@asynccontextmanager
async def running(session: AgentSession[Any]) -> AsyncIterator[AgentSession[Any]]:
    """Run a session; its errors fail the block."""
    errors: list[str] = []
    session.on("error", lambda event: errors.append(f"{event.source}: {event.error}"))
    async with session:
        await session.start()
        yield session
    assert errors == []


def errors_of(session: AgentSession[Any]) -> list[str]:
    """Return a list that gets the errors of a session, each with its source."""
    errors: list[str] = []

    def note(event: ErrorOccurred) -> None:
        errors.append(f"{event.source}: {event.error}")

    session.on("error", note)
    return errors


def answering(session: AgentSession[Any]) -> AgentSession[Any]:
    """Have a session answer each question with its number."""

    @session.peers.on_message(Question)
    async def answer(peer: Peer, question: Question) -> Answer:
        return Answer(number=question.number)

    return session


@asynccontextmanager
async def raw(url: str, *hello: str, **options: Any) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """A client of another maker."""
    async with aiohttp.ClientSession() as client, client.ws_connect(url, **options) as socket:
        for text in hello:
            await socket.send_str(text)
        yield socket
