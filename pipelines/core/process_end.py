"""How the processes of the command line end: with their own status, whatever livekit's threads do then."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from typing import NoReturn


def run_process(main: Callable[[], object]) -> NoReturn:
    """Run the main function of a process, and end the process as Python would, but for taking the interpreter apart.

    Threads of livekit's native library call into Python. One that does so while an interpreter is taken apart aborts
    the process, and its exit status with it (livekit/python-sdks#627), which a busy machine shows now and then. So all
    that an exit promises is done here (threads are waited for, exit handlers run, output is flushed), and no more.
    """
    status = 0
    try:
        main()
    except SystemExit as ended:
        status = _status(ended.code)
    except BaseException:  # noqa: BLE001 - nobody is left to take it
        sys.excepthook(*sys.exc_info())
        status = 1
    if "livekit.rtc" not in sys.modules:
        sys.exit(status)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()  # no public function runs them without taking the interpreter apart
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # there is none, nobody reads it, or it is closed
            status = status or 120  # as Python has it
    os._exit(status)


def _status(code: object) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1
