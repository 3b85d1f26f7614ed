"""One interpreter that loads modules once and forks for each call of a function: cold starts whose imports cost once.

A fork has loaded the same modules as a fresh interpreter that has imported the function's module. Modules that a fork
loads are not loaded in other forks.

`python -m kit.forks <module>:<function>` reads a JSON list of argument lists; for each it forks, calls the function
there, and writes a line: what the function printed, or its error.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module


def printed_by_forks(function: str, calls: Sequence[Sequence[str]], *, limit: float = 120.0) -> list[str]:
    """Return what a function prints in a fork for each of the calls.

    Args:
        function: `module:name`.
        calls: Arguments.
        limit: Seconds for all of them.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-m", "kit.forks", function],
        input=json.dumps([list(call) for call in calls]),
        env=environment,
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _call(function: Callable[..., object], arguments: Sequence[str]) -> int:
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            function(*arguments)
    except BaseException:  # noqa: BLE001 - the fork must not return into its parent's loop
        traceback.print_exc()
        return 1
    print(json.dumps(printed.getvalue()), flush=True)
    return 0


def main(function: str) -> int:
    """Make the calls, one after the other."""
    module, _, name = function.partition(":")
    found = getattr(import_module(module), name)
    for arguments in json.load(sys.stdin):
        if not os.fork():
            status = _call(found, arguments)
            sys.stderr.flush()
            os._exit(status)
        if os.wait()[1]:
            print(f"{function} fails with {arguments}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
