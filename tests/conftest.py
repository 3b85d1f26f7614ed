"""Guards for the whole suite: no test holds its loop or leaves a task, the run leaves no process and no thread."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import hypothesis
import pytest

from kit.children import own_children
from kit.wanted import SUITE, all_are_wanted
from vivavoce.pipelines.testing import LOOP_LIMIT, LoopGuard, LoopHeldError

# make test draws the same examples in each run, so that chance refuses no change. make test-all draws new ones, and so
# does `pytest --hypothesis-profile=new`. hypothesis' own profile for CI has no deadline: a busy machine is late.
SAME = hypothesis.settings(hypothesis.settings.get_profile("ci"))
hypothesis.settings.register_profile("same", SAME)
hypothesis.settings.register_profile("new", SAME, derandomize=False)
hypothesis.settings.load_profile("new" if all_are_wanted() else "same")

SETTLING_STEPS = 5
"""Loop iterations in which callbacks of closed objects may still run."""

PATIENT_LOOP_LIMIT = 20.0
"""Seconds for which a test with real processes may hold its loop, since it starts and awaits them in the loop's thread;
and a test of a lane that raises `--timeout`, since it runs in the scheduler's idle class.
"""

FOREIGN_SETTLING = 1.0
"""Seconds that an SDK's own tasks get to wind down after a test with real processes."""

CHILD_SETTLING = 3.0
"""Seconds that child processes get to exit after the last test."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests that only `make test-all` runs out of other runs; give each test a lane's higher `--timeout`.

    Tests against a vendor itself run if they are asked for by their mark and its key is set.
    """
    _raise_limits(items, config.getoption("timeout") or 0.0)
    is_asked = "live" in (config.getoption("markexpr") or "")
    live = [item for item in items if item.get_closest_marker("live") and not (is_asked and _has_key(item))]
    items[:] = [item for item in items if item not in live]
    config.hook.pytest_deselected(items=live)
    kinds: dict[bool, list[pytest.Item]] = {False: [], True: []}
    for item in items:
        kinds[_is_of_test_all(item)].append(item)
    if not all_are_wanted():
        items[:] = kinds[False]
        config.hook.pytest_deselected(items=kinds[True])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which of the deselected tests `make test-all` runs."""
    deselected = terminalreporter.stats.get("deselected", [])
    if left_out := sum(_is_of_test_all(item) for item in deselected):
        terminalreporter.write_line(f"{left_out} tests of make test-all are left out; {SUITE}=all runs them")


def _has_key(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("live")
    return mark is not None and bool(os.environ.get(mark.args[0]))


def _is_of_test_all(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("test_all")
    if mark is not None and not mark.args:
        raise pytest.UsageError(f"{item.nodeid}: the mark test_all needs the reason why it is not in make test")
    return mark is not None


def _raise_limits(items: list[pytest.Item], limit: float) -> None:
    for item in items:
        mark = item.get_closest_marker("timeout")
        if mark is not None and mark.args[0] < limit:  # it is meant for a machine that is not starved
            item.add_marker(pytest.mark.timeout(limit), append=False)


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have the tests' workers keep their calls in a folder of this run, not in the user's; and find none of the user's
    weights.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VIVAVOCE_MODELS", str(tmp_path_factory.mktemp("models")))
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> None:
    """Watch every test; the loop is looked at only where the test has one."""
    request.getfixturevalue("children_and_threads")
    if request.node.get_closest_marker("asyncio") is not None:
        request.getfixturevalue("no_leaked_task")
        request.getfixturevalue("loop_given_back")


@pytest.fixture
async def loop_given_back(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """Fail a test that holds its event loop for seconds; loops of virtual time guard themselves."""
    is_patient = request.node.get_closest_marker("e2e") is not None or bool(request.config.getoption("timeout"))
    try:
        with LoopGuard(asyncio.get_running_loop(), limit=PATIENT_LOOP_LIMIT if is_patient else LOOP_LIMIT):
            yield
    except LoopHeldError as error:  # no Exception: behind it pytest would not tear the module down
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
async def no_leaked_task(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """Fail a test that ends, its fixtures closed, while a task of its loop still runs."""
    before = asyncio.all_tasks()
    yield
    for _ in range(SETTLING_STEPS):
        if not _others(before):
            return
        await asyncio.sleep(0)  # noqa: TID251 - the guard needs the loop itself, not a cancel scope
    if leaked := _others(before):
        if request.node.get_closest_marker("e2e") is not None:
            _, leaked = await asyncio.wait(leaked, timeout=FOREIGN_SETTLING)
        if leaked:
            names = "\n".join(f"  {task.get_name()}: {task.get_coro()!r}" for task in leaked)
            pytest.fail(f"{len(leaked)} task(s) outlived the test; close what started them:\n{names}", pytrace=False)


def _others(before: set[asyncio.Task[object]]) -> set[asyncio.Task[object]]:
    return asyncio.all_tasks() - before - {asyncio.current_task()}


class _Seen:
    """Which test first saw each child process and each thread."""

    def __init__(self) -> None:
        self.children: dict[int, str] = {}
        self.threads: dict[threading.Thread, str] = {}

    def look(self, test: str) -> None:
        for pid in own_children():
            self.children.setdefault(pid, test)
        for thread in threading.enumerate():
            if not thread.daemon and thread is not threading.main_thread():
                self.threads.setdefault(thread, test)


@pytest.fixture(scope="session")
def seen() -> Iterator[_Seen]:
    """Fail the run if a child process or a non-daemon thread is left at its very end, naming the test that began it."""
    record = _Seen()
    yield record
    left = [
        f"  process {pid} ({_command(pid)}), first seen in {test}"
        for pid, test in record.children.items()
        if not _exits(pid)
    ]
    left += [
        f"  thread {thread.name}, first seen in {test}" for thread, test in record.threads.items() if _runs(thread)
    ]
    if left:
        pytest.fail("left behind; the owner has to end them:\n" + "\n".join(left), pytrace=False)


@pytest.fixture(scope="session", autouse=True)
def seen_from_the_start(seen: _Seen) -> None:
    """Set up before every other session fixture, so that it is torn down after them (servers may live that long)."""


@pytest.fixture
def children_and_threads(request: pytest.FixtureRequest, seen: _Seen) -> Iterator[None]:
    """Record the children and threads that this test started."""
    yield
    seen.look(request.node.nodeid)


def _runs(thread: threading.Thread) -> bool:
    thread.join(CHILD_SETTLING)
    return thread.is_alive()


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except FileNotFoundError:
        return "gone"


def _exits(pid: int) -> bool:
    """Wait until our child has exited, without reaping it: its owner may still want the status."""
    if not Path(f"/proc/{pid}").exists() or "resource_tracker" in _command(pid):  # the interpreter's own helper
        return True
    done = threading.Event()

    def wait() -> None:
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:  # reaped meanwhile
            pass
        done.set()

    threading.Thread(target=wait, daemon=True).start()
    return done.wait(CHILD_SETTLING)
