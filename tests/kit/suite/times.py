"""Where the time of the last runs went, side by side: their lanes and their slowest tests.

PYTHONPATH=tests python -P -m kit.suite.times [--runs 4] [--slowest 20]    (make times ARGS=...)
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from kit.suite.lanes import ROOT

RUNS = ROOT / ".cache" / "runs"
WIDTH = 220
"""Columns; the output is read in logs, where no terminal tells how wide it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A lane that has run.

    Args:
        lane: Its name.
        status: The exit status of its process.
        began: Seconds from the start of the run to its start.
        wall, cpu: Its seconds of wall and of CPU; the CPU is that of all of its processes.
    """

    lane: str
    status: int
    began: float
    wall: float
    cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A test that has run: its outcome, and its seconds of wall and of CPU."""

    outcome: str
    wall: float
    cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a suite: its folder, the suite with pytest's arguments, when it began, on which commit, its lanes."""

    folder: Path
    suite: str
    began: str
    commit: str
    results: list[Result] = field(default_factory=list)

    @classmethod
    def new(cls, runs: Path, suite: str, began: str, commit: str) -> Run:
        """Make the folder of a run that begins, in the folder of all runs."""
        folder = runs / re.sub(r"\D", "", began)
        folder.mkdir(parents=True)
        return cls(folder=folder, suite=suite, began=began, commit=commit)

    @classmethod
    def read(cls, folder: Path) -> Run:
        """Read a run that is over."""
        facts = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        results = [Result(**result) for result in facts.pop("results")]
        return cls(folder=folder, results=results, **facts)

    def write(self) -> None:
        """Write the facts of the run; its lanes have written the times of their tests."""
        facts = {name: value for name, value in asdict(self).items() if name != "folder"}
        (self.folder / "run.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")

    def tests(self, lane: str) -> dict[str, Timed]:
        """Return the tests of a lane, by their ids."""
        path = self.folder / f"{lane}.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        return {test["test"]: Timed(**test["times"]) for test in map(json.loads, lines)}

    @property
    def wall(self) -> float:
        """Seconds from its start to the end of its last lane."""
        return max((result.began + result.wall for result in self.results), default=0.0)

    @property
    def cpu(self) -> float:
        """Seconds of CPU of all lanes."""
        return sum(result.cpu for result in self.results)


def show(runs: Sequence[Run], *, slowest: int) -> None:
    """Print a table of the runs' lanes, and one of their slowest tests, with a column for each run."""
    console = Console(width=WIDTH, highlight=False, markup=False)
    console.print("Where the time went, in seconds of wall (of CPU):")
    console.print(_table("lane", runs, _lanes(runs)))
    tests = [{test: timed for result in run.results for test, timed in run.tests(result.lane).items()} for run in runs]
    worst: dict[str, float] = {}
    for test, timed in (item for each in tests for item in each.items()):
        worst[test] = max(worst.get(test, 0.0), timed.wall)
    rows = [
        [test.removeprefix("tests/"), *(_seconds(each[test]) if test in each else "-" for each in tests)]
        for test in sorted(worst, key=lambda test: -worst[test])[:slowest]
    ]
    if rows:
        console.print(_table(f"the {len(rows)} slowest tests", runs, rows))


def _lanes(runs: Sequence[Run]) -> list[list[str]]:
    names = dict.fromkeys(result.lane for run in runs for result in run.results)
    rows = [[name, *(_lane(run, name) for run in runs)] for name in names]
    return [*rows, ["all", *(f"{run.wall:.0f} ({run.cpu:.0f})" for run in runs)]]


def _lane(run: Run, name: str) -> str:
    result = next((result for result in run.results if result.lane == name), None)
    if result is None:
        return "-"
    outcomes = [timed.outcome for timed in run.tests(name).values()]
    failed = f", {outcomes.count('failed')} failed" if "failed" in outcomes else ""
    ended = f", exit {result.status}" if result.status and not failed else ""
    return f"{result.wall:.0f} ({result.cpu:.0f}) from second {result.began:.0f}: {len(outcomes)} tests{failed}{ended}"


def _seconds(timed: Timed) -> str:
    return f"{timed.wall:.1f} ({timed.cpu:.1f})"


def _table(first: str, runs: Sequence[Run], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(first, *(f"{run.suite} {run.commit}\n{run.began}" for run in runs), box=SIMPLE_HEAD)
    for row in rows:
        table.add_row(*row)
    return table


def main() -> int:
    """Run the command line; return the status."""
    parser = argparse.ArgumentParser(description="Show where the time of the last runs went, side by side.")
    parser.add_argument("--runs", type=int, default=4, help="how many of the last ones (default: 4)")
    parser.add_argument("--slowest", type=int, default=20, help="how many tests (default: 20)")
    given = parser.parse_args()
    folders = sorted(path.parent for path in RUNS.glob("*/run.json"))[-given.runs :]
    if not folders:
        print(f"there is no run in {RUNS}; make test makes one", file=sys.stderr)
        return 1
    show([Run.read(folder) for folder in folders], slowest=given.slowest)
    return 0


if __name__ == "__main__":
    sys.exit(main())
