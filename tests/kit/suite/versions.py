"""Runs the wires and the units with the newest versions of all dependencies, and with the oldest that we allow.

    PYTHONPATH=tests python -P -m kit.suite.versions [newest|oldest] [pytest's arguments]    (make test-newest)

By hand, before an issue is resolved: `make test` runs with the versions of `.ci/constraints.txt` alone. Each
environment is in `.cache/versions`, beside the file of its versions and its log. The status is 1 if one fails.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kit.suite.lanes import ROOT
from kit.suite.lock import resolved, uv
from kit.wanted import SUITE

FOLDER = ROOT / ".cache" / "versions"

RESOLUTIONS = {"newest": "--resolution=highest", "oldest": "--resolution=lowest-direct"}
"""The oldest are those of our own requirements; what these bring with them is the newest that they allow."""

TOUCHING = (
    *("tests/plugins", "tests/pipelines", "tests/conformance", "tests/house_rules/test_packaging.py"),
    *("tests/agents/audio", "tests/agents/caller", "tests/agents/cli", "tests/agents/core"),
    *("tests/agents/dev_room", "tests/agents/memory", "tests/agents/page", "tests/agents/reports"),
    *("tests/agents/tasks", "tests/agents/telemetry", "tests/agents/test_mcp_servers.py"),
    *("tests/agents/testing", "tests/agents/tools", "tests/agents/transports", "tests/agents/worker"),
)
"""The tests of what calls a dependency; the others are about our own machines."""

PATIENCE = 120
"""Seconds that a test may take: these runs have no hurry, and other work on the machine has priority."""


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment with other versions than `.venv`."""

    name: str

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def make(self) -> None:
        """Install vivavoce[dev] as of today; what an earlier run installed and is in place stays.

        Raises:
            subprocess.CalledProcessError: Something cannot be installed.
        """
        if not self.python.is_file():
            uv("venv", "--quiet", f"--python={sys.executable}", str(self.folder))
        versions = FOLDER / f"{self.name}.txt"
        versions.write_text("".join(f"{line}\n" for line in resolved("--extra=dev", RESOLUTIONS[self.name])))
        into = ["--quiet", f"--python={self.python}"]
        uv("pip", "sync", *into, str(versions))
        uv("pip", "install", *into, "--no-deps", "--editable", ".")
        uv("pip", "install", *into, "pip")  # `vivavoce models get` needs it

    def run(self, arguments: Sequence[str]) -> str:
        """Run the tests; return the last line of their output if they failed, else ""."""
        times, log = FOLDER / f"{self.name}.jsonl", FOLDER / f"{self.name}.log"
        lane = [str(self.python), "-P", "tests/kit/suite/run_lane.py", str(times)]
        pytest = ["-p", "no:cacheprovider", "--quiet", f"--timeout={PATIENCE}", *TOUCHING, *arguments]
        programs = os.pathsep.join([str(self.folder / "bin"), os.environ["PATH"]])
        with log.open("wb") as file:
            done = subprocess.run(
                [*lane, *pytest],
                cwd=ROOT,
                env=os.environ | {"PATH": programs},
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
            )
        print(log.read_text(encoding="utf-8", errors="replace"), flush=True)
        return f"exit {done.returncode}, see {log.relative_to(ROOT)}" if done.returncode else ""


def tried(environment: Environment, arguments: Sequence[str]) -> str:
    """Make an environment and run the tests in it; return what failed, or ""."""
    try:
        environment.make()
    except subprocess.CalledProcessError as error:
        return f"installing: exit {error.returncode}"  # uv has said why
    return environment.run(arguments)


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description="Run tests with the newest and with the oldest allowed versions.")
    parser.add_argument("which", nargs="?", choices=list(RESOLUTIONS), help="this environment alone")
    given, arguments = parser.parse_known_args()
    for name in (SUITE, "PYTHONPATH"):  # the second one is for this program
        os.environ.pop(name, None)
    FOLDER.mkdir(parents=True, exist_ok=True)
    results = []
    for name in [given.which] if given.which else RESOLUTIONS:
        began = time.monotonic()
        failure = tried(Environment(name), arguments)
        results.append((name, failure, time.monotonic() - began))
    for name, failure, seconds in results:
        print(f"{name} versions: {f'FAILED ({failure})' if failure else 'passed'}, {seconds:.0f} s")
    return int(any(failure for _, failure, _ in results))


if __name__ == "__main__":
    sys.exit(main())
