"""The room server's own process: `python -m vivavoce.agents.dev_room --port 0`.

One line of JSON on stdout reports that it is ready, or why it is not. It ends at SIGTERM, at SIGINT, and, if stdin is a
pipe, at the end of stdin. So it never outlives the parent that holds the other end, not even one killed by SIGKILL.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import stat
import sys
from typing import Any

from vivavoce.agents.dev_room.extra import needs_room_extra
from vivavoce.agents.dev_room.options import DEV_API_SECRET, RoomServerOptions
from vivavoce.pipelines.core.errors import ConfigurationError, VoiceError

SECRET_VARIABLE = "VIVAVOCE_ROOM_API_SECRET"


def _parse(argv: list[str] | None) -> tuple[argparse.Namespace, argparse.ArgumentParser]:
    # argparse and not typer: this process starts before every demo and test, and typer with rich takes 0.15 s.
    parser = argparse.ArgumentParser(
        prog="python -m vivavoce.agents.dev_room",
        description="Run the development room server. The API secret of your own key is read from the environment "
        f"variable {SECRET_VARIABLE}, so that no list of processes shows it.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="IPv4 address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=7880, help="0 takes a free one (default: %(default)s)")
    parser.add_argument("--api-key", default="devkey", help="default: %(default)s")
    parser.add_argument("--verbose", action="store_true", help="log every room event")
    parser.add_argument("--options-from-stdin", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv), parser


def _options(arguments: argparse.Namespace) -> RoomServerOptions:
    if arguments.options_from_stdin:
        fields: dict[str, Any] = json.loads(_read_line(sys.stdin.fileno()))
        return RoomServerOptions(**fields)
    return RoomServerOptions(
        host=arguments.host,
        port=arguments.port,
        api_key=arguments.api_key,
        api_secret=os.environ.get(SECRET_VARIABLE, DEV_API_SECRET),
    )


def _read_line(descriptor: int) -> bytes:
    # Byte by byte: bytes in the buffer of a reader would be missing from the pipe that is watched later.
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(descriptor, 1)):
        line += byte
    return line


def _is_pipe(descriptor: int) -> bool:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _say(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


async def _serve(options: RoomServerOptions) -> None:
    with needs_room_extra():
        from vivavoce.agents.dev_room.server import RoomServer
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    descriptor = sys.stdin.fileno() if sys.stdin is not None else -1
    if _is_pipe(descriptor):

        def on_readable() -> None:
            if not os.read(descriptor, 4096):
                loop.remove_reader(descriptor)
                stop.set()

        loop.add_reader(descriptor, on_readable)
    server = RoomServer(options)
    await server.start()
    try:
        _say({"url": server.url, "port": server.port, "api_key": options.api_key})
        await stop.wait()
    finally:
        if _is_pipe(descriptor):
            loop.remove_reader(descriptor)
        await server.aclose()


def main(argv: list[str] | None = None) -> int:
    """Run until a signal or the end of stdin; 0 after a regular end, 2 if it could not start."""
    arguments, _ = _parse(argv)
    logging.basicConfig(
        level=logging.DEBUG if arguments.verbose else logging.INFO,
        format="%(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    for noisy in ("aioice", "aiortc", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    try:
        asyncio.run(_serve(_options(arguments)))
    except VoiceError as exc:
        kind = "ConfigurationError" if isinstance(exc, ConfigurationError) else "RoomError"
        _say({"error": str(exc), "kind": kind})
        sys.stderr.write(f"error: {exc}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
