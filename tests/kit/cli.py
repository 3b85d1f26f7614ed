"""Commands of `vivavoce`: in the test's own process, or in a process of their own where the process is what is tested.

A process of its own costs about a second of processor time, nearly all of it for imports.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from kit.own_process import restored
from vivavoce.agents.cli.app import run_command
from vivavoce.agents.cli.catalogue.providers import find_plugins

MAIN = "from vivavoce.agents.cli import main; main()"

FOREIGN = ("LIVEKIT_", "OPENAI_", "GOOGLE_", "GEMINI_", "OTEL_", "COLUMNS")
"""Beginnings of the names of variables that a test gives itself, beside those of the vendors' keys."""

Command = Callable[..., tuple[int, str]]
"""Runs a command with its arguments; returns its exit status and all that it printed."""


def in_a_process(*arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run the command as a user does, in a process of its own."""
    env = {**_own_environment(), **(env or {})}
    command = [sys.executable, "-c", MAIN, *arguments]
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def in_this_process(capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs a command in this process and restores what the command changes of it.

    An exception that the command does not answer in words leaves the call, where a process would show its traceback.
    """

    def run(
        *arguments: str,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        missing: Sequence[str] = (),
        typed: Path = Path(os.devnull),
    ) -> tuple[int, str]:
        capsys.readouterr()
        with pytest.MonkeyPatch.context() as patch, restored(), typed.open(encoding="utf-8") as stdin:
            os.environ.clear()
            os.environ.update({**_own_environment(), "COLUMNS": "80", **(env or {})})
            patch.setattr(sys, "argv", ["vivavoce", *arguments])
            patch.setattr(sys, "stdin", stdin)
            if cwd is not None:
                os.chdir(cwd)
            for package in missing:  # as if it were not installed
                patch.setitem(sys.modules, package, None)
            with pytest.raises(SystemExit) as ended:
                run_command()
        status = ended.value.code
        assert status is None or isinstance(status, int)
        printed = capsys.readouterr()
        return status or 0, printed.out + printed.err

    return run


def _own_environment() -> dict[str, str]:
    keys = {name for each in find_plugins()[0] for name in (*each.provider.keys, *each.provider.settings)}
    return {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN) and name not in keys}
