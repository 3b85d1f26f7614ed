"""The lanes hold each file of tests once; a run fails where a lane fails or measures nothing; its times are shown."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from kit.suite.lanes import LANES, ROOT, SUITES, Lane, with_those_before
from kit.suite.run import SuiteRun
from kit.suite.times import Result, Run, show


def test_each_file_of_tests_is_in_one_lane() -> None:
    files = Counter(file for lane in LANES for file in lane.files())
    assert files == Counter(ROOT.glob("tests/**/test_*.py"))


def test_a_lane_begins_behind_lanes_that_exist() -> None:
    names = [lane.name for lane in LANES]
    assert len(set(names)) == len(names)
    for suite in SUITES:
        over: set[str] = set()
        while ready := [lane for lane in LANES if lane.name not in over and lane.begins_after(suite) <= over]:
            over |= {lane.name for lane in ready}
        assert over == set(names), "lanes that wait for each other never begin"


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
    assert ["rooms", "30 (6) from second 2: 1 tests", "20 (6) from second 2: 1 tests, 1 failed"] in rows
    assert ["all", "32 (6)", "22 (6)"] in rows
    assert ["test_a.py::test_b", "3.0 (1.0)", "2.0 (1.0)"] in rows


def test_a_failed_lane_fails_the_run_and_the_lanes_behind_it_run_all_the_same(tmp_path: Path) -> None:
    lanes = [Lane(name="first", program="no.such.module"), Lane(name="second", program="this", after=("first",))]
    suite = SuiteRun("test", lanes, [], tmp_path)

    assert suite.run_lanes() == ["first (exit 1)"]

    (folder,) = tmp_path.iterdir()
    first, second = Run.read(folder).results
    assert (first.lane, second.lane, second.status) == ("first", "second", 0)
    assert second.began >= first.began + first.wall - 0.2  # each is rounded
    assert "no.such.module" in (folder / "first.log").read_text()
    assert "Beautiful is better than ugly." in (folder / "second.log").read_text()


def test_a_lane_that_should_measure_coverage_and_does_not_fails_the_run(tmp_path: Path) -> None:
    lanes = [Lane(name="turn", program="this", covered=("test",))]
    whole, selected = SuiteRun("test", lanes, [], tmp_path / "1"), SuiteRun("test", lanes, ["-k", "x"], tmp_path / "2")
    assert whole.run_lanes() == []
    assert selected.run_lanes() == ["no test was selected by -k x"]

    assert whole.judge_coverage() == ["coverage (turn measured none)"]
    assert selected.judge_coverage() == []


def test_a_lane_alone_runs_behind_the_programs_that_it_needs() -> None:
    assert [lane.name for lane in with_those_before("rooms", LANES)] == ["programs", "rooms"]
    assert [lane.name for lane in with_those_before("turn", LANES)] == ["turn"]
    assert with_those_before("alone", [lane for lane in LANES if "test" in lane.suites]) == []
