"""Each file of tests runs in one lane of `make test` or `make test-all`; the runner's tables are those of the lanes."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from house_rules.tree import ROOT

from kit.suite.lanes import LANES
from kit.suite.times import Result, Run, show


def test_each_file_of_tests_is_in_one_lane() -> None:
    files = Counter(file for lane in LANES for file in lane.files())
    assert files == Counter(ROOT.glob("tests/**/test_*.py"))


def test_a_lane_begins_behind_lanes_that_exist() -> None:
    names = [lane.name for lane in LANES]
    assert len(set(names)) == len(names)
    assert [lane.name for number, lane in enumerate(LANES) if not set(lane.after) <= set(names[:number])] == []


def test_two_runs_are_shown_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = []
    for number, wall in enumerate((30.0, 20.0)):
        folder = tmp_path / str(number)
        folder.mkdir()
        result = Result(lane="rooms", status=number, began=2.0, wall=wall, cpu=5.5)
        Run(folder=folder, suite="test", began=f"day {number}", commit=f"c{number}", results=[result]).write()
        outcome = "failed" if number else "passed"
        line = {"test": "tests/test_a.py::test_b", "times": {"outcome": outcome, "wall": wall / 10, "cpu": 1.0}}
        (folder / "rooms.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
        runs.append(Run.read(folder))

    show(runs, slowest=20)

    rows = [re.split(r"  +", line.strip()) for line in capsys.readouterr().out.splitlines()]
    assert ["rooms", "30 (6) from 2: 1 tests", "20 (6) from 2: 1 tests, 1 failed"] in rows
    assert ["all", "32 (6)", "22 (6)"] in rows
    assert ["test_a.py::test_b", "3.0 (1.0)", "2.0 (1.0)"] in rows
