"""Owns the simulated caller's process: starting it, following its events, ending it."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import anyio
from anyio.streams.text import TextReceiveStream

from vivavoce.agents.cli.demo.checks import CallResult
from vivavoce.pipelines.core.errors import RoomError

if TYPE_CHECKING:
    from anyio.abc import ByteReceiveStream, Process

    from vivavoce.agents.cli.demo.caller import CallRequest

END_LIMIT = 1.0
"""Seconds for the process to end by itself once its stdin is closed."""


async def place_call(request: CallRequest, tell: Callable[[str, dict[str, Any]], None]) -> CallResult:
    """Run the simulated caller to the end of its call.

    Args:
        tell: Gets each of its events, by name.
    Raises:
        RoomError: The call could not be placed, or the process died.
    """
    process = await anyio.open_process(
        [sys.executable, "-m", "vivavoce.agents.cli.demo.caller"],
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        start_new_session=True,  # Ctrl-C is for whoever started it; it ends when its stdin does
    )
    errors: deque[str] = deque(maxlen=20)
    result: CallResult | None = None
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        await process.stdin.send(json.dumps(asdict(request)).encode() + b"\n")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_collect, process.stderr, errors)
            async for line in _lines(process.stdout):
                data: dict[str, Any] = json.loads(line)
                event = data.pop("event")
                if event == "failed":
                    raise RoomError(data["problem"])
                if event == "result":
                    result = CallResult.from_json(data)
                else:
                    tell(event, data)
    except* RoomError as group:
        raise group.exceptions[0] from None
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)
    if result is None:
        raise RoomError(f"the simulated caller died with status {process.returncode}: " + "\n".join(errors))
    return result


async def _end(process: Process) -> None:
    assert process.stdin is not None
    await process.stdin.aclose()
    with anyio.move_on_after(END_LIMIT):
        await process.wait()
    await process.aclose()  # kills it if it still runs


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
