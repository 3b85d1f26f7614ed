"""Runs `vivavoce call` as a user does, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from kit.e2e.room_endpoint import RoomEndpoint

COMMAND = [sys.executable, "-c", "from vivavoce.agents.cli import main; main()", "call"]
LIMIT = 120.0


async def call(server: RoomEndpoint, folder: Path, *arguments: str, script: str) -> tuple[int, str, Any]:
    """Run the command; return its exit status, its output, and result.json."""
    (folder / "call.toml").write_text(script)
    account = {"LIVEKIT_URL": server.url, "LIVEKIT_API_KEY": server.api_key, "LIVEKIT_API_SECRET": server.api_secret}
    out = folder / "out"
    command = [*COMMAND, str(folder / "call.toml"), "--out", str(out), *arguments]
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **account, "COLUMNS": "200"},
    )
    async with asyncio.timeout(LIMIT):
        printed, _ = await process.communicate()
    assert process.returncode is not None
    result = out / "result.json"
    return process.returncode, printed.decode(), json.loads(result.read_text()) if result.exists() else None


def checks(result: Any) -> dict[str, bool]:
    """Return each check of the one call, and whether it was met."""
    (one,) = result["calls"]
    return {f"{line['line']}: {check['name']}": check["is_met"] for line in one["lines"] for check in line["checks"]}
