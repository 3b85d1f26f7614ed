"""Helpers that the commands share: running a coroutine, printing errors, logging, checking extras."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import warnings
from collections.abc import Awaitable, Callable, Sequence

import anyio
import typer

from vivavoce.pipelines.core.errors import ConfigurationError, VoiceError, first_error

ROOM_PACKAGES = ("aiortc", "OpenSSL", "cryptography")


def run(main: Callable[[], Awaitable[int]]) -> int:
    """Run a command's coroutine and return its exit status.

    Raises:
        VoiceError: The coroutine's error, taken out of any exception groups around it.
    """
    try:
        return anyio.run(main)
    except BaseExceptionGroup as group:
        raise first_error(group) from group


def complain(error: VoiceError) -> None:
    """Print an error on stderr."""
    label = typer.style("error:", fg="red", bold=True) if sys.stderr.isatty() else "error:"
    typer.echo(f"{label} {error}", err=True)


def need_packages(extra: str, packages: Sequence[str]) -> None:
    """Check for an extra's packages without importing them.

    Raises:
        ConfigurationError: Some are missing.
    """
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise ConfigurationError(
            f"this needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed: run "
            f"pip install 'vivavoce[{extra}]'"
        )


def configure_logging(level: int = logging.WARNING, form: str | None = None) -> None:
    """Log to stderr, from `level` on; LOG_LEVEL in the environment wins.

    If `OTEL_*` exports logs, `vivavoce`'s records of level INFO are made too, for the backend only.

    Args:
        form: `text`, or `json` for a JSON object a line; None: the value of LOG_FORMAT in the environment.
    Raises:
        ConfigurationError: There is no such form.
    """
    from vivavoce.agents.telemetry.logs.logs import ContextFilter, JsonFormatter, TextFormatter
    from vivavoce.agents.telemetry.options import sends_logs_by_environment

    form = form or os.environ.get("LOG_FORMAT", "") or "text"
    if form not in ("text", "json"):
        raise ConfigurationError(f"logs are written as 'text' or 'json', got {form!r} (--log-format, LOG_FORMAT)")
    handler = _StderrHandler()
    handler.addFilter(ContextFilter())
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    name = os.environ.get("LOG_LEVEL", "").upper()
    shown = logging.getLevelNamesMapping().get(name, level)
    handler.setLevel(shown)
    logging.basicConfig(level=shown, handlers=[handler], force=True)
    made = min(shown, logging.INFO) if sends_logs_by_environment() else logging.NOTSET
    logging.getLogger("vivavoce").setLevel(made)


def ignore_short_secrets() -> None:
    """Silence PyJWT's warnings about short keys: the secret of a LiveKit server is not the caller's choice."""
    warnings.filterwarnings("ignore", message="The HMAC key is", module="jwt")


class _StderrHandler(logging.Handler):
    """Writes to the stderr of the moment: a live display redirects it to stay intact."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr, flush=True)


def release() -> str:
    """Return the version that is installed; "" where none is."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("vivavoce")
    except PackageNotFoundError:
        return ""


def own_version() -> str:
    """Return the version for people; "(sources)" where none is installed."""
    return release() or "(sources)"
