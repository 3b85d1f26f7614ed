"""MCP servers for tests: the SDK's own server in a child process, by every transport, with tools that misbehave."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio

from vivavoce.agents import MCPServerStdio

SCRIPT = Path(__file__).with_name("server.py")


def stdio_server(*behaviour: str, **options: Any) -> MCPServerStdio:
    """Return a server that runs as a child process.

    Args:
        behaviour: Words that `server.py` knows, such as `"hang"`.
    """
    return MCPServerStdio(sys.executable, [str(SCRIPT), "stdio", *behaviour], **options)


@asynccontextmanager
async def http_server(transport: str, *behaviour: str, port: int = 0) -> AsyncIterator[str]:
    """Run a server on the loopback and yield its address, without the path."""
    command = [sys.executable, str(SCRIPT), transport, str(port), *behaviour]
    async with await anyio.open_process(command, stderr=None) as process:
        assert process.stdout is not None
        try:
            line = b""
            with anyio.fail_after(60):
                while not line.endswith(b"\n"):
                    line += await process.stdout.receive()
            yield f"http://127.0.0.1:{int(line)}"
        finally:
            with suppress(ProcessLookupError):  # it ended by itself
                process.kill()
