"""The children of the test's own process."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def own_children() -> set[int]:
    """Return the children of this process, also those that have ended and whose status nothing has read."""
    tasks = Path("/proc/self/task")
    found: set[int] = set()
    if not tasks.is_dir():  # not Linux
        return found
    for task in tasks.iterdir():
        with suppress(FileNotFoundError):  # the thread ended, or the kernel gives no answer
            found.update(map(int, (task / "children").read_text().split()))
    return found
