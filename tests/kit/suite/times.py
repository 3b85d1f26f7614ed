"""Where the time of the last runs went, side by side: their lanes, and their slowest tests.

    python -P tests/kit/suite/times.py [--runs 4] [--slowest 20]    (make times)
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

RUNS = Path(__file__).resolve().parents[3] / ".cache" / "runs"


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
class Time:
    """The outcome of a test, and its seconds of wall and of CPU."""

    outcome: str
    wall: float
    cpu: float


@dataclass(kw_only=True)
class Run:
    """One run of a suite: its folder, when it began, on which commit, and its lanes."""

    folder: Path
    suite: str
    began: str
    commit: str
    results: list[Result] = field(default_factory=list)

    @classmethod
    def new(cls, suite: str, began: str, commit: str) -> Run:
        """Make the folder of a run that begins."""
        folder = RUNS / re.sub(r"\D", "", began)
        folder.mkdir(parents=True)
        return cls(folder=folder, suite=suite, began=began, commit=commit)

    @classmethod
    def read(cls, folder: Path) -> Run:
        """Read a run that is over."""
        written = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        results = [Result(**result) for result in written.pop("results")]
        return cls(folder=folder, results=results, **written)

    def write(self) -> None:
        """Write the run down; the lanes have written the times of their tests."""
        written = {"suite": self.suite, "began": self.began, "commit": self.commit}
        written_results = [asdict(result) for result in self.results]
        (self.folder / "run.json").write_text(json.dumps(written | {"results": written_results}, indent=1) + "\n")

    @cached_property
    def tests(self) -> dict[str, Time]:
        """Each test's time."""
        times = {}
        for result in self.results:
            path = self.folder / f"{result.lane}.jsonl"
            if path.is_file():
                for line in path.read_text(encoding="utf-8").splitlines():
                    test = json.loads(line)
                    times[test.pop("test")] = Time(**test)
        return times

    @property
    def wall(self) -> float:
        """Seconds from its start to the end of its last lane."""
        return max((result.began + result.wall for result in self.results), default=0.0)


def compared(runs: Sequence[Run], *, slowest: int) -> str:
    """Return a table of the runs' lanes and a table of their slowest tests, a run a column: wall (CPU), in seconds."""
    lanes = list(dict.fromkeys(result.lane for run in runs for result in run.results))
    head = ["", *(f"{run.suite} {run.commit}" for run in runs)]
    rows = [[lane, *(_lane(run, lane) for run in runs)] for lane in lanes]
    whole = ["whole run", *(f"{run.wall:.0f} ({sum(result.cpu for result in run.results):.0f})" for run in runs)]
    began = ["began", *(run.began for run in runs)]
    lines = ["Where the time went: seconds of wall (of CPU)", *_table([head, began, *rows, whole])]
    walls: dict[str, float] = {}
    for run in runs:
        for test, time in run.tests.items():
            walls[test] = max(walls.get(test, 0.0), time.wall)
    longest = sorted(walls, key=lambda test: -walls[test])[:slowest]
    lines += ["", f"The {len(longest)} slowest tests"]
    lines += _table([[_short(test), *(_test(run, test) for run in runs)] for test in longest])
    return "\n".join(lines)


def _lane(run: Run, lane: str) -> str:
    result = next((result for result in run.results if result.lane == lane), None)
    if result is None:
        return "-"
    said = [time.outcome for test, time in run.tests.items()] if len(run.results) == 1 else _outcomes(run, lane)
    failed = said.count("failed")
    counts = f" {len(said)} tests" if said else ""
    return f"{result.wall:.0f} ({result.cpu:.0f}){counts}" + (f", {failed} FAILED" if failed else "")


def _outcomes(run: Run, lane: str) -> list[str]:
    path = run.folder / f"{lane}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [json.loads(line)["outcome"] for line in lines]


def _test(run: Run, test: str) -> str:
    time = run.tests.get(test)
    return "-" if time is None else f"{time.wall:.1f} ({time.cpu:.1f})"


def _short(test: str) -> str:
    name = test.removeprefix("tests/")
    return name if len(name) <= 110 else f"{name[:107]}..."


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    return ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def main() -> int:
    """Run the command line; return the status."""
    parser = argparse.ArgumentParser(description="Show where the time of the last runs went, side by side.")
    parser.add_argument("--runs", type=int, default=4, help="how many (default: 4)")
    parser.add_argument("--slowest", type=int, default=20, help="how many tests (default: 20)")
    given = parser.parse_args()
    folders = sorted(path.parent for path in RUNS.glob("*/run.json"))[-given.runs :]
    if not folders:
        print(f"{RUNS} holds no run that is over; make test writes one", file=sys.stderr)
        return 1
    print(compared([Run.read(folder) for folder in folders], slowest=given.slowest))
    return 0


if __name__ == "__main__":
    sys.exit(main())
