"""`vivavoce demo --once` as a user runs it, and the files that it leaves."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-c", "from vivavoce.agents.cli import main; main()", "demo"]


@dataclass(frozen=True)
class Ran:
    """A demo that has ended."""

    status: int
    output: str
    report: dict[str, Any]
    wav: Path

    @property
    def checks(self) -> list[tuple[str, str]]:
        """Return the marks ✓ or ✗ of its checks, and the checks."""
        return re.findall(r"^ ([✓✗]) (.*)$", self.output, re.MULTILINE)

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self.wav.parent


def demo_environment(**more: str) -> dict[str, str]:
    """Return the environment without variables that would send the demo to another server, and `more`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LIVEKIT_", "OTEL_"))}
    return {**kept, **more}


def run_demo(folder: Path, *options: str, env: Mapping[str, str] | None = None) -> Ran:
    """Run it to its end; a call takes about a minute."""
    report, wav = folder / "out/report.json", folder / "out/call.wav"
    command = [*COMMAND, "--once", "--report", str(report), "--wav", str(wav), *options]
    done = subprocess.run(
        command,
        env=demo_environment(**(env or {})),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    output = done.stdout + done.stderr
    return Ran(done.returncode, output, json.loads(report.read_text()) if report.exists() else {}, wav)
