"""Twin: the scripted server on loopback; the module of the twin that does the I/O."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from vivavoce.plugins.google.twin.cache import Cache
from vivavoce.plugins.google.twin.rules import in_one_spelling, problem_of, thinks_by_level
from vivavoce.plugins.google.twin.script import Answer, Fault, Playing, Refuse, on_wire

MODELS = ("gemini-3.8-flash", "gemini-3.1-flash-lite", "gemini-4-argon", "gemini-2.5-flash")
"""Some of https://ai.google.dev/gemini-api/docs/models, for `GET /v1/models`."""

METHOD = re.compile(r"/(?P<version>v\d+\w*)/(?P<place>(?:.+/)?)models/(?P<model>[^/:]+):(?P<method>\w+)")
"""Both addresses. Source: `models.py` and `_api_client.py` of google-genai 3.6.1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request; names of headers in any case. `place` is the part of the path in front of `models/`."""

    model: str
    place: str
    headers: Mapping[str, str]
    body: Any


Mind = Callable[[Received], Answer | Refuse]
"""Answers a request for which the script has nothing."""


class Twin:
    """Google's server on a free port of 127.0.0.1, open inside of an `async with` block.

    It has both addresses, of the Gemini API and of Google Cloud, and `POST /token`, which gives access tokens.

    Args:
        mind: Answers the requests behind the script; without one it is an error of the test: status 501.
        keys: The keys that it takes, and access tokens; None: any.
        models: The models that there are; None: any.
        min_cached_tokens: The shortest beginning that the cache keeps.
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
        self.tokens = 0
        """Access tokens given so far."""
        self._mind = mind
        self._keys = None if keys is None else frozenset(keys)
        self._models = None if models is None else frozenset(models)
        self._cache = Cache(min_cached_tokens)
        self._signatures: dict[str, set[str]] = {}
        self._answers: list[Answer | Refuse] = []
        self._count = 0
        self._hangs = asyncio.Event()
        self._is_left = asyncio.Event()
        app = web.Application()
        app.router.add_post("/token", self._token)
        app.router.add_get("/{version}/models", self._list_models)
        app.router.add_post("/{path:.*}", self._generate)
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

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        self.connections.add(request.transport)
        found = METHOD.fullmatch(request.path)
        streams = found is not None and found["method"] == "streamGenerateContent"
        if found is None or not (streams or found["method"] == "generateContent"):
            return self._refuse(Refuse(code=404, message="The requested URL was not found on this server."))
        try:
            body = in_one_spelling(json.loads(await request.read()))
        except ValueError:
            body = None
        received = Received(model=found["model"], place=found["place"], headers=request.headers, body=body)
        refusal = self._refusal(received, found["version"])
        if refusal is not None:
            return self._refuse(refusal)
        self.requests.append(received)
        if self._answers:
            answer = self._answers.pop(0)
        elif self._mind is not None:
            answer = self._mind(received)
        else:
            answer = Refuse(code=501, message="the script of the twin is over")
        if isinstance(answer, Refuse):
            return _refused(answer)
        self._count += 1
        sign = partial(self._sign, received.model) if thinks_by_level(received.model) else None
        tokens = self._cache.take(received.model, body)
        playing = Playing(answer, received.model, self._count, tokens, sign)
        if not streams:
            return web.json_response(_whole(playing))
        return await self._stream(playing, request)

    def _refusal(self, received: Received, version: str) -> Refuse | None:
        """Return the error of a request that breaks a rule.

        Source of the texts: https://ai.google.dev/gemini-api/docs/troubleshooting, and users' reports.
        """
        if (refusal := self._key_refusal(received.headers)) is not None:
            return refusal
        if self._models is not None and received.model not in self._models:
            text = (
                f"models/{received.model} is not found for API version {version}, or is not supported for "
                "generateContent. Call ListModels to see the list of available models and their supported methods."
            )
            return Refuse(code=404, message=text)
        return problem_of(received.model, received.body, self._signatures.get(received.model, set()))

    def _key_refusal(self, headers: Mapping[str, str]) -> Refuse | None:
        key = headers.get("x-goog-api-key", "")
        token = headers.get("authorization", "").removeprefix("Bearer ")
        if not (key or token):
            text = "Method doesn't allow unregistered callers (callers without established identity)."
            return Refuse(code=403, message=text)
        if self._keys is None or (key or token) in self._keys:
            return None
        if token:
            return Refuse(code=401, message="Request had invalid authentication credentials.")
        return Refuse(code=400, message="API key not valid. Please pass a valid API key.", reason="API_KEY_INVALID")

    def _refuse(self, refusal: Refuse) -> web.Response:
        self.refused.append(refusal.message)
        return _refused(refusal)

    def _sign(self, model: str) -> str:
        made = self._signatures.setdefault(model, set())
        digest = hashlib.sha256(f"{model} {len(made)}".encode()).digest()
        signature = base64.b64encode(digest).decode()
        made.add(signature)
        return signature

    async def _stream(self, playing: Playing, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
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

    async def _token(self, request: web.Request) -> web.Response:
        """Give an access token. Source: RFC 6749, section 5.1; `google/oauth2/_client.py` of google-auth 2.63.0."""
        form = await request.post()
        if not form.get("grant_type"):
            return web.json_response({"error": "invalid_request"}, status=400)
        if form.get("refresh_token") == "revoked":
            return web.json_response({"error": "invalid_grant"}, status=400)
        self.tokens += 1
        return web.json_response({"access_token": f"token-{self.tokens}", "expires_in": 3600, "token_type": "Bearer"})

    async def _list_models(self, request: web.Request) -> web.Response:
        if (refusal := self._key_refusal(request.headers)) is not None:
            return self._refuse(refusal)
        names = sorted(self._models) if self._models is not None else MODELS
        methods = ["generateContent", "countTokens"]
        models = [{"name": f"models/{name}", "supportedGenerationMethods": methods} for name in names]
        return web.json_response({"models": models})


def _refused(refusal: Refuse) -> web.Response:
    return web.json_response(refusal.body, status=refusal.code, headers=refusal.headers)


def _whole(playing: Playing) -> dict[str, Any]:
    """Return the answer to a request that does not stream."""
    last = [event for event in playing.events() if isinstance(event, dict)][-1]
    for candidate in last.get("candidates", ()):
        candidate["content"] = {"parts": playing.parts, "role": "model"}
    return last
