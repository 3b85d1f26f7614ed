"""The owner of a call's record: machine, process and purpose in one text; whether such a process has ended."""

from __future__ import annotations

import os
import socket
from pathlib import Path

RESCUE = "rescue"
"""Purpose of an owner that dispatches the call again; a job's owner has the job's id."""

ENDED = "ended"
"""In the place of the time when a process began: the process has ended."""


def owner_of_job(job_id: str) -> str:
    """Return the owner's text for a job of this process."""
    return f"{_process(os.getpid())}/{job_id}"


def owner_of_lost_job(job_id: str) -> str:
    """Return the owner's text for a job whose process has died before the job took its record from this process."""
    return f"{_machine()}/{os.getpid()}/{ENDED}/{job_id}"


def rescuer() -> str:
    """Return the owner's text for this process while it dispatches a call again."""
    return f"{_process(os.getpid())}/{RESCUE}"


def is_of_job(owner: str, job_id: str) -> bool:
    """Return whether the owner is that job, in whatever process."""
    return owner.endswith(f"/{job_id}")


def has_ended(owner: str) -> bool:
    """Return whether the owner's process has ended.

    False if it runs on another machine, which cannot be seen here, and for the text of another program or version.
    """
    match owner.split("/", 3):
        case [machine, pid, began, _] if machine == _machine() and pid.isdecimal():
            return began == ENDED or began != _started_at(int(pid))
        case _:
            return False


def _machine() -> str:
    return socket.gethostname().replace("/", "-")


def _process(pid: int) -> str:
    return f"{_machine()}/{pid}/{_started_at(pid)}"


def _started_at(pid: int) -> str:
    """Return when a process began, as the system counts it, so that a pid that was used again is another process.

    Source: field 22 of /proc/<pid>/stat (Linux). On other systems only the pid tells processes apart.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ENDED if Path("/proc/self/stat").exists() or not _runs(pid) else "runs"
    state, *fields = stat.rpartition(")")[2].split()
    return ENDED if state in "ZX" else fields[18]


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
