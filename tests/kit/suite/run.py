"""Runs the lanes of a suite side by side: their logs, their results, their coverage, and where the time went.

    python -P tests/kit/suite/run.py test|test-all [--lane NAME] [pytest's arguments]

Each run has a folder in `.cache/runs`, with the log and the times of each lane. The status is 1 if a lane fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from kit.suite.lanes import LANES, Lane  # noqa: E402 - this is a script: the tests' folder is no installed package
from kit.suite.times import RUNS, Result, Run, compared  # noqa: E402
from kit.wanted import ALL  # noqa: E402

KEPT_RUNS = 20


@dataclass(slots=True)
class Started:
    """A lane that runs."""

    lane: Lane
    process: subprocess.Popen[bytes]
    at: float


class Suite:
    """One run of a suite."""

    def __init__(self, name: str, lanes: Sequence[Lane], arguments: Sequence[str]) -> None:
        self._is_all = name == "test-all"
        self._waiting = list(lanes)
        self._arguments = arguments
        self._began = time.monotonic()
        self._started: dict[int, Started] = {}
        self.run = Run.new(name, f"{datetime.now():%Y-%m-%d %H:%M:%S}", _commit())

    def go(self) -> list[str]:
        """Run all lanes; return what failed."""
        while self._waiting or self._started:
            self._start_lanes()
            self._await_one()
        failed = [f"{result.lane} (exit {result.status})" for result in self.run.results if result.status]
        self.run.write()
        return failed + self._coverage()

    def _start_lanes(self) -> None:
        unfinished = {lane.name for lane in self._waiting} | {started.lane.name for started in self._started.values()}
        for lane in [lane for lane in self._waiting if unfinished.isdisjoint(lane.after)]:
            self._waiting.remove(lane)
            process = self._start(lane)
            self._started[process.pid] = Started(lane, process, time.monotonic())
            print(f"{lane.name} begins; its output is in {self._log(lane).relative_to(ROOT)}", flush=True)

    def _start(self, lane: Lane) -> subprocess.Popen[bytes]:
        environment = os.environ | lane.environment(is_all=self._is_all)
        environment["COVERAGE_FILE"] = str(self.run.folder / f"{lane.name}.coverage")
        command = lane.command(self.run.folder / f"{lane.name}.jsonl", self._arguments, is_all=self._is_all)
        with self._log(lane).open("wb") as log:
            return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT)

    def _await_one(self) -> None:
        pid, status, usage = os.wait3(0)  # of all children: it also tells what CPU the lane's processes took
        started = self._started.pop(pid)
        started.process.returncode = os.waitstatus_to_exitcode(status)
        print(self._log(started.lane).read_text(encoding="utf-8", errors="replace"), flush=True)
        self.run.results.append(
            Result(
                lane=started.lane.name,
                status=started.process.returncode,
                began=round(started.at - self._began, 1),
                wall=round(time.monotonic() - started.at, 1),
                cpu=round(usage.ru_utime + usage.ru_stime, 1),
            )
        )

    def _log(self, lane: Lane) -> Path:
        return self.run.folder / f"{lane.name}.log"

    def _coverage(self) -> list[str]:
        """Print the coverage of the lanes that measured it; return what is below its bar."""
        failed = []
        if self._measured("turn"):
            failed += self._below("agents/turn by its own tests", ["turn"], 100, "--include=agents/turn/*")
        if self._is_all and len(self.run.results) == len(LANES):
            failed += self._below("everything", [lane.name for lane in LANES], 94)
        return failed

    def _measured(self, lane: str) -> list[str]:
        return [str(path) for path in self.run.folder.glob(f"{lane}.coverage*")]

    def _below(self, what: str, lanes: Sequence[str], bar: int, *options: str) -> list[str]:
        coverage = [sys.executable, "-P", "-m", "coverage"]
        data = f"--data-file={self.run.folder / what.replace('/', '-').replace(' ', '-')}"
        files = [file for lane in lanes for file in self._measured(lane)]
        print(f"Coverage of {what}:", flush=True)
        combined = subprocess.run([*coverage, "combine", "--quiet", "--keep", data, *files], cwd=ROOT, check=False)
        report = [*coverage, "report", data, f"--fail-under={bar}", *options]
        reported = subprocess.run(report, cwd=ROOT, check=False)
        return [f"coverage of {what}"] if combined.returncode or reported.returncode else []


def _commit() -> str:
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return said.stdout.strip() or "no commit"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the status."""
    parser = argparse.ArgumentParser(description="Run a suite's tests in lanes side by side.")
    parser.add_argument("suite", choices=["test", "test-all"])
    parser.add_argument("--lane", choices=[lane.name for lane in LANES], help="this lane alone")
    given, pytest_arguments = parser.parse_known_args(arguments)
    is_all = given.suite == "test-all"
    os.environ.pop(ALL, None)
    lanes = [lane for lane in LANES if (is_all or not lane.is_of_all) and given.lane in (None, lane.name)]
    if not lanes:
        parser.error(f"the lane {given.lane} runs in test-all")
    for old in sorted(RUNS.glob("*/"))[: -KEPT_RUNS + 1]:
        shutil.rmtree(old)
    suite = Suite(given.suite, lanes, pytest_arguments)
    failed = suite.go()
    print(compared([suite.run], slowest=20), flush=True)
    if failed:
        print(f"make {given.suite}: failed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
