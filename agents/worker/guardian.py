"""The guardian: the small parent of a worker's process. It starts the worker again when the worker is killed.

The new worker finds the calls of the dead one in the checkpoint store and dispatches them again (`rescue`). The
guardian loads no other module of vivavoce and nothing of the application, so that hardly anything can make it fail. It
passes SIGTERM and SIGINT on, and ends with the worker's status when the worker ends by itself.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

GUARDED = "VIVAVOCE_GUARDED"
"""Variable that shows to a worker that a guardian is its parent."""

STEADY_AFTER = 60.0
"""Seconds after which a worker counts as steady: if it dies then, it is started again at once."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds until a worker that died sooner is started again; doubled each time, the first time none."""

PASSED_ON = (signal.SIGTERM, signal.SIGINT)
AWAITED = {*PASSED_ON, signal.SIGCHLD}


def guard(command: Sequence[str]) -> int:
    """Run a worker's command, again after each violent death; return its exit status, 128 + n for signal n."""
    signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)  # they are waited for, none is handled in between
    pause = 0.0
    worker: _Worker | None = _Worker(command)
    while True:
        if worker is not None:
            status = worker.wait()
            if status >= 0 or worker.is_ending:
                return status if status >= 0 else 128 - status
            pause = 0.0 if worker.was_steady else pause
            _report(f"the worker died by {_described(-status)}; it is started again in {pause:g} s")
        if (asked := signal.sigtimedwait(PASSED_ON, pause)) is not None:
            return 128 + asked.si_signo
        pause = min(max(2 * pause, FIRST_PAUSE), LONGEST_PAUSE)
        worker = _started(command, pause)


def _started(command: Sequence[str], pause: float) -> _Worker | None:
    """Start the worker again; None if the machine has no memory or no process left for it now."""
    try:
        return _Worker(command)
    except OSError as error:
        _report(f"the worker could not be started ({error.strerror}); the next try follows in {pause:g} s")
        return None


class _Worker:
    """One process of the worker."""

    def __init__(self, command: Sequence[str]) -> None:
        environment = {**os.environ, GUARDED: str(os.getpid())}
        # A process group of its own: Ctrl-C in a terminal comes here alone, and is passed on once.
        self._pid = os.posix_spawn(command[0], list(command), environment, setpgroup=0, setsigmask=())
        self.is_ending = False
        """Whether it was asked to end."""
        self.was_steady = False

    def wait(self) -> int:
        """Pass signals on until it has ended; return its status, -n for signal n."""
        while True:
            while (ended := self._reap()) is not None:
                pid, status = ended
                if pid == self._pid:
                    return status
            got = signal.sigtimedwait(AWAITED, STEADY_AFTER)
            if got is None:
                self.was_steady = True
            elif got.si_signo in PASSED_ON:
                self.is_ending = True
                os.kill(self._pid, got.si_signo)

    def _reap(self) -> tuple[int, int] | None:
        """Return a child that has ended and its status; the first process of a container gets others' children too."""
        pid, status = os.waitpid(-1, os.WNOHANG)
        return None if pid == 0 else (pid, os.waitstatus_to_exitcode(status))


def end_with_guardian() -> None:
    """Have this process drain if its guardian, its parent, dies; without effect where no guardian is the parent.

    Source: prctl(2), PR_SET_PDEATHSIG (Linux).
    """
    if os.environ.get(GUARDED) != str(os.getppid()) or sys.platform != "linux":
        return
    import ctypes

    set_death_signal = 1
    ctypes.CDLL(None).prctl(set_death_signal, signal.SIGTERM)
    if os.environ[GUARDED] != str(os.getppid()):  # it has died just before
        os.kill(os.getpid(), signal.SIGTERM)


def _described(number: int) -> str:
    name = signal.Signals(number).name
    return f"{name} (somebody killed it, or the machine had no memory left)" if name == "SIGKILL" else name


def _report(line: str) -> None:
    print(f"vivavoce: {line}", file=sys.stderr, flush=True)
