"""Jobs in processes of their own: real processes, no room. `JobPool` checks that nothing is left."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from kit import job_process_app as app
from kit.job_pool import LIMIT, JobPool
from vivavoce.agents.worker.executors.nursery_process import NurseryProcess, start_nursery
from vivavoce.pipelines.core.errors import WorkerError

pytestmark = pytest.mark.timeout(180)


async def test_each_crash_ends_the_jobs_of_its_process_alone_and_says_how_it_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with JobPool(app.entrypoint, processes=2) as pool:
        pool.start("other", "wait")
        for deed, words in {
            "exit": "the job's process exited with status 7",
            "segfault": "the job's process was ended by SIGSEGV",
            "kill": "the job's process was ended by SIGKILL (somebody killed it, or the machine had no memory left)",
        }.items():
            pool.start(deed, deed)
            ended = await pool.ended(deed)
            assert (ended.error, ended.is_process_lost) == (words, True)
            await pool.full()

        assert pool.is_running("other")
    assert "job_process_app.py" in caplog.text, "the stack of the segmentation fault"


async def test_an_entrypoint_that_raises_exits_or_ignores_its_end_leaves_its_process_to_the_others() -> None:
    async with JobPool(app.entrypoint, processes=1, stop_limit=0.5) as pool:
        (process,) = await pool.full()
        for deed, error in {"raise": "ValueError: the entrypoint's own error", "leave": "SystemExit: 3"}.items():
            pool.start(deed, deed)
            ended = await pool.ended(deed)
            assert (ended.error, ended.is_process_lost) == (error, False)
        pool.start("deaf", "deaf")
        pool.executor.end("deaf", "the worker is stopping", is_forced=True)

        assert not (await pool.ended("deaf")).is_process_lost
        pool.start("last", "end")
        assert (await pool.ended("last")).error == ""
        assert [facts.pid for facts in await pool.full()] == [process.pid]


async def test_an_idle_process_shares_most_of_its_memory_with_the_others() -> None:
    async with JobPool(app.entrypoint, prewarm=app.prewarm, processes=2) as pool:
        for process in await pool.full():
            own, whole = _kilobytes(process.pid, r"Private_\w+"), _kilobytes(process.pid, "Rss")
            assert own < whole / 3, (own, whole)


@pytest.mark.test_all("the megabytes are those of the releases that are installed")
async def test_an_idle_process_has_less_than_fifteen_megabytes_of_its_own() -> None:
    async with JobPool(app.entrypoint, prewarm=app.prewarm, processes=2) as pool:
        for process in await pool.full():
            own = _kilobytes(process.pid, r"Private_\w+")
            print(f"an idle process has {own / 1000:.1f} MB of its own, and {process.memory / 1e6:.1f} MB by shares")
            assert own < 15_000


async def test_jobs_go_to_the_emptiest_process_and_each_process_has_parts_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_FILE", str(tmp_path / "models"))
    facts: list[dict[str, Any]] = []
    async with JobPool(app.entrypoint, prewarm=app.prewarm, processes=2) as pool:
        pool.start("busy", "wait")
        for name in ("one", "two"):
            pool.start(name, json.dumps({"file": str(tmp_path / name)}))
            await pool.ended(name)
            pool.start(f"after {name}", "wait")
            facts.append(json.loads((tmp_path / name).read_text()))
        processes = {process.pid: process.jobs for process in await pool.full()}

    assert {fact["pid"] for fact in facts} == processes.keys()
    for fact in facts:
        assert fact["shared"] == fact["pid"], "prewarm ran in the process itself"
        assert fact["is_frozen"], "the collector looks at nothing that prewarm has loaded"
    assert facts[0]["random"] != facts[1]["random"], "forks do not draw the same numbers"
    assert sorted((tmp_path / "models").read_text().splitlines()) == sorted(f"closed {pid}" for pid in processes)


async def test_native_libraries_of_job_processes_are_bounded_though_the_worker_s_own_process_is_an_application_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    async with JobPool(app.entrypoint, processes=1) as pool:
        pool.start("one", json.dumps({"file": str(tmp_path / "facts")}))
        await pool.ended("one")

    assert json.loads((tmp_path / "facts").read_text())["blas_threads"] == "1"
    assert "OPENBLAS_NUM_THREADS" not in os.environ


async def test_a_job_that_blocks_its_process_is_killed_with_it_and_the_log_shows_where_it_was(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with JobPool(app.entrypoint, processes=2, heartbeat_limit=5) as pool:
        pool.start("stuck", "block")
        pool.start("other", "wait")

        ended = await pool.ended("stuck")

        assert ended.error == "the job's process gave no sign of life for 5 s and was killed"
        assert ended.is_process_lost
        await pool.full()
        assert pool.is_running("other")
    assert "was here:" in caplog.text
    assert "job_process_app.py" in caplog.text


async def test_a_process_over_its_memory_limit_is_replaced_and_its_jobs_fail_with_that_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with JobPool(app.entrypoint, processes=1, memory_warning_mb=10, memory_limit_mb=250) as pool:
        pool.start("neighbour", "wait")
        pool.start("hungry", "eat")
        for name in ("neighbour", "hungry"):
            ended = await pool.ended(name)
            assert ended.error.startswith("the job's process used ")
            assert ended.error.endswith(" MB of memory, with memory_limit_mb=250")
            assert ended.is_process_lost
        await pool.full()
        pool.start("next", "end")
        assert not (await pool.ended("next")).error
    assert caplog.text.count("(memory_warning_mb)") <= 2, "once a process"


async def test_jobs_wait_for_a_slow_prewarm_and_processes_without_room_take_none() -> None:
    async with JobPool(app.entrypoint, prewarm=app.slow_prewarm, processes=1, jobs_per_process=1) as pool:
        assert pool.states[-1].is_ready
        pool.start("one", "wait")
        pool.start("two", "end")
        assert not (await _state(pool, is_ready=False)).failure
        assert pool.is_running("two")

        pool.executor.end("one", "asked", is_forced=False)

        assert not (await pool.ended("two")).error
        await _state(pool, is_ready=True)


async def test_a_prewarm_that_fails_always_ends_the_worker_before_it_registers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    words = "a job process could not be prepared for jobs: prewarm failed: ValueError: there is no model file"
    with pytest.raises(WorkerError, match=words):
        async with JobPool(app.entrypoint, prewarm=app.raising_prewarm, processes=2):
            pytest.fail("it is not ready")
    assert "in raising_prewarm" in caplog.text


async def test_a_prewarm_that_hangs_ends_the_worker_and_the_log_shows_where(caplog: pytest.LogCaptureFixture) -> None:
    limit = 2.0  # doubled: most machines load the modules within 4 s
    with anyio.fail_after(LIMIT):
        while "in hanging_prewarm" not in caplog.text:  # a busy machine needs longer to come so far
            limit *= 2
            with pytest.raises(WorkerError) as raised:
                async with JobPool(app.entrypoint, prewarm=app.hanging_prewarm, processes=1, start_limit=limit):
                    pytest.fail("it is not ready")
    assert f"a job process was not ready within start_limit={limit:g} s and was killed" in str(raised.value)


async def test_a_prewarm_that_needs_too_much_memory_ends_the_worker() -> None:
    with pytest.raises(WorkerError, match="a job process used .* MB of memory, with memory_limit_mb=200"):
        async with JobPool(
            app.entrypoint, prewarm=app.eating_prewarm, processes=1, memory_limit_mb=200, stop_limit=0.5
        ):
            pytest.fail("it is not ready")


async def test_a_prewarm_that_begins_to_fail_is_tried_again_at_longer_intervals_until_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARK", str(tmp_path / "mark"))
    async with JobPool(app.entrypoint, prewarm=app.prewarm_of_the_first, processes=1) as pool:
        (process,) = await pool.full()
        (tmp_path / "mark").touch()
        os.kill(process.pid, signal.SIGKILL)

        failure = (await _state(pool, is_failing=True)).failure
        assert failure.startswith("no job process is left, the last one could not be prepared for jobs: prewarm failed")
        (tmp_path / "mark").unlink()
        assert not (await _state(pool, is_ready=True)).failure
        pool.start("job", "end")
        assert not (await pool.ended("job")).error


def _killed_nursery() -> NurseryProcess:
    nursery = start_nursery()
    nursery.process.kill()
    return nursery


async def test_the_loss_of_the_process_that_forks_the_others_harms_no_job_and_no_start() -> None:
    async with JobPool(app.entrypoint, processes=2, nursery=_killed_nursery) as pool:
        first, second = await pool.full()
        pool.start("other", "wait")
        os.kill(_parent(first.pid), signal.SIGKILL)
        os.kill(second.pid, signal.SIGKILL)
        with anyio.fail_after(LIMIT):
            pids: set[int] = set()
            while second.pid in pids or first.pid not in pids:  # noqa: ASYNC110 - there is no event for it
                await anyio.sleep(0.05)
                pids = {facts.pid for facts in await pool.full()}

        assert pool.is_running("other")
        pool.start("job", "end")
        assert not (await pool.ended("job")).error


async def test_a_process_for_which_the_machine_has_no_file_left_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    make, refusals = tempfile.TemporaryFile, ["no space left on device"]

    def temporary_file() -> Any:
        if refusals:
            raise OSError(refusals.pop())
        return make()

    monkeypatch.setattr(tempfile, "TemporaryFile", temporary_file)
    async with JobPool(app.entrypoint, processes=1) as pool:
        assert pool.states[-1].is_ready
    assert not refusals


@pytest.mark.parametrize("name", ["nursery", "job process 1", "to job process 1"])
async def test_a_process_for_which_the_machine_has_no_thread_left_is_made_again(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    start, refusals = threading.Thread.start, [name]

    def start_thread(thread: threading.Thread) -> None:
        if thread.name in refusals:
            refusals.remove(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_thread)
    async with JobPool(app.entrypoint, processes=1) as pool:
        assert pool.states[-1].is_ready
    assert not refusals


async def test_a_job_that_is_given_to_a_process_just_after_its_end_is_reported_as_lost() -> None:
    async with JobPool(app.entrypoint, processes=1) as pool:
        (process,) = await pool.full()
        os.kill(process.pid, signal.SIGKILL)
        time.sleep(0.3)  # noqa: ASYNC251, TID251 - holds the loop, so that the end waits there before the job
        pool.start("late", "end")
        pool.executor.end("late", "asked", is_forced=False)

        assert (await pool.ended("late")).is_process_lost
        await pool.full()
        pool.start("next", "end")
        assert not (await pool.ended("next")).error


@pytest.mark.parametrize("is_hung_up", [True, False], ids=["its starter is gone", "its starter closes it"])
def test_a_nursery_that_was_started_early_and_gets_no_application_ends_without_a_word(
    capfd: pytest.CaptureFixture[str], is_hung_up: bool
) -> None:
    nursery = start_nursery()
    if is_hung_up:
        nursery.connection.close()
        assert nursery.process.wait(timeout=LIMIT) == 0

    nursery.close()
    nursery.close()

    assert nursery.process.poll() is not None
    assert capfd.readouterr() == ("", "")


async def test_signals_of_a_terminal_or_a_service_manager_are_left_to_the_worker() -> None:
    async with JobPool(app.entrypoint, processes=1) as pool:
        (process,) = await pool.full()
        pool.start("job", "wait")
        for pid in (process.pid, _parent(process.pid)):
            for number in (signal.SIGINT, signal.SIGTERM):
                os.kill(pid, number)
        pool.start("next", "end")

        assert not (await pool.ended("next")).error
        assert pool.is_running("job")
        assert [facts.pid for facts in await pool.full()] == [process.pid]


async def test_log_records_of_all_processes_go_through_the_workers_handlers(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        async with JobPool(app.entrypoint, processes=1) as pool:
            pool.start("AJ_1", "log")
            await pool.ended("AJ_1")
            (process,) = await pool.full()

    (record,) = [record for record in caplog.records if record.name == app.__name__]
    assert record.getMessage() == "a word of job AJ_1"
    assert record.process == process.pid
    assert record.__dict__["job_id"] == "AJ_1"
    assert record.__dict__["tool"].startswith("<"), "an object of the application travels as text"
    assert record.__dict__["place"] == "bar 2"
    assert (record.levelno, record.__dict__["score"], record.__dict__["loud"]) == (25, 0.5, True)


async def _state(pool: JobPool, *, is_ready: bool | None = None, is_failing: bool = False) -> Any:
    """Wait until the pool's last state fits, and return it."""
    with anyio.fail_after(LIMIT * 2):
        while True:
            state = pool.states[-1]
            if state.is_ready == is_ready or (is_failing and state.failure):
                return state
            await anyio.sleep(0.02)


def _kilobytes(pid: int, kind: str) -> int:
    """Return the memory of a process of the kinds that match: what is private it shares with no other one."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(size) for size in re.findall(rf"^{kind}:\s*(\d+) kB$", rollup, re.MULTILINE))


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
