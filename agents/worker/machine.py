"""The limits of this process on its machine: cores and memory, of its control group (v1 or v2) or of the host.

Source: the kernel's Documentation/admin-guide, cgroup-v1 and cgroup-v2. No library is needed: each limit is a file with
one or two numbers, and psutil reads the host's values only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

NO_LIMIT_V1 = 2**60
"""Bytes from which a memory limit of a control group v1 means that there is none; the kernel writes about 2**63."""

_AVAILABLE = re.compile(r"^MemAvailable:\s*(\d+) kB$", re.MULTILINE)


class Machine:
    """Reads the limits; each call reads them anew, in less than a millisecond.

    Args:
        root: Folder that holds `proc` and `sys`; tests give another one.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def cores(self) -> float:
        """Return how many cores this process may use: the smallest of its CPU affinity and the quotas above it."""
        limits = [float(_usable_cores())]
        for folder in self._folders("cpu"):
            match _words(folder / "cpu.max"):  # v2: quota and period in µs
                case [quota, period] if quota != "max":
                    limits.append(int(quota) / int(period))
            match _words(folder / "cpu.cfs_quota_us"), _words(folder / "cpu.cfs_period_us"):  # v1: -1 without a quota
                case [quota], [period] if int(quota) > 0:
                    limits.append(int(quota) / int(period))
        return min(limits)

    def memory_limit(self) -> int | None:
        """Return the bytes of memory that the control group allows; None if it sets no limit."""
        limits: list[int] = []
        for folder in self._folders("memory"):
            match _words(folder / "memory.max"):
                case [limit] if limit != "max":
                    limits.append(int(limit))
            match _words(folder / "memory.limit_in_bytes"):
                case [limit] if int(limit) < NO_LIMIT_V1:
                    limits.append(int(limit))
        return min(limits, default=None)

    def available_memory(self) -> int | None:
        """Return the bytes that the host can still give without swapping; None if it does not say (not Linux)."""
        found = _AVAILABLE.search(_text(self._root / "proc" / "meminfo"))
        return int(found[1]) * 1024 if found is not None else None

    def _folders(self, controller: str) -> Iterator[Path]:
        """Yield the folder of this process's control group for a controller, and those above it: each can limit it."""
        mount = self._root / "sys" / "fs" / "cgroup"
        for line in _text(self._root / "proc" / "self" / "cgroup").splitlines():
            _, controllers, path = line.split(":", maxsplit=2)
            if not controllers:
                top = mount
            elif controller in controllers.split(","):
                top = mount / controllers if (mount / controllers).is_dir() else mount / controller
            else:
                continue
            group = Path(path.lstrip("/"))
            # In a container the path may be the host's, which does not exist there; then the mount is the group.
            yield from (top / part for part in (group, *group.parents) if (top / part).is_dir())


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # not Linux, or another version of control groups
        return ""


def _words(path: Path) -> list[str]:
    return _text(path).split()
