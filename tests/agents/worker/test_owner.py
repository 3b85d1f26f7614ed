"""The owner of a call's record: whether its process has ended."""

from __future__ import annotations

import os
import subprocess
import sys

from vivavoce.agents.worker.owner import has_ended, owner_of_job, owner_of_lost_job, rescuer

PRINT = """
from vivavoce.agents.worker.owner import owner_of_job, owner_of_lost_job
print(owner_of_job("AJ_1"), owner_of_lost_job("AJ_2"), flush=True)
input()
"""


def test_a_running_process_has_not_ended_and_a_killed_one_has_before_and_after_it_is_reaped() -> None:
    with subprocess.Popen([sys.executable, "-c", PRINT], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout is not None
        owner, lost = process.stdout.readline().split()
        assert (has_ended(owner), has_ended(lost)) == (False, True)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert (has_ended(owner), has_ended(lost)) == (True, True)
        process.wait()
        assert (has_ended(owner), has_ended(lost)) == (True, True)


def test_a_process_that_has_the_pid_of_an_ended_one_is_another_process() -> None:
    machine, pid, started_at, _ = owner_of_job("AJ_1").split("/")

    assert not has_ended(f"{machine}/{pid}/{started_at}/AJ_2")
    assert has_ended(owner_of_lost_job("AJ_2"))
    assert has_ended(f"{machine}/{pid}/{int(started_at) - 1}/AJ_2")


def test_a_process_of_another_machine_is_not_judged() -> None:
    assert not has_ended("elsewhere/999999999/1/AJ_1")


def test_an_owner_that_is_no_process_of_ours_is_not_judged() -> None:
    assert not any(
        has_ended(owner) for owner in ("", "another version", "a/b/c/d", f"{rescuer().split('/')[0]}/x/1/AJ_1")
    )


def test_jobs_of_one_process_own_their_records_apart() -> None:
    assert len({owner_of_job("AJ_1"), owner_of_job("AJ_2"), rescuer()}) == 3
