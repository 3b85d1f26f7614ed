"""Processes that play roles with a store, one after the other: to start a process for each role takes seconds.

`python store_roles.py` reads roles with their arguments from its input, a JSON list in a line each, and tells what they
see in the same way; after each role it tells null.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

sys.path.insert(0, str(Path(__file__).parents[1]))

from kit.store_writer import append, opened  # noqa: E402 - the path comes first

AT_ONCE = 5


def tell(seen: object) -> None:
    """Write a line for the test."""
    print(json.dumps(seen), flush=True)


async def append_numbers(where: str, prefix: str, first: int, count: int) -> None:
    """Append the numbers from `first` on to a list, many side by side."""
    store = opened(where, prefix)
    await append(store, first, count, at_once=200)
    await store.aclose()


async def write_numbers(where: str, prefix: str, count: int) -> None:
    """Write numbers to the stream `numbers` of the session `call`, five at a time side by side, and close it."""
    from vivavoce.agents.memory import SessionMemory

    store = opened(where, prefix)
    async with SessionMemory.attach(store, "call", timeout=60.0) as memory:
        stream = await memory.open_stream("numbers", tags=["numbers"])
        for first in range(0, count, AT_ONCE):
            await asyncio.gather(*(stream.write(number) for number in range(first, first + AT_ONCE)))
        await stream.close()
    await store.aclose()


async def follow(where: str, prefix: str, tag: str) -> None:
    """Tell the items of the streams of the session `call` that have a tag, until it ends."""
    from vivavoce.agents.memory import SessionMemory

    store = opened(where, prefix)
    async with SessionMemory.attach(store, "call", timeout=60.0) as memory:
        async for stream, item in memory.subscribe([tag]):
            if not item.is_end:
                tell([stream.name, item.value])
    await store.aclose()


async def help_call(where: str, prefix: str) -> None:
    """Answer the value `question` of the session `call`, ask it to close, and tell whether it has ended."""
    from vivavoce.agents.memory import SessionMemory

    store = opened(where, prefix)
    async with SessionMemory.attach(store, "call", timeout=60.0) as memory:
        question = await memory.data.get("question")
        await memory.agent_data("desk").set("answer", question * 2)
        await memory.stop()
        tell(await memory.wait(timeout=60.0))
    await store.aclose()


ROLES: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    role.__name__: role for role in (append_numbers, write_numbers, follow, help_call)
}


class RolePlayer:
    """One such process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    async def play(self, role: str, *arguments: object) -> list[Any]:
        """Have it play a role to its end, and return what it tells."""
        return await anyio.to_thread.run_sync(self._play, role, arguments)

    def _play(self, role: str, arguments: tuple[object, ...]) -> list[Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([role, *arguments]) + "\n")
        self._process.stdin.flush()
        told: list[Any] = []
        while line := self._process.stdout.readline():
            if (seen := json.loads(line)) is None:
                return told
            told.append(seen)
        raise AssertionError(f"the process ended in the role {role}; its error is above")

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def role_players(count: int) -> Iterator[list[RolePlayer]]:
    """Run processes."""
    players = [RolePlayer() for _ in range(count)]
    try:
        yield players
    finally:
        for player in players:
            player.close()


def main() -> None:
    """Play roles until the input ends."""
    for line in sys.stdin:
        role, *arguments = json.loads(line)
        asyncio.run(ROLES[role](*arguments))
        tell(None)


if __name__ == "__main__":
    main()
