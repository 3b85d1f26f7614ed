"""Runs a client that was written elsewhere, in a Python of its own, against a server on loopback."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio.to_thread

from kit.servers.install import InstallError
from kit.servers.missing import missing

LIMIT = 110.0
"""Seconds; importing livekit-agents takes ten of them on a busy machine."""


async def talk(script: str, python: Callable[[], Path], url: str) -> dict[str, Any]:
    """Return the observations of a script of this folder, which it prints as one line of JSON.

    Args:
        python: Returns the interpreter of its environment; makes the environment if necessary.
        url: Of the server, the script's only argument.
    """
    client = Path(__file__).with_name(f"{script}.py")
    try:
        interpreter = await anyio.to_thread.run_sync(python)
    except InstallError as error:
        missing(script, str(error))
    environment = {**os.environ, "PYTHONPATH": "", "NO_PROXY": "127.0.0.1"}
    pipes: dict[str, Any] = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
    child = await asyncio.create_subprocess_exec(str(interpreter), str(client), url, env=environment, **pipes)
    try:
        out, errors = await asyncio.wait_for(child.communicate(), LIMIT)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    assert child.returncode == 0, errors.decode(errors="replace")[-3000:]
    seen: dict[str, Any] = json.loads(out.splitlines()[-1])
    return seen
