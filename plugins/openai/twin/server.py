"""OpenAITwin: listens on loopback, plays the script in a server's manners, and makes faults on demand."""

from __future__ import annotations

import asyncio
import json
import wave
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, get_args

from aiohttp import BodyPartReader, web

from vivavoce.pipelines.core.checks import check_choice
from vivavoce.plugins.openai.servers import ServerName
from vivavoce.plugins.openai.twin.manners import MANNERS, Manners
from vivavoce.plugins.openai.twin.script import (
    BREAK,
    HANG,
    Answer,
    Fault,
    Heard,
    Spoken,
    Step,
    as_event,
    vectors_body,
)
from vivavoce.plugins.openai.twin.speech import speech_parts, transcript_body, wav_seconds

LIMIT = 60.0
"""Seconds that a test waits for an expected event."""

MAX_UPLOAD = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request; names of headers in any case.

    Args:
        body: Its JSON, or the fields of a form; a field whose name ends in `[]` is a list.
        file: The uploaded file.
    """

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    query: Mapping[str, str] = field(default_factory=dict)
    file: bytes = field(default=b"", repr=False)

    @property
    def seconds(self) -> float:
        """The length of the uploaded WAV file."""
        return wav_seconds(self.file)


class OpenAITwin:
    """Answers each request with the next answer added, else with `default`, else with status 501.

    Args:
        server: Has the manners of this server: refuses what it refuses, and words its answers as it does.
        models: Those that there are, on Azure the deployments; empty: all.
    """

    def __init__(self, server: ServerName = "openai", *, models: tuple[str, ...] = ()) -> None:
        check_choice("server", server, get_args(ServerName))
        self.url = ""
        """Such as `"http://127.0.0.1:40123/v1"`; for Azure the endpoint of the resource."""
        self.key = "twin-key"
        """A key; any other one is as good."""
        self.default: Answer | Heard | Spoken | None = None
        self.requests: list[Received] = []
        self.refused: list[str] = []
        """The texts of the refusals that the script does not hold, oldest first."""
        self.connections: set[object] = set()
        self._manners: Manners = MANNERS.get(server, Manners())
        self._is_azure = server == "azure"
        self._models = models
        self._answers: list[Answer | Heard | Spoken] = []
        self._words: tuple[str, ...] = ()
        self._streaming = asyncio.Event()
        self._gone = asyncio.Event()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=MAX_UPLOAD)
        app.router.add_post("/{path:.*}", self._handle)
        app.router.add_get("/{path:.*}", self._about)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}" + ("" if self._is_azure else "/v1")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The JSON of the requests so far."""
        return [request.body for request in self.requests]

    def add(self, *answers: Answer | Heard | Spoken) -> None:
        """Play these next, one a request."""
        self._answers.extend(answers)

    def hears(self, *texts: str) -> None:
        """Use these as the transcripts of the next uploads."""
        self._answers.extend(Heard(text=text) for text in texts)

    def embeds(self, *words: str) -> None:
        """Answer requests for embeddings, beside the script: the vector of a text has the count of each word in it.

        The embedder has `dimensions` as many as these words.
        """
        self._words = words

    async def hangs(self) -> None:
        """Wait until an answer has come to its HANG."""
        await asyncio.wait_for(self._streaming.wait(), LIMIT)

    async def client_is_gone(self) -> None:
        """Wait until a client has left an answer that hangs."""
        await asyncio.wait_for(self._gone.wait(), LIMIT)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.connections.add(request.transport)
        received = await _received(request)
        self.requests.append(received)
        refused = self._refusal(received)
        if refused is not None:
            error = refused.body if isinstance(refused.body, dict) else {}
            self.refused.append(str(error.get("message") or error.get("error", {}).get("message")))
            return _whole(refused)
        if self._words and received.path.endswith("/embeddings"):
            return web.json_response(vectors_body(self._words, received.body))
        answer = self._answers.pop(0) if self._answers else self.default
        if answer is None:
            return web.json_response({"error": {"message": "the script is over"}}, status=501)
        if isinstance(answer, Heard):
            return await self._hear(answer, received)
        if isinstance(answer, Spoken):
            kind, parts = speech_parts(answer, str(received.body.get("response_format")))
            answer = Answer(steps=[*parts, *answer.then], headers={"Content-Type": kind})
        elif received.path.endswith("/chat/completions") and answer.body is None:
            answer = Answer(
                status=answer.status, steps=self._manners.dress(answer.steps, received.body), headers=answer.headers
            )
        return _whole(answer) if answer.body is not None else await self._stream(answer, request)

    async def _about(self, request: web.Request) -> web.Response:
        """Answer the requests by which `vivavoce doctor` tries a key; they are no part of the script."""
        if not request.path.endswith(("/models", "/key")):
            return web.json_response({"error": {"message": "There is nothing at this path."}}, status=404)
        return web.json_response({"object": "list", "data": [{"id": name, "object": "model"} for name in self._models]})

    def _refusal(self, received: Received) -> Answer | None:
        model = str(received.body.get("model") or "")
        if self._is_azure and "/deployments/" in received.path:
            model = received.path.partition("/deployments/")[2].partition("/")[0]
        if self._models and model not in self._models:
            return self._manners.no_model(model)
        return self._manners.check(received.path, received.headers, received.query, received.body, len(received.file))

    async def _hear(self, heard: Heard, received: Received) -> web.StreamResponse:
        try:
            seconds = received.seconds
        except (wave.Error, EOFError):
            return web.json_response(
                {"error": {"message": "could not process file - is it a valid media file?"}}, status=400
            )
        if heard.hangs:
            await self._hang()
        return web.json_response(transcript_body(heard, seconds, received.body))

    async def _stream(self, answer: Answer, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(
            status=answer.status, headers={"Content-Type": "text/event-stream", **answer.headers}
        )
        if not answer.steps or answer.steps[0] is not HANG:
            await response.prepare(request)
        for step in answer.steps:
            await self._play(step, request, response)
        return response

    async def _play(self, step: Step, request: web.Request, response: web.StreamResponse) -> None:
        if not isinstance(step, Fault):
            await response.write(step if isinstance(step, bytes) else as_event(step))
        elif step is BREAK:
            assert request.transport is not None
            request.transport.abort()
        else:
            await self._hang()

    async def _hang(self) -> None:
        self._streaming.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:  # aiohttp cancels the handler of a client that leaves
            self._gone.set()
            raise


def _whole(answer: Answer) -> web.Response:
    is_text = isinstance(answer.body, str)
    return web.Response(
        status=answer.status,
        headers=answer.headers,
        text=answer.body if isinstance(answer.body, str) else json.dumps(answer.body),
        content_type="text/html" if is_text else "application/json",
    )


async def _received(request: web.Request) -> Received:
    body: dict[str, Any] = {}
    file = b""
    if request.content_type == "multipart/form-data":
        async for part in await request.multipart():
            if not isinstance(part, BodyPartReader):
                continue
            name = part.name or ""
            if part.filename is not None:
                file = bytes(await part.read())
            elif name.endswith("[]"):
                body.setdefault(name, []).append(await part.text())
            else:
                body[name] = await part.text()
    else:
        body = await request.json()
    return Received(path=request.path, headers=request.headers, body=body, query=dict(request.query), file=file)
