"""Applications on their way into a job process: what can travel, how its modules are found, what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kit import job_process_app as app
from kit.job_pool import JobPool
from vivavoce.agents import ProcessExecution
from vivavoce.agents.cli.app_file import load_app
from vivavoce.agents.job import JobContext
from vivavoce.agents.telemetry import Telemetry, TelemetryOptions
from vivavoce.agents.worker.executors.parcel import pack
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.request import JobRequest
from vivavoce.agents.worker.worker import Worker
from vivavoce.pipelines.core.errors import ConfigurationError, WorkerError

pytestmark = pytest.mark.timeout(180)

APP = """
import json, os, sys
from pathlib import Path
import neighbour

async def entrypoint(ctx):
    facts = {"module": __name__, "pid": os.getpid(), "kind": neighbour.kind}
    Path(json.loads(ctx.job.metadata)["file"]).write_text(json.dumps(facts))
    ctx.shutdown("written")
"""

THREADS = """
import threading, time
threading.Thread(target=time.sleep, args=(600,), name="ticker", daemon=True).start()
"""

SCRIPT = """
import anyio
from vivavoce.agents import Worker, WorkerOptions

async def entrypoint(ctx):
    pass

worker = Worker(entrypoint, options=WorkerOptions(url="ws://127.0.0.1:1", api_key="k", api_secret="s" * 40))
anyio.run(worker.run)
"""


async def test_a_closure_is_refused_before_anything_starts_with_the_two_remedies() -> None:
    async def entrypoint(ctx: JobContext) -> None:
        pass

    account = {"url": "ws://127.0.0.1:1", "api_key": "k", "api_secret": "s"}
    worker = Worker(entrypoint, options=WorkerOptions(**account))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError) as refused:
        await worker.run()

    assert str(refused.value).startswith(
        "job processes need the entrypoint as something that another process can import, got <function test_a_closure"
    )
    assert "define it at the top of a module, or run the jobs in the worker's own process" in str(refused.value)
    assert "executor=TaskExecution()" in str(refused.value)


def test_an_option_that_cannot_travel_is_named_and_its_value_is_not_shown() -> None:
    with pytest.raises(ConfigurationError, match="job processes need the option prewarm as .* got <function"):
        pack(app.entrypoint, WorkerOptions(prewarm=lambda shared: None))
    with pytest.raises(ConfigurationError, match=r"needs telemetry=TelemetryOptions\(…\), got a Telemetry"):
        pack(app.entrypoint, WorkerOptions(telemetry=Telemetry(TelemetryOptions(endpoint="http://127.0.0.1:1"))))


def test_options_of_the_workers_own_process_may_be_closures() -> None:
    async def choose(request: JobRequest) -> None:
        request.accept()

    assert pack(app.entrypoint, WorkerOptions(on_request=choose, load=lambda: 0.5))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"processes": 0}, "need processes >= 1"),
        ({"jobs_per_process": True}, "need jobs_per_process >= 1"),
        ({"memory_limit_mb": 1.5}, "need memory_limit_mb >= 1"),
        ({"heartbeat_limit": 1}, "need heartbeat_limit >= 5"),
        ({"start_limit": float("nan")}, "need start_limit > 0"),
        ({"stop_limit": -1}, "need stop_limit >= 0"),
    ],
)
def test_a_wrong_limit_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        ProcessExecution(**values)


def test_processes_without_room_for_the_workers_jobs_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="which is 4; set max_jobs=4, or raise one of them"):
        WorkerOptions(max_jobs=10, executor=ProcessExecution(processes=2, jobs_per_process=2))
    with pytest.raises(ConfigurationError, match=r"executor must be ProcessExecution\(…\) or TaskExecution\(…\)"):
        WorkerOptions(executor="process")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["my-hotel.v2.py", "random.py"])
async def test_the_file_of_the_command_line_is_loaded_by_its_path_under_the_same_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "neighbour", raising=False)
    before = sys.modules.get("random")
    (tmp_path / name).write_text(APP)
    (tmp_path / "neighbour.py").write_text("kind = 'inn'")
    worker = load_app(tmp_path / name).worker
    module = worker.entrypoint.__module__
    try:
        async with JobPool(worker.entrypoint, processes=1) as pool:
            pool.start("job", json.dumps({"file": str(tmp_path / "facts")}))
            await pool.ended("job")
            (process,) = await pool.full()
    finally:
        del sys.modules[module]
        if name == "random.py" and before is not None:
            sys.modules["random"] = before
    assert json.loads((tmp_path / "facts").read_text()) == {
        "module": module,
        "pid": process.pid,
        "kind": "inn",
    }


async def test_an_agent_class_of_the_command_lines_file_reaches_the_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "inn.py").write_text(
        "from vivavoce.agents import Agent\nclass Host(Agent):\n"
        "    def __init__(self):\n        super().__init__('Be brief.')\n"
        "    def pipeline(self):\n        raise ValueError(f'of {type(self).__name__} in {__name__}')\n"
    )
    worker = load_app(tmp_path / "inn.py").worker

    async with JobPool(worker.entrypoint, processes=1) as pool:
        pool.start("job", "")
        assert (await pool.ended("job")).error == "ValueError: of Host in inn"


async def test_an_application_that_starts_threads_while_it_is_loaded_is_loaded_after_the_fork(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "busy_hotel.py").write_text("async def entrypoint(ctx):\n    ctx.shutdown('fine')\n" + THREADS)
    worker = load_app(tmp_path / "busy_hotel.py").worker

    async with JobPool(worker.entrypoint, processes=2) as pool:
        pool.start("job", "")
        assert not (await pool.ended("job")).error

    assert "starts threads while it is loaded (ticker), so each job process loads it anew" in caplog.text


async def test_an_application_that_fails_to_load_in_another_process_ends_the_worker_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "shy_hotel.py").write_text(
        "import multiprocessing\n"
        "if multiprocessing.current_process().name != 'MainProcess':\n    raise OSError('the disk is gone')\n"
        "async def entrypoint(ctx):\n    pass\n"
    )
    worker = load_app(tmp_path / "shy_hotel.py").worker

    with pytest.raises(WorkerError, match="cannot be loaded for the job processes: OSError: the disk is gone"):
        async with JobPool(worker.entrypoint, processes=2):
            pytest.fail("it is not ready")


def test_a_script_that_starts_its_worker_without_a_guard_ends_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    ended = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=40, check=False
    )

    assert ended.returncode == 1
    assert "start the worker below `if __name__ == '__main__':`" in ended.stderr.splitlines()[-1]
