"""The state of the test's own process, restored after a command, a script or a run of pytest in this process."""

from __future__ import annotations

import logging
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LEVELS = ("vivavoce", "livekit")
"""Loggers whose levels commands set, besides the root."""


@contextmanager
def restored(folder: Path | None = None) -> Iterator[None]:
    """Restore the process after the block: environment, current folder, import path, modules, logging, warnings,
    handlers of signals.

    In the block the root logger has no handlers: `basicConfig` would close pytest's own, and a logged warning is on
    stderr.

    Args:
        folder: The modules below it are dropped, and so are those that lie directly in folders which the block has put
            on the import path.
    """
    with ExitStack() as after:
        after.enter_context(_logging_restored())
        after.enter_context(_signals_restored())
        after.enter_context(_imports_restored(folder))
        after.enter_context(_environment_restored())
        after.enter_context(warnings.catch_warnings())
        yield


@contextmanager
def _environment_restored() -> Iterator[None]:
    environment, folder = dict(os.environ), Path.cwd()
    try:
        yield
    finally:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)


@contextmanager
def _imports_restored(folder: Path | None) -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    try:
        yield
    finally:
        added = set(sys.path) - set(path)
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            file = getattr(sys.modules[name], "__file__", None)
            if file is None:
                continue
            if str(Path(file).parent) in added or (folder is not None and Path(file).is_relative_to(folder)):
                del sys.modules[name]


@contextmanager
def _signals_restored() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def _logging_restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, root.handlers = root.handlers, []
    levels = {logger: logger.level for logger in (root, *map(logging.getLogger, LEVELS))}
    try:
        yield
    finally:
        root.handlers = handlers
        for logger, level in levels.items():
            logger.setLevel(level)
