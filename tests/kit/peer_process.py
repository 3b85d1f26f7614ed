"""The child process of the clients written elsewhere, in a Python of their own."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio.to_thread

from kit.servers import install
from kit.servers.missing import missing

PEERS = Path(__file__).resolve().parent / "peers"

LIMIT = 90.0
"""Seconds; importing livekit-agents takes ten of them on a busy machine."""


async def run_peer(
    script: str, job: dict[str, Any], installed: Callable[[], Path] = install.livekit_agents_python
) -> dict[str, Any]:
    """Run a script of `kit/peers` with this job on its standard input; return what it prints last, which is JSON.

    Args:
        installed: Returns the interpreter that has what the script imports.
    """
    try:
        python = await anyio.to_thread.run_sync(installed)
    except install.InstallError as error:
        missing(f"what {script} imports", str(error))
    environment = {**os.environ, "PYTHONPATH": "", "NO_PROXY": "127.0.0.1"}
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(
        str(python), str(PEERS / script), stdin=pipe, stdout=pipe, stderr=pipe, env=environment
    )
    try:
        out, errors = await asyncio.wait_for(child.communicate(json.dumps(job).encode()), LIMIT)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    assert child.returncode == 0, errors.decode(errors="replace")[-3000:]
    seen: dict[str, Any] = json.loads(out.splitlines()[-1])
    return seen
