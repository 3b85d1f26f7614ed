"""Hosts: each runs `vivavoce start` with the app, and is hurt in the ways that real ones are."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from kit.e2e.command import Running, running
from kit.e2e.crash_app import children_of

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The resources of a process."""

    pid: int
    threads: int
    files: int
    pss_mb: float


class Host:
    """A guardian with its worker."""

    def __init__(self, number: int, folder: Path, stack: ExitStack, **environment: str) -> None:
        self.number = number
        paths = [str(HERE.parents[1]), str(HERE.parent / "calls"), os.environ.get("PYTHONPATH", "")]
        given = {**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "TMPDIR": str(folder / "tmp")}
        app = str(HERE / "kills_app.py")
        self.command: Running = stack.enter_context(running(folder, "start", app, **given))

    @property
    def guardian(self) -> int:
        """Its process, which may have ended."""
        return self.command.process.pid

    @property
    def is_over(self) -> bool:
        """Whether no process of it is left."""
        return self.command.process.poll() is not None and not self.command.family()

    @property
    def registrations(self) -> int:
        """How often one of its workers has registered."""
        return self.command.seen.count("registered as")

    def worker(self) -> int | None:
        """Return the worker's process; None between two of them."""
        return _only(self.guardian)

    def nursery(self) -> int | None:
        """Return the process that forks the others; None before it is there."""
        worker = self.worker()
        return None if worker is None else _only(worker)

    def job_processes(self) -> list[int]:
        """Return the processes that run jobs, or are about to; they may have lost the one that forked them."""
        others = {self.guardian, self.worker(), self.nursery()}
        return [pid for pid in self.command.family() if pid not in others]

    def forked(self) -> list[int]:
        """Return the processes that the present nursery has made."""
        nursery = self.nursery()
        return [] if nursery is None else _children(nursery)

    def signal(self, pid: int | None, number: signal.Signals) -> bool:
        """Send a signal to one of its processes; return whether it was there."""
        if pid is None:
            return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def held(self) -> list[Held]:
        """Return the resources of worker and job processes."""
        pids = [pid for pid in (self.worker(), *self.job_processes()) if pid is not None]
        return [found for pid in pids if (found := held(pid)) is not None]


def held(pid: int) -> Held | None:
    """Return the resources of a process; None if it has ended."""
    process = Path(f"/proc/{pid}")
    try:
        memory = (process / "smaps_rollup").read_text().splitlines()
        return Held(
            pid=pid,
            threads=len(os.listdir(process / "task")),
            files=len(os.listdir(process / "fd")),
            pss_mb=round(sum(int(line.split()[1]) for line in memory if line.startswith("Pss:")) / 1024, 1),
        )
    except OSError:
        return None


def _children(pid: int) -> list[int]:
    try:
        return children_of(pid)
    except OSError:
        return []


def _only(pid: int) -> int | None:
    return next(iter(_children(pid)), None)
