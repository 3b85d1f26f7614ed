"""An MCP server in a process of its own: `server.py stdio|sse|streamable_http [port] [behaviour …]`."""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import Any

import anyio
import uvicorn

from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

books = MCPServer("books", log_level="CRITICAL")
behaviour = sys.argv[2:]

PIXEL = b"\x89PNG\r\n\x1a\n" + bytes(8)


@books.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@books.tool(name="files.read", structured_output=False)
def read(path: str) -> str:
    """Read a file."""
    return f"contents of {path}"


@books.tool()
def find(title: str) -> dict[str, Any]:
    """Find a book."""
    return {"title": title, "shelf": 3}


@books.tool(structured_output=False)
def cover(title: str) -> list[Any]:
    """Show a cover."""
    return [f"The cover of {title}:", Image(data=PIXEL, format="png")]


@books.tool()
def refuse() -> str:
    """Fail."""
    raise ToolError("We are closed on Mondays.")


def leave(note: str, word: str) -> None:
    """Write what became of a call."""
    with open(note, "a") as file:
        file.write(f"{word}\n")


@books.tool()
async def wait(seconds: float, note: str = "") -> str:
    """Wait; leave a note of its begin, and of a cancellation."""
    if note:
        leave(note, "begun")
    try:
        await anyio.sleep(seconds)
    except BaseException:
        if note:
            leave(note, "cancelled")
        raise
    return f"waited {seconds:g}"


@books.tool()
def crash() -> str:
    """End the process in the middle of the call."""
    os._exit(3)


@books.tool()
def pid() -> int:
    """Tell the process's id."""
    return os.getpid()


@books.tool()
def secret() -> str:
    """Return a variable of the process's environment."""
    return os.environ.get("BOOKS_KEY", "")


async def main() -> None:
    if "hang" in behaviour:
        await anyio.sleep_forever()
    if "stubborn" in behaviour:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "garbage" in behaviour:
        print("Welcome to the library!\n{not json", flush=True)
    if sys.argv[1] == "stdio":
        await books.run_stdio_async()
        if "lingering" in behaviour or "stubborn" in behaviour:
            await anyio.sleep_forever()
        return
    app = books.sse_app() if sys.argv[1] == "sse" else books.streamable_http_app()
    if "locked" in behaviour:
        app = _locked(app)
    listener = socket.create_server(("127.0.0.1", int(sys.argv[2])))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    print(listener.getsockname()[1], flush=True)
    await server.serve(sockets=[listener])


def _locked(app: Any) -> Any:
    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "http" and headers.get(b"authorization") != b"Bearer s3cret":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    return guarded


anyio.run(main)
