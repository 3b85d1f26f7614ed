"""`vivavoce start` in a process of its own: the lines that a person running it reads, and its end by a signal."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from anyio.from_thread import BlockingPortal, start_blocking_portal

from kit.e2e.command import running
from kit.servers.agent_server import AgentServer

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

ROOT = Path(__file__).parents[2]

APP = """
import anyio
from vivavoce.agents import Worker, WorkerOptions
from vivavoce.agents.current_job import required_job

async def close(reason): ...

async def entrypoint(ctx):
    if ctx.job.metadata == "bad":
        raise KeyError("no such table")
    if ctx.job.metadata == "short":
        ctx.shutdown("all said")
    else:
        required_job().attach_session(close)  # the job goes on without a room

worker = Worker(entrypoint, agent_name="host", options=WorkerOptions(max_jobs=5, drain_timeout=60.0, health_port=0))
"""


APP_IN_ONE_PROCESS = """
import threading
from vivavoce.agents import TaskExecution, Worker, WorkerOptions

async def entrypoint(ctx): ...

def prewarm(shared):
    DEED

worker = Worker(entrypoint, options=WorkerOptions(executor=TaskExecution(start_limit=LIMIT), prewarm=prewarm))
"""


@pytest.fixture
def portal() -> Iterator[BlockingPortal]:
    """The loop of the scripted server, beside the test's own thread."""
    with start_blocking_portal() as portal:
        yield portal


def test_start_says_where_it_is_registered_what_each_job_does_and_how_it_drains(
    tmp_path: Path, portal: BlockingPortal
) -> None:
    (tmp_path / "app.py").write_text(APP)
    with portal.wrap_async_context_manager(AgentServer()) as server:
        account = ("--url", server.url, "--api-key", server.api_key, "--api-secret", server.api_secret)
        with running(tmp_path, "start", "app.py", *account) as start:
            start.read_until("registered as AW_1")
            portal.call(server.start, "AJ_1", "short")
            start.read_until("job AJ_1: over after")
            portal.call(server.start, "AJ_2", "bad")
            start.read_until("job AJ_2: over after")
            portal.call(server.start, "AJ_3")
            portal.call(server.start, "AJ_4")
            start.read_until("begins in room room-of-AJ_4")

            start.process.send_signal(signal.SIGTERM)
            start.read_until("draining: 2 jobs left, for 60 s at most")
            portal.call(server.terminate, "AJ_3")
            start.read_until("draining: 1 job left")
            status = start.end(signal.SIGTERM)  # the second one

        printed = start.seen
        last = portal.call(server.ended, "AJ_4")

    assert status == 0
    assert not last.error
    assert f"registered as AW_1 at {server.url}: agent 'host', at most 5 jobs in" in printed
    assert re.search(r"at most 5 jobs in \d+ processes", printed)
    assert re.search(r"http://127\.0\.0\.1:\d+/worker", printed)
    assert "Ctrl-C ends the calls and the worker; SIGTERM lets the calls finish first, for 60 s at most" in printed
    assert re.search(r"job AJ_1: over after \d+\.\d s, all said", printed)
    assert re.search(r"job AJ_2: over after \d+\.\d s, failed: KeyError: 'no such table'", printed)
    assert printed.count("job AJ_1:") == 2, "a line for its begin and one for its end"


def test_a_worker_that_cannot_register_ends_with_a_failing_status_and_the_reason(
    tmp_path: Path, portal: BlockingPortal
) -> None:
    (tmp_path / "app.py").write_text(APP.replace("max_jobs=5", "max_retry=0"))
    with portal.wrap_async_context_manager(AgentServer()) as gone:
        url = gone.url
    with running(tmp_path, "start", "app.py", "--url", url, "--api-key", "k", "--api-secret", "s" * 32) as start:
        assert start.process.wait(timeout=60) != 0
        start.end()

    assert f"could not register with the LiveKit server: no connection to {url}" in start.seen


@pytest.mark.parametrize(
    ("deed", "limit", "reason"),
    [
        ("threading.Event().wait()", 0.5, r"prewarm must return within start_limit=0\.5 s, and has not"),
        ("shared['food'] = bytearray(2**62)", 30.0, "MemoryError"),
    ],
    ids=["hangs", "eats memory"],
)
def test_a_worker_in_one_process_whose_prewarm_misbehaves_ends_with_a_failing_status_and_the_reason(
    tmp_path: Path, portal: BlockingPortal, deed: str, limit: float, reason: str
) -> None:
    (tmp_path / "app.py").write_text(APP_IN_ONE_PROCESS.replace("DEED", deed).replace("LIMIT", str(limit)))
    with portal.wrap_async_context_manager(AgentServer()) as server:
        account = ("--url", server.url, "--api-key", server.api_key, "--api-secret", server.api_secret)
        with running(tmp_path, "start", "app.py", *account) as start:
            assert start.process.wait(timeout=60) != 0
            start.end()

    assert re.search(reason, start.seen)
    assert "in prewarm" in start.seen, "the stack shows where"


def test_the_hook_of_the_kubernetes_example_lets_the_calls_finish_and_lasts_as_long(
    tmp_path: Path, portal: BlockingPortal
) -> None:
    manifests = yaml.safe_load_all((ROOT / "examples/deploy/kubernetes.yaml").read_text())
    [pod] = [manifest["spec"]["template"]["spec"] for manifest in manifests if manifest["kind"] == "Deployment"]
    hook = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    (tmp_path / "app.py").write_text(APP)
    with portal.wrap_async_context_manager(AgentServer()) as server:
        account = ("--url", server.url, "--api-key", server.api_key, "--api-secret", server.api_secret)
        with running(tmp_path, "start", "app.py", *account) as start:
            start.read_until("registered as AW_1")
            portal.call(server.start, "AJ_1")
            start.read_until("begins in room room-of-AJ_1")
            # In its container the worker's process is number 1.
            command = [re.sub(r"(-TERM|-0) 1\b", rf"\1 {start.process.pid}", word) for word in hook]
            with subprocess.Popen(command) as running_hook:
                start.read_until("draining: 1 job left")
                assert running_hook.poll() is None, "the hook lasts as long as the call"

                portal.call(server.terminate, "AJ_1")
                assert start.process.wait(timeout=60) == 0
                assert running_hook.wait(timeout=60) == 0
            report = portal.call(server.ended, "AJ_1")

    assert not report.error
    assert start.seen.count("got SIGTERM") == 1
