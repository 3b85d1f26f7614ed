"""What the commands share: LiveKit's options, running a coroutine, and saying in words what went wrong."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated

import anyio
import typer

from vivavoce.pipelines.core.errors import VoiceError

Url = Annotated[
    str | None, typer.Option(help="LiveKit server, such as wss://host.", envvar="LIVEKIT_URL", show_default=False)
]
ApiKey = Annotated[str | None, typer.Option(help="Its API key.", envvar="LIVEKIT_API_KEY", show_default=False)]
ApiSecret = Annotated[
    str | None,
    typer.Option(
        help="Its API secret; better in the environment, where no list of processes shows it.",
        envvar="LIVEKIT_API_SECRET",
        show_default=False,
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log more; -v for what happens, also from libraries.")]


def run(main: Callable[[], Awaitable[int]]) -> int:
    """Run a command's coroutine and return its exit status.

    Raises:
        VoiceError: What the coroutine raised, out of any exception groups around it.
    """
    try:
        return anyio.run(main)
    except BaseExceptionGroup as group:
        raise _leaf(group) from None


def complain(error: VoiceError) -> None:
    """Tell the user on stderr what went wrong."""
    label = typer.style("error:", fg="red", bold=True) if sys.stderr.isatty() else "error:"
    typer.echo(f"{label} {error}", err=True)


def configure_logging(level: int = logging.WARNING) -> None:
    """Log to stderr, from `level` on; LOG_LEVEL in the environment wins."""
    name = os.environ.get("LOG_LEVEL", "").upper()
    logging.basicConfig(
        level=logging.getLevelNamesMapping().get(name, level),
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
        datefmt="%H:%M:%S",
        force=True,
    )


def _leaf(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the one error in a group, or the group itself if it holds several."""
    errors: list[BaseException] = list(group.exceptions)
    if len(errors) != 1:
        voice = [error for error in errors if isinstance(error, VoiceError)]
        return voice[0] if len(voice) == len(errors) else group
    return _leaf(errors[0]) if isinstance(errors[0], BaseExceptionGroup) else errors[0]
