"""The demo agent and the page as users start them: `vivavoce demo --no-call`; for a real server `vivavoce page` too."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kit.e2e.room_endpoint import RoomEndpoint

COMMAND = [sys.executable, "-c", "from vivavoce.agents.cli import main; main()"]
START_LIMIT = 60.0
END_LIMIT = 15.0


@contextmanager
def command(*arguments: str, until: str, folder: Path, **environment: str) -> Iterator[str]:
    """Run a vivavoce command; yields its output up to the line that holds `until`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LIVEKIT_")}
    with subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder,
        env={**kept, "PYTHONUNBUFFERED": "1", **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        seen = ""
        try:
            for line in process.stdout:
                seen += line
                if until in line:
                    break
            else:
                raise AssertionError(f"it ended without {until!r}:\n{seen}")
            yield seen
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.communicate(timeout=END_LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


@contextmanager
def demo_page(server: RoomEndpoint | None, folder: Path) -> Iterator[str]:
    """Run the demo's agent and yield the page's address.

    Args:
        server: A real LiveKit server; None: the embedded room, which serves the page itself.
        folder: Where the commands run.
    """
    offline = (
        "demo",
        "--no-call",
        "--voice",
        "espeak",
        "--ears",
        "pocketsphinx",
    )  # the page's caller speaks with espeak
    if server is None:
        with command(*offline, "--port", "0", until="Ctrl-C", folder=folder) as printed:
            (url,) = re.findall(r"^room +ws:(\S+)", printed, re.MULTILINE)
            yield f"http:{url}/"
        return
    account = ["--url", server.url, "--api-key", server.api_key]
    secret = {"LIVEKIT_API_SECRET": server.api_secret}
    with command(*offline, *account, until="Ctrl-C", folder=folder, **secret) as printed:
        (name,) = re.findall(r"registered as (\S+)", printed)
        page = ["page", *account, "--agent-name", name, "--port", "0"]
        with command(*page, until="Ctrl-C", folder=folder, **secret) as said:
            (address,) = re.findall(r"^page +(\S+)", said, re.MULTILINE)
            assert server.api_secret not in said
            yield address
