"""SpeakSession: the contexts of one connection to `multi-stream-input`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import anyio
from anyio.abc import TaskGroup

from vivavoce.pipelines.testing.twin_connection import Answer, Close, TwinConnection
from vivavoce.plugins.elevenlabs.twin.context import Faulty, TwinContext, TwinFault
from vivavoce.plugins.elevenlabs.twin.handshake import Query, one

MAX_CONTEXTS = 5
"""Live contexts of a connection: https://elevenlabs.io/docs/eleven-api/guides/how-to/websockets/
multi-context-web-socket."""

VOICE_RANGES = (("stability", 0, 1), ("similarity_boost", 0, 1), ("style", 0, 1), ("speed", 0.7, 1.2))
"""Name, least and greatest value."""

BEGINNING = ("voice_settings", "generation_config", "pronunciation_dictionary_locators")
"""Fields of a context's first message only."""

Make = Callable[[dict[str, Any], Query], TwinContext]


class SpeakSession:
    """One connection.

    Args:
        refused: The error of the first message: name and text; None: the key and the voice are right.
        make: Returns a new context.
        note: Called when a context has changed.
    """

    def __init__(self, query: Query, refused: tuple[str, str] | None, make: Make, note: Callable[[], None]) -> None:
        self.key_terms: list[str] = []
        self._query = query
        self._refused = refused
        self._make = make
        self._note = note
        self._contexts: dict[str, TwinContext] = {}
        self._connection: TwinConnection | None = None
        self._tasks: TaskGroup | None = None

    async def run(self, connection: TwinConnection) -> None:
        """Serve a connection to its end."""
        self._connection = connection
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            await connection.run()
            tasks.cancel_scope.cancel()

    def begin(self) -> Iterator[Answer]:
        yield from ()

    def audio(self, pcm: bytes) -> Iterator[Answer]:
        yield from _error("invalid_message", "Binary messages are not supported.")

    def text(self, message: str) -> Iterator[Answer]:
        try:
            told = json.loads(message)
        except ValueError:
            told = None
        if not isinstance(told, dict):
            yield from _error("invalid_message", "The message is not valid JSON.")
        elif self._refused is not None:
            yield from _error(*self._refused)
        elif told.get("close_socket"):
            yield Close(1000)
        else:
            yield from self._take(told)

    def _take(self, told: dict[str, Any]) -> Iterator[Answer]:
        name = str(told.get("context_id") or "default")
        context = self._contexts.get(name)
        is_new = context is None or context.is_over or context.is_closed
        if is_new and (told.get("close_context") or ("context_id" not in told and not told.get("text"))):
            return
        if is_new:
            if sum(not context.is_over for context in self._contexts.values()) >= MAX_CONTEXTS:
                text = f"Maximum simultaneous contexts per WebSocket connection exceeded ({MAX_CONTEXTS}). Please "
                yield from _error(
                    "max_active_conversations", f"{text}close an existing context before opening a new one."
                )
                return
            settings = told.get("voice_settings") or {}
            for setting, least, most in VOICE_RANGES:
                if not least <= settings.get(setting, least) <= most:
                    yield from _error("invalid_voice_settings", f"{setting} must be between {least} and {most}.")
                    return
            context = self._contexts[name] = self._make(told, self._query)
            assert self._tasks is not None
            self._tasks.start_soon(self._run, context)
        elif any(field in told for field in BEGINNING):
            yield from _error("policy_violation", "voice_settings can only be set in the first message.")
            return
        assert context is not None
        context.take(told)

    async def _run(self, context: TwinContext) -> None:
        assert self._connection is not None
        try:
            await context.run(self._send)
        except Faulty as due:
            await self._do(due.fault, context, self._connection)
        except ConnectionError:  # the client has left without a close
            return
        finally:
            self._note()

    async def _send(self, message: dict[str, Any]) -> None:
        assert self._connection is not None
        if not self._connection.is_over:
            await self._connection.send(message)
            self._note()

    async def _do(self, fault: TwinFault, context: TwinContext, connection: TwinConnection) -> None:
        if fault.kind == "error" and not fault.code:
            await connection.send({"message": fault.message, "error": fault.error, "contextId": context.id})
        elif fault.kind == "error":
            await connection.send({"message": fault.message, "error": fault.error, "code": fault.code})
            await connection.close(fault.code, fault.message[:100])
        elif fault.kind == "close":
            await connection.close(fault.code, fault.reason)
        elif fault.kind == "cut":
            connection.abort()
        elif fault.kind == "garbage":
            await connection.send('{"audio": ')


def rate_of(query: Query) -> int:
    """Return the Hz of the format that the client asks for."""
    return int(one(query, "output_format").removeprefix("pcm_"))


def _error(name: str, text: str) -> Iterator[Answer]:
    yield {"message": text, "error": name, "code": 1008}
    yield Close(1008, text[:100])
