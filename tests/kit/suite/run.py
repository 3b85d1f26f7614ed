"""Runs the lanes of a suite side by side: their logs, their results, their coverage, and where the time went.

    PYTHONPATH=tests python -P -m kit.suite.run test|test-all [--lane NAME] [pytest's arguments]

Each run has a folder in `.cache/runs`, with the log and the times of each lane. The status is 1 if something failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import datetime
from pathlib import Path

from kit.suite.lanes import LANES, ROOT, SUITES, Lane, with_those_before
from kit.suite.times import RUNS, Result, Run, show
from kit.wanted import SUITE

KEPT_RUNS = 20
NO_TESTS = 5
"""Pytest's exit status if no test was selected."""
MORE = {"VIVAVOCE_LAWS": "300", "VIVAVOCE_SOAK_SECONDS": "60", "VIVAVOCE_TRACED_SCENARIOS": "1"}
"""The environment of `make test-all`; a variable of the caller's environment counts instead."""


class SuiteRun:
    """One run of a suite.

    Args:
        suite: Its name.
        lanes: Lanes to run.
        arguments: Arguments for pytest in each lane; they select tests, so a lane may have none, and coverage is not
            judged.
        runs: The folder of the runs.
    """

    def __init__(self, suite: str, lanes: Sequence[Lane], arguments: Sequence[str], runs: Path = RUNS) -> None:
        self._suite = suite
        self._lanes = tuple(lanes)
        self._arguments = arguments
        self._processes: list[subprocess.Popen[bytes]] = []
        self._began = time.monotonic()
        self.run = Run.new(runs, " ".join([suite, *arguments]), f"{datetime.now():%Y-%m-%d %H:%M:%S}", _commit())

    def run_lanes(self) -> list[str]:
        """Run all lanes; return what failed. Whatever ends this early ends the lanes too."""
        waiting, running = list(self._lanes), dict[Future[Result], Lane]()
        with ThreadPoolExecutor(len(waiting)) as threads:
            try:
                while waiting or running:
                    unfinished = {lane.name for lane in [*waiting, *running.values()]}
                    for lane in [lane for lane in waiting if unfinished.isdisjoint(lane.begins_after(self._suite))]:
                        waiting.remove(lane)
                        running[threads.submit(self._run, lane)] = lane
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        self._show_log(running.pop(future))
                        self.run.results.append(future.result())
            finally:
                self._end_processes()
                self.run.results.extend(future.result() for future in running)
                self.run.write()
        if self._arguments and not any(self.run.tests(lane.name) for lane in self._lanes):
            return [f"no test was selected by {' '.join(self._arguments)}"]
        return [f"{result.lane} (exit {result.status})" for result in self.run.results if result.status]

    def show(self) -> None:
        """Print where the time went and which tests failed."""
        show([self.run], slowest=20)
        for result in self.run.results:
            for test, timed in self.run.tests(result.lane).items():
                if timed.outcome == "failed":
                    print(f"FAILED {test}, see {self._log(result.lane)}")

    def judge_coverage(self) -> list[str]:
        """Print the coverage of the lanes that measured it; return what is below its bar."""
        if self._arguments:
            return []
        lanes = [lane for lane in self._lanes if self._suite in lane.covered]
        failed = []
        if any(lane.name == "turn" for lane in lanes):
            failed += self._below(100, ["turn"], "--include=agents/turn/*")
        if self._suite == "test-all" and len(self._lanes) == len(LANES):
            failed += self._below(94, [lane.name for lane in lanes])
        return failed

    def _below(self, bar: int, lanes: Sequence[str], *options: str) -> list[str]:
        found = {lane: [str(path) for path in self.run.folder.glob(f"{lane}.coverage.*")] for lane in lanes}
        if without := [lane for lane, files in found.items() if not files]:
            return [f"coverage ({', '.join(without)} measured none)"]
        files = [file for each in found.values() for file in each]
        data = f"--data-file={self.run.folder / 'coverage'}"
        passed = _coverage("combine", "--quiet", "--keep", data, *files)
        passed = passed and _coverage("report", data, f"--fail-under={bar}", *options)
        return [] if passed else [f"coverage ({' '.join(options) or 'everything'}, at least {bar} %)"]

    def _run(self, lane: Lane) -> Result:
        command = lane.command(self._suite, self.run.folder / f"{lane.name}.jsonl", self._arguments)
        began = time.monotonic()
        with self._log(lane.name).open("wb") as log:
            environment = self._environment(lane)
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,  # a terminal's Ctrl-C reaches this program alone, which ends the lanes
            )
        self._processes.append(process)
        print(f"{lane.name} begins; its output so far is in {self._log(lane.name)}", flush=True)
        _, status, usage = os.wait4(process.pid, 0)  # unlike Popen.wait, it tells the CPU of all processes of the lane
        code = process.returncode = os.waitstatus_to_exitcode(status)
        return Result(
            lane=lane.name,
            status=0 if code == NO_TESTS and self._arguments else code,
            began=round(began - self._began, 1),
            wall=round(time.monotonic() - began, 1),
            cpu=round(usage.ru_utime + usage.ru_stime, 1),
        )

    def _environment(self, lane: Lane) -> dict[str, str]:
        environment = MORE | os.environ if self._suite == "test-all" else dict(os.environ)
        environment[SUITE] = "all" if self._suite == "test-all" else ""
        environment["COVERAGE_FILE"] = str(self.run.folder / f"{lane.name}.coverage")
        if not lane.program:
            environment.pop("PYTHONPATH", None)  # it is for this program; a test's child would inherit it
        # The tests start hundreds of processes, and each would compile everything again.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        return environment

    def _end_processes(self) -> None:
        for process in self._processes:
            if process.returncode is None:
                process.send_signal(signal.SIGINT)  # so pytest closes its fixtures, which end servers and browsers

    def _show_log(self, lane: Lane) -> None:
        print(self._log(lane.name).read_text(encoding="utf-8", errors="replace"), flush=True)

    def _log(self, lane: str) -> Path:
        return self.run.folder / f"{lane}.log"


def _coverage(*arguments: str) -> bool:
    command = [sys.executable, "-P", "-m", "coverage", *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return said.stdout.strip() or "no commit"


def _end(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def main() -> int:
    """Run the command line; return the status."""
    parser = argparse.ArgumentParser(description="Run the tests of a suite in lanes side by side.")
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--lane", choices=[lane.name for lane in LANES], help="this lane, and the programs it needs")
    given, arguments = parser.parse_known_args()
    lanes = [lane for lane in LANES if given.suite in lane.suites]
    if given.lane is not None:
        lanes = with_those_before(given.lane, lanes)
        if not lanes:
            parser.error(f"the lane {given.lane} has tests of make test-all only")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    for old in sorted(RUNS.glob("*/"))[: -KEPT_RUNS + 1]:
        shutil.rmtree(old)
    suite_run = SuiteRun(given.suite, lanes, arguments)
    try:
        failed = suite_run.run_lanes() + suite_run.judge_coverage()
    finally:
        suite_run.show()
    if failed:
        print(f"make {given.suite}: failed: {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
