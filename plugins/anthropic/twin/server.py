"""Twin: the scripted server on loopback; the module of the twin that does the I/O."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from vivavoce.plugins.anthropic.twin.cache import Block, Cache, blocks_of
from vivavoce.plugins.anthropic.twin.rules import refusal_of, refusal_of_headers
from vivavoce.plugins.anthropic.twin.script import Answer, Event, Fault, Playing, Refuse, on_wire
from vivavoce.plugins.anthropic.twin.thoughts import sign

MODELS = ("claude-haiku-5-5", "claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-4-5")
"""Some of `types/model.py`, for `GET /v1/models`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request; names of headers in any case."""

    headers: Mapping[str, str]
    body: Any


Mind = Callable[[Received], Answer | Refuse]
"""Answers a request for which the script has nothing."""


class Twin:
    """Anthropic's server on a free port of 127.0.0.1, open inside of an `async with` block.

    Args:
        mind: Answers the requests behind the script; without one it is an error of the test: status 501.
        keys: The keys that it takes; None: any.
        models: The models that there are; None: any.
        min_cached_tokens: The shortest prefix that the cache keeps.
    """

    def __init__(
        self,
        mind: Mind | None = None,
        *,
        keys: Iterable[str] | None = None,
        models: Iterable[str] | None = None,
        min_cached_tokens: int = 1024,
    ) -> None:
        self.url = ""
        self.requests: list[Received] = []
        """Those that the rules let pass, and those that the script refused."""
        self.refused: list[str] = []
        """The errors of requests that broke a rule."""
        self.connections: set[object] = set()
        self._mind = mind
        self._keys = None if keys is None else frozenset(keys)
        self._models = None if models is None else frozenset(models)
        self._cache = Cache(min_cached_tokens)
        self._answers: list[Answer | Refuse] = []
        self._count = 0
        self._hangs = asyncio.Event()
        self._is_left = asyncio.Event()
        app = web.Application()
        app.router.add_post("/v1/messages", self._messages)
        app.router.add_get("/v1/models", self._list_models)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    @property
    def bodies(self) -> list[Any]:
        """The JSON of the requests so far."""
        return [request.body for request in self.requests]

    def add(self, *answers: Answer | Refuse) -> None:
        """Play these next, one a request."""
        self._answers.extend(answers)

    async def hangs(self) -> None:
        """Wait until an answer has come to its HANG."""
        await self._hangs.wait()

    async def client_left(self) -> None:
        """Wait until a client has closed the connection of an answer that hangs."""
        await self._is_left.wait()

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        self.connections.add(request.transport)
        try:
            received = Received(headers=request.headers, body=json.loads(await request.read()))
        except ValueError:
            received = Received(headers=request.headers, body=None)
        refusal = refusal_of(received.headers, received.body, keys=self._keys, models=self._models)
        if refusal is not None:
            self.refused.append(refusal.message)
            return _refused(refusal)
        self.requests.append(received)
        if self._answers:
            answer = self._answers.pop(0)
        elif self._mind is not None:
            answer = self._mind(received)
        else:
            answer = Refuse(501, "the script of the twin is over")
        if isinstance(answer, Refuse):
            return _refused(answer)
        self._count += 1
        body = received.body
        tokens = self._cache.take(body)
        playing = Playing(answer, body["model"], self._count, tokens, partial(_sign, list(blocks_of(body))))
        if body.get("stream"):
            return await self._stream(playing, request)
        return web.json_response(_whole(playing))

    async def _stream(self, playing: Playing, request: web.Request) -> web.StreamResponse:
        headers = {"Content-Type": "text/event-stream; charset=utf-8", "request-id": "req_twin"}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        for event in playing.events():
            if not isinstance(event, Fault):
                await response.write(event if isinstance(event, bytes) else on_wire(event))
            elif event is Fault.CUT:
                assert request.transport is not None
                request.transport.abort()
                break
            else:
                await self._hang()
        return response

    async def _hang(self) -> None:
        self._hangs.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:  # aiohttp cancels the handler of a client that leaves
            self._is_left.set()
            raise

    async def _list_models(self, request: web.Request) -> web.Response:
        refusal = refusal_of_headers(request.headers, self._keys)
        if refusal is not None:
            return _refused(refusal)
        names = sorted(self._models) if self._models is not None else MODELS
        data = [{"type": "model", "id": name, "display_name": name} for name in names]
        return web.json_response({"data": data, "has_more": False, "first_id": names[0], "last_id": names[-1]})


def _sign(prefix: list[Block], blocks: list[dict[str, Any]], text: str) -> str:
    return sign([*prefix, *(("assistant", block) for block in blocks)], text)


def _refused(refusal: Refuse) -> web.Response:
    return web.json_response(refusal.body, status=refusal.status, headers={"request-id": "req_twin", **refusal.headers})


def _whole(playing: Playing) -> dict[str, Any]:
    """Return the answer to a request that does not stream. Source: `types/message.py`."""
    events: list[Event] = list(playing.events())
    named = {event["type"]: event for event in events if isinstance(event, dict)}
    end = named["message_delta"]
    return {**named["message_start"]["message"], "content": playing.blocks, **end["delta"], "usage": end["usage"]}
