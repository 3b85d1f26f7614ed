"""The process of a nursery, from its start: a command starts it before it loads the application.

Both load for a second or more, each on a core of its own. This module loads hardly anything, so that the start is
early.
"""

from __future__ import annotations

import subprocess
import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from vivavoce.pipelines.core import native_threads


class NurseryProcess:
    """A started nursery that waits for its application. Whoever starts it closes it in the end.

    Args:
        process: The process.
        connection: To it; its end is the end of the nursery.
    """

    def __init__(self, process: subprocess.Popen[bytes], connection: Connection) -> None:
        self.process = process
        self.connection = connection

    def close(self) -> None:
        """End the process if it still runs, as one that no worker has used; a second call has no effect."""
        if not self.connection.closed:
            self.connection.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def start_nursery() -> NurseryProcess:
    """Start a nursery.

    Raises:
        OSError: The machine has no memory or no process left.
    """
    ours, its = Pipe()
    with its:
        # Ours come last: the folder of an application's file may hold a `random.py`.
        code = (
            f"import sys; sys.path += [path for path in {sys.path!r} if path not in sys.path]; "
            f"from vivavoce.agents.worker.executors.nursery import start; start({its.fileno()})"
        )
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
                env=native_threads.environment(),
            )
        except BaseException:
            ours.close()
            raise
    return NurseryProcess(process, ours)
