"""The end of the command line's processes: with their own exit status, in spite of livekit's threads."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from typing import NoReturn


def run_process(main: Callable[[], object]) -> NoReturn:
    """Run the main function of a process, and end the process as Python does, but without finalising the interpreter.

    Threads of livekit's native library call into Python. If one does so while the interpreter is being finalised, it
    aborts the process, and the exit status is lost (livekit/python-sdks#627); this happens now and then on a busy
    machine. So this function does everything that an exit promises (it waits for threads, runs exit handlers, flushes
    output), and no more.
    """
    status = 0
    try:
        main()
    except SystemExit as ended:
        status = _status(ended.code)
    except BaseException:  # noqa: BLE001 - no caller is left to handle it
        sys.excepthook(*sys.exc_info())
        status = 1
    if "livekit.rtc" not in sys.modules:
        sys.exit(status)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()  # no public function runs them without finalising the interpreter
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):  # there is none, it has no reader, or it is closed
            status = status or 120  # as Python has it
    os._exit(status)


def _status(code: object) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1
