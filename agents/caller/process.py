"""The simulated caller's process, both ends: starting it, following its events, ending it, and running in it.

A request goes in as one line of JSON on stdin; events and the result come out on stdout, one JSON object a line. The
process ends when its stdin does, so it never outlives its parent.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from subprocess import PIPE
from typing import TYPE_CHECKING, Any, NoReturn

import anyio
from anyio.streams.text import TextReceiveStream

from vivavoce.pipelines.core.child_process import end_child, send_to_child
from vivavoce.pipelines.core.errors import ConfigurationError, RoomError, VoiceError, first_error
from vivavoce.pipelines.core.process_end import run_process

if TYPE_CHECKING:
    from anyio.abc import ByteReceiveStream

MAX_REQUEST = 1 << 20
"""Bytes of a request."""

END_LIMIT = 1.0
"""Seconds for the process to end by itself once its stdin is closed."""


class NoAnswerError(RoomError):
    """No agent came in time, for a reason that the caller does not see."""


_ERRORS: dict[str, type[VoiceError]] = {
    "configuration": ConfigurationError,
    "no_answer": NoAnswerError,
    "room": RoomError,
}


async def run_caller(
    module: str, request: Mapping[str, Any], on_event: Callable[[str, dict[str, Any]], None]
) -> dict[str, Any]:
    """Run the simulated caller of a module to the end of its call, and return its result.

    Args:
        module: The module for `python -m`; it calls `serve_caller`.
        request: Its request; plain data.
        on_event: Called with each of its events, by name.
    Raises:
        VoiceError: The call could not be placed, or the process died.
    """
    process = await anyio.open_process(
        [sys.executable, "-m", module],
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,  # Ctrl-C is for the parent; the child ends when its stdin does
    )
    errors: deque[str] = deque(maxlen=20)
    result: dict[str, Any] | None = None
    failure: Exception | None = None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        await send_to_child(process, json.dumps(request).encode() + b"\n")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_collect, process.stderr, errors)
            async for line in _lines(process.stdout):
                data: dict[str, Any] = json.loads(line)
                event = data.pop("event")
                if event == "failed":
                    raise _ERRORS[data["kind"]](data["problem"])
                if event == "result":
                    result = data
                else:
                    on_event(event, data)
    except* VoiceError as group:
        failure = first_error(group)
    finally:
        with anyio.CancelScope(shield=True):
            await end_child(process, END_LIMIT)
    if failure is not None:
        raise failure  # here: Python before 3.11.4 makes a group of what is raised in `except*`
    if result is None:
        raise RoomError(f"the simulated caller died with status {process.returncode}: " + "\n".join(errors))
    return result


def report(event: str, **data: Any) -> None:
    """Report an event to the parent process."""
    print(json.dumps({"event": event, **data}), flush=True)


def serve_caller(place_call: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> NoReturn:
    """Run as the caller's process: read the request, place the call, report its result, exit.

    Args:
        place_call: Called with the request; returns the result. Both are plain data.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides: closing stdin ends this process
    run_process(lambda: sys.exit(asyncio.run(_serve(place_call))))


async def _serve(place_call: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> int:
    lifeline = asyncio.StreamReader(limit=MAX_REQUEST)
    protocol = asyncio.StreamReaderProtocol(lifeline)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    request = json.loads(await lifeline.readline())
    status = 1
    async with anyio.create_task_group() as tasks:

        async def end_with_parent() -> None:
            await lifeline.read()
            tasks.cancel_scope.cancel()

        tasks.start_soon(end_with_parent)
        try:
            result = await place_call(request)
        except* VoiceError as failed:
            kinds = (kind for kind, error in _ERRORS.items() if failed.subgroup(error))
            report("failed", kind=next(kinds, "room"), problem=str(first_error(failed)))
        else:
            report("result", **result)
            status = 0
        tasks.cancel_scope.cancel()
    return status


async def _collect(stream: ByteReceiveStream, lines: deque[str]) -> None:
    async for line in _lines(stream):
        lines.append(line)


async def _lines(stream: ByteReceiveStream) -> AsyncIterator[str]:
    rest = ""
    async for text in TextReceiveStream(stream, errors="replace"):
        *whole, rest = (rest + text).split("\n")
        for line in whole:
            yield line
    if rest:
        yield rest
