"""The lanes of a suite: which tests run one after the other, and beside which others.

Calls and commands run in real time, with priority, in two rows of lanes. Tests that compute run in the idle class of
the scheduler: in the remaining time of `make test`, whose real-time tests wait for facts, and behind the calls of
`make test-all`, which has real sound; a real-time test in that class would starve. Both suites have the same lanes: the
mark `test_all` says which tests only `make test-all` runs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
E2E = "tests/e2e"
SUITES = ("test", "test-all")
OF_ALL = SUITES[1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Tests that run one after the other.

    Args:
        name: Names it on the command line and in the tables.
        paths: Files and folders of tests, as glob patterns from the root of the repository; in this order.
        but: Patterns of files in `paths` that belong to other lanes.
        after: Lanes that must be over before this one begins.
        is_idle: Whether it runs in the idle class, with patience.
        suites: Suites that run it.
        covered: Suites that measure its coverage.
        program: A module to run instead of tests.
    """

    name: str
    paths: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    is_idle: bool = False
    suites: tuple[str, ...] = SUITES
    covered: tuple[str, ...] = ()
    program: str = ""

    def command(self, suite: str, times: Path, arguments: Sequence[str]) -> list[str]:
        """Return the command that runs it; it writes the time of each test to `times`."""
        python = [sys.executable, "-P"]  # -P: the script's folder is no place for imports
        if self.program:
            return [*python, "-m", self.program]
        if suite in self.covered:
            python += ["-m", "coverage", "run"]
        ignored = [f"--ignore={path}" for pattern in self.but for path in _found(pattern)]
        paths = [path for pattern in self.paths for path in _found(pattern)]
        idle = [*_idle_class(), *python] if self.is_idle else python
        patience = ["--timeout=600"] if self.is_idle else []
        pytest = ["tests/kit/suite/run_lane.py", str(times), "-p", "no:cacheprovider", *patience]
        return [*idle, *pytest, *paths, *ignored, *arguments]

    def begins_after(self, suite: str) -> set[str]:
        """Return the names of the lanes that must be over before this one begins in a suite."""
        return {*self.after, *(CALLS if suite == "test-all" and self.is_idle else ())}

    def files(self) -> set[Path]:
        """Return the files of its tests."""
        files = {file for pattern in self.paths for path in _found(pattern) for file in _tests(path)}
        return files - {file for pattern in self.but for path in _found(pattern) for file in _tests(path)}


def _found(pattern: str) -> list[str]:
    found = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(pattern))
    if not found:
        raise FileNotFoundError(f"a lane names {pattern}, and there is no such test")
    return found


def _tests(path: str) -> list[Path]:
    place = ROOT / path
    return sorted(place.rglob("test_*.py")) if place.is_dir() else [place]


def _idle_class() -> list[str]:
    chrt = ["chrt", "--idle", "0"]
    if shutil.which("chrt") and subprocess.run([*chrt, "true"], capture_output=True, check=False).returncode == 0:
        return chrt
    return ["nice", "-n", "19"]


DEMO = (f"{E2E}/test_demo.py", f"{E2E}/test_demo_telemetry.py", f"{E2E}/test_report_page.py")

FORKED = (
    "tests/agents/worker/executors/test_parcel.py",
    "tests/agents/worker/executors/test_process_executor.py",
    "tests/agents/worker/test_job_processes_from_outside.py",
)
"""Units that fork job processes: they starve in the idle class, coverage would add to the processes' memory, and they
count the files and threads of their own process, which has no room and no server of other tests.
"""

COMMANDS = (
    f"{E2E}/test_call*.py",
    f"{E2E}/test_connect.py",
    f"{E2E}/test_demo_caller.py",
    f"{E2E}/test_demo_life.py",
    f"{E2E}/test_dev.py",
    f"{E2E}/test_dev_[cfl]*.py",
    f"{E2E}/test_examples*.py",
    f"{E2E}/test_fallback_in_rooms.py",
    f"{E2E}/test_job_server_access.py",
    f"{E2E}/test_job_types.py",
    f"{E2E}/test_start.py",
    f"{E2E}/test_table_booking_example.py",
    f"{E2E}/test_tools_and_mcp_example.py",
)
PATIENT = (
    f"{E2E}/room/test_server_api.py",
    f"{E2E}/test_crash_safety.py",
    f"{E2E}/test_healing.py",
    f"{E2E}/test_job_processes.py",
    f"{E2E}/test_livekit_microphone.py",
    f"{E2E}/test_mcp_servers.py",
    f"{E2E}/test_telemetry.py",
    f"{E2E}/test_worker.py",
)
PAGES = (f"{E2E}/room/test_livekit_client.py", f"{E2E}/test_page*.py")
ALONE = (
    f"{E2E}/test_dev_measured.py",
    f"{E2E}/test_demo_measured.py",
    f"{E2E}/test_scenarios_in_rooms.py",
    f"{E2E}/test_console_terminal.py",
    f"{E2E}/test_livekit_agents.py",
    f"{E2E}/test_many_*calls.py",
    f"{E2E}/test_telephone_measured.py",
    "tests/soak/test_soak.py",
)
"""They measure the sound of calls, or keep both cores busy: they run when all others are over."""

CALLS = ("pages", "patient")
"""The last of the real-time lanes, but for the lane `alone`."""

# A first build of the programs keeps both cores busy: units that watch a loop or a process wait for its end.
LANES = (
    Lane(name="programs", program="kit.servers.install"),
    Lane(name="turn", paths=("tests/agents/turn",), is_idle=True, covered=SUITES),
    Lane(
        name="agents",
        paths=("tests/agents",),
        but=("tests/agents/turn", *FORKED),
        after=("programs", "turn"),
        is_idle=True,
        covered=OF_ALL,
    ),
    Lane(
        name="rest",
        paths=("tests",),
        but=("tests/agents", E2E, "tests/soak/test_soak.py"),
        after=("programs",),
        is_idle=True,
        covered=OF_ALL,
    ),
    Lane(name="forked", paths=FORKED),
    Lane(name="commands", paths=(*DEMO, *COMMANDS), after=("programs", "forked")),
    Lane(name="pages", paths=PAGES, after=("programs", "commands"), covered=OF_ALL),
    Lane(
        name="rooms",
        paths=(E2E,),
        but=(*DEMO, *COMMANDS, *PATIENT, *PAGES, *ALONE[:-1]),
        after=("programs",),
    ),
    Lane(name="patient", paths=PATIENT, after=("programs", "rooms"), covered=OF_ALL),
    Lane(name="alone", paths=ALONE, after=("programs", "agents", "rest", "pages", "patient"), suites=OF_ALL),
)


def with_those_before(name: str, lanes: Sequence[Lane]) -> list[Lane]:
    """Return the lane of that name and the programs that must be there before; nothing if `lanes` has no such lane."""
    wanted = next((lane for lane in lanes if lane.name == name), None)
    if wanted is None:
        return []
    return [*(lane for lane in lanes if lane.program and lane.name in wanted.after), wanted]
