"""Runs the lanes of a suite side by side: their logs, their results, their coverage, and where the time went.

    PYTHONPATH=tests python -P -m kit.suite.run test|test-all [--lane NAME] [pytest's arguments]

Each run has a folder in `.cache/runs`, with the log and the times of each lane. The status is 1 if something failed.
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

from kit.suite.lanes import LANES, ROOT, SUITES, Lane
from kit.suite.times import RUNS, Result, Run, show
from kit.wanted import SUITE

KEPT_RUNS = 20
COVERAGE = (("turn", 100, ("--include=agents/turn/*",)), ("*", 94, ()))
"""What is measured: by which lanes, the least percentage, the report's options. The second one in `make test-all`."""

MORE = {SUITE: "all", "VIVAVOCE_LAWS": "300", "VIVAVOCE_SOAK_SECONDS": "60"}
"""The environment of `make test-all`; a variable of the caller's environment counts instead."""


@dataclass(frozen=True, slots=True)
class _Started:
    lane: Lane
    process: subprocess.Popen[bytes]
    at: float


class SuiteRun:
    """One run of a suite.

    Args:
        suite: Its name.
        lanes: Those to run.
        arguments: For pytest in each lane.
    """

    def __init__(self, suite: str, lanes: Sequence[Lane], arguments: Sequence[str]) -> None:
        self._suite = suite
        self._waiting = list(lanes)
        self._arguments = arguments
        self._started: dict[int, _Started] = {}
        self._began = time.monotonic()
        self.run = Run.new(suite, f"{datetime.now():%Y-%m-%d %H:%M:%S}", _commit())

    def lanes(self) -> list[str]:
        """Run all lanes; return those that failed."""
        while self._waiting or self._started:
            self._start_lanes()
            self._await_one()
        self.run.write()
        return [f"{result.lane} (exit {result.status})" for result in self.run.results if result.status]

    def coverage(self) -> list[str]:
        """Print the coverage of the lanes that measured it; return what is below its bar."""
        measured = {lane: self.run.folder.glob(f"{lane}.coverage.*") for lane, _, _ in COVERAGE}
        is_whole = self._suite == "test-all" and len(self.run.results) == len(LANES)
        failed = []
        for lane, bar, options in COVERAGE:
            files = [str(path) for path in measured[lane]]
            if files and (lane != "*" or is_whole):
                data = f"--data-file={self.run.folder / 'coverage'}"
                passed = _coverage("combine", "--quiet", "--keep", data, *files)
                passed = passed and _coverage("report", data, f"--fail-under={bar}", *options)
                failed += [] if passed else [f"coverage {' '.join(options) or 'of everything'}"]
        return failed

    def _start_lanes(self) -> None:
        unfinished = {lane.name for lane in self._waiting} | {started.lane.name for started in self._started.values()}
        for lane in [lane for lane in self._waiting if unfinished.isdisjoint(lane.after)]:
            self._waiting.remove(lane)
            process = self._start(lane)
            self._started[process.pid] = _Started(lane, process, time.monotonic())
            print(f"{lane.name} begins; its output so far is in {self._log(lane).relative_to(ROOT)}", flush=True)

    def _start(self, lane: Lane) -> subprocess.Popen[bytes]:
        command = lane.command(self._suite, self.run.folder / f"{lane.name}.jsonl", self._arguments)
        environment = (MORE if self._suite == "test-all" else {}) | os.environ
        environment["COVERAGE_FILE"] = str(self.run.folder / f"{lane.name}.coverage")
        if not lane.program:
            environment.pop("PYTHONPATH", None)  # it is for this program; a test's child would inherit it
        # The tests start hundreds of processes, and each would compile everything again.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        with self._log(lane).open("wb") as log:
            return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT)

    def _await_one(self) -> None:
        pid, status, usage = os.wait3(0)  # unlike Popen.wait, it tells the CPU of a lane and of all its processes
        started = self._started.pop(pid)
        now, code = time.monotonic(), os.waitstatus_to_exitcode(status)
        started.process.returncode = code
        print(self._log(started.lane).read_text(encoding="utf-8", errors="replace"), flush=True)
        self.run.results.append(
            Result(
                lane=started.lane.name,
                status=code,
                began=round(started.at - self._began, 1),
                wall=round(now - started.at, 1),
                cpu=round(usage.ru_utime + usage.ru_stime, 1),
            )
        )

    def _log(self, lane: Lane) -> Path:
        return self.run.folder / f"{lane.name}.log"


def _coverage(*arguments: str) -> bool:
    command = [sys.executable, "-P", "-m", "coverage", *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return said.stdout.strip() or "no commit"


def main() -> int:
    """Run the command line; return the status."""
    parser = argparse.ArgumentParser(description="Run the tests of a suite in lanes side by side.")
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--lane", choices=[lane.name for lane in LANES], help="only this lane")
    given, arguments = parser.parse_known_args()
    lanes = [lane for lane in LANES if given.lane in (None, lane.name) and given.suite in lane.suites]
    if not lanes:
        parser.error(f"the lane {given.lane} has tests of make test-all only")
    for old in sorted(RUNS.glob("*/"))[: -KEPT_RUNS + 1]:
        shutil.rmtree(old)
    suite_run = SuiteRun(given.suite, lanes, arguments)
    failed = suite_run.lanes() + suite_run.coverage()
    show([suite_run.run], slowest=20)
    if failed:
        print(f"make {given.suite}: failed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
