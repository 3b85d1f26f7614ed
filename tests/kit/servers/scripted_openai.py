"""A server that speaks OpenAI's HTTP API from a script, on loopback: answers, refusals, stalls, broken streams.

async with scripted_openai() as server:
    server.add(chat_answer("Hello ", "there."))
    llm = openai.LLM(model="m", base_url=server.url)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from aiohttp import web

LIMIT = 60.0
"""Seconds that a test waits for an expected event."""


class Fault(Enum):
    """An event in place of the next one."""

    HANG = "says nothing more and keeps the connection"
    BREAK = "cuts the connection in the middle of the body"


HANG, BREAK = Fault.HANG, Fault.BREAK

Step: TypeAlias = Mapping[str, Any] | bytes | Fault
"""An event, raw bytes of the body, or a fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to one request. `steps` are streamed; `body` is sent at once."""

    status: int = 200
    steps: Sequence[Step] = ()
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request; names of headers in any case."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


class ScriptedOpenAI:
    """Answers each request with the next answer added, else with `default`, else with status 501."""

    def __init__(self) -> None:
        self.url = ""
        self.default: Answer | None = None
        self.requests: list[Received] = []
        self.connections: set[object] = set()
        self._answers: list[Answer] = []
        self._streaming = asyncio.Event()
        self._gone = asyncio.Event()

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The JSON of the requests so far."""
        return [request.body for request in self.requests]

    def add(self, *answers: Answer) -> None:
        """Play these next, one a request."""
        self._answers.extend(answers)

    async def hangs(self) -> None:
        """Wait until an answer has come to its HANG."""
        await asyncio.wait_for(self._streaming.wait(), LIMIT)

    async def client_is_gone(self) -> None:
        """Wait until a client has left an answer that hangs."""
        await asyncio.wait_for(self._gone.wait(), LIMIT)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        self.connections.add(request.transport)
        self.requests.append(Received(path=request.path, headers=request.headers, body=await request.json()))
        answer = self._answers.pop(0) if self._answers else self.default
        if answer is None:
            return web.json_response({"error": {"message": "the script is over"}}, status=501)
        if answer.body is not None:
            is_text = isinstance(answer.body, str)
            return web.Response(
                status=answer.status,
                headers=answer.headers,
                text=answer.body if isinstance(answer.body, str) else json.dumps(answer.body),
                content_type="text/html" if is_text else "application/json",
            )
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
            await response.write(step if isinstance(step, bytes) else _sse(step))
        elif step is BREAK:
            assert request.transport is not None
            request.transport.abort()
        else:
            self._streaming.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:  # aiohttp cancels the handler of a client that leaves
                self._gone.set()
                raise


@asynccontextmanager
async def scripted_openai() -> AsyncIterator[ScriptedOpenAI]:
    """Serve on a free port of 127.0.0.1."""
    server = ScriptedOpenAI()
    app = web.Application()
    app.router.add_post("/v1/{api:.*}", server.handle)
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        server.url = f"http://{host}:{port}/v1"
        yield server
    finally:
        await runner.cleanup()


def refusal(status: int, message: str = "", *, code: str | None = None, **headers: str) -> Answer:
    """Return an error as OpenAI words it; header names with `_` for `-`."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return Answer(
        status=status, body={"error": error}, headers={name.replace("_", "-"): text for name, text in headers.items()}
    )


DONE = b"data: [DONE]\n\n"


def chat_answer(*texts: str, finish: str = "stop") -> Answer:
    """Return a whole answer of chat completions: text, finish reason, usage, end."""
    return Answer(steps=[*(chat_delta(content=text) for text in texts), *chat_end(finish)])


def chat_delta(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """Return one chunk."""
    return _chunk(choices=[{"index": 0, "delta": delta, "finish_reason": finish}], usage=None)


def chat_call(index: int | None, call_id: str | None, name: str | None, arguments: str | None) -> dict[str, Any]:
    """Return a chunk with one fragment of a tool call; None leaves a field out."""
    function = {key: text for key, text in (("name", name), ("arguments", arguments)) if text is not None}
    call = {"index": index, "id": call_id, "function": function, "type": "function"}
    return chat_delta(tool_calls=[{key: value for key, value in call.items() if value is not None}])


def chat_end(finish: str = "stop") -> list[Step]:
    """Return the chunks after the last piece: the finish reason, usage (12 in, 5 of them cached, 7 out), the end."""
    usage = {
        "prompt_tokens": 12,
        "completion_tokens": 7,
        "total_tokens": 19,
        "prompt_tokens_details": {"cached_tokens": 5},
    }
    return [chat_delta(finish=finish), _chunk(choices=[], usage=usage), DONE]


def responses_answer(*texts: str, refusal_text: str = "") -> Answer:
    """Return a whole answer of the responses API."""
    deltas = [responses_event("response.output_text.delta", output_index=0, delta=text) for text in texts]
    if refusal_text:
        deltas.append(responses_event("response.refusal.delta", output_index=0, delta=refusal_text))
    return Answer(steps=[responses_event("response.created", response={}), *deltas, responses_end()])


def responses_call(index: int, call_id: str, name: str, *fragments: str, is_done: bool = True) -> list[Step]:
    """Return the events of one tool call."""
    call = {"type": "function_call", "id": f"fc_{index}", "call_id": call_id, "name": name}
    steps: list[Step] = [
        responses_event("response.output_item.added", output_index=index, item={**call, "arguments": ""}),
        *(
            responses_event("response.function_call_arguments.delta", output_index=index, delta=fragment)
            for fragment in fragments
        ),
    ]
    if is_done:
        item = {**call, "arguments": "".join(fragments), "status": "completed"}
        steps.append(responses_event("response.output_item.done", output_index=index, item=item))
    return steps


def responses_end(reason: str = "") -> dict[str, Any]:
    """Return the last event: completed, or incomplete for `reason`; usage as in `chat_end`."""
    kind = "incomplete" if reason else "completed"
    usage = {
        "input_tokens": 12,
        "input_tokens_details": {"cached_tokens": 5},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 19,
    }
    details = {"reason": reason} if reason else None
    return responses_event(
        f"response.{kind}", response={"status": kind, "usage": usage, "incomplete_details": details, "output": []}
    )


def responses_event(kind: str, **fields: Any) -> dict[str, Any]:
    """Return one event of the responses API."""
    return {"type": kind, "sequence_number": 0, **fields}


def _chunk(**fields: Any) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "m", **fields}


def _sse(event: Mapping[str, Any]) -> bytes:
    name = f"event: {event['type']}\n" if isinstance(event.get("type"), str) else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()
