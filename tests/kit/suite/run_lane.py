"""pytest for one lane: it ends with its own status, in spite of livekit's threads, and writes the time of each test.

python -P tests/kit/suite/run_lane.py TIMES.jsonl [pytest's arguments]
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from vivavoce.pipelines.core.process_end import run_process


class Stopwatch:
    """A plugin of pytest that writes a line of JSON for each test: its id, its outcome, its seconds of wall and of CPU.

    CPU is that of this process and of the children that were awaited meanwhile.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1, encoding="utf-8")
        self._outcome = "passed"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._outcome = "passed"
        wall, cpu = time.monotonic(), _cpu()
        try:
            return (yield)
        finally:
            seconds = {"wall": round(time.monotonic() - wall, 3), "cpu": round(_cpu() - cpu, 3)}
            line = {"test": item.nodeid, "times": {"outcome": self._outcome, **seconds}}
            print(json.dumps(line), file=self._file)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed":
            self._outcome = report.outcome


def _cpu() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


if __name__ == "__main__":
    run_process(lambda: sys.exit(pytest.main(sys.argv[2:], plugins=[Stopwatch(Path(sys.argv[1]))])))
