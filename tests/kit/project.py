"""A project of a user: its tests and scripts run in this process, in a folder of their own."""

from __future__ import annotations

import logging
import runpy
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

BLOCKED = ("asyncio", "anyio", "hypothesispytest", "timeout", "rerunfailures", "faulthandler", "cacheprovider")
"""Plugins that a project names if it wants them: the suite's own, and those that change this process."""


def run_pytest(folder: Path, *arguments: str, ini: str = "", capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run pytest on a folder, with none of this repository's settings; return its status and all that it printed."""
    (folder / "pytest.ini").write_text(f"[pytest]\n{ini}", encoding="utf-8")
    blocked = [argument for name in BLOCKED for argument in ("-p", f"no:{name}")]
    # Plugins are loaded before the run, so that their assertions cannot be rewritten; a fresh process says nothing.
    loaded = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    capsys.readouterr()
    with _in_folder(folder):
        status = pytest.main(["-q", f"--rootdir={folder}", *blocked, *loaded, *arguments, str(folder)])
    printed = capsys.readouterr()
    return int(status), printed.out + printed.err


def run_script(script: Path, *, folder: Path | None = None, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a script as the main module, with warnings as errors; return what it printed, which must not be an error."""
    root = logging.getLogger()
    handlers, root.handlers = root.handlers, []  # so that a logged warning is on stderr
    capsys.readouterr()
    try:
        with _in_folder(folder or script.parent), warnings.catch_warnings():
            warnings.simplefilter("error")
            sys.path.insert(0, str(script.parent))
            runpy.run_path(str(script), run_name="__main__")
    finally:
        root.handlers = handlers
    printed = capsys.readouterr()
    assert printed.err == "", printed.err
    return printed.out


@contextmanager
def _in_folder(folder: Path) -> Iterator[None]:
    """Work in a folder; afterwards its modules and its place on the import path are gone."""
    path, modules = list(sys.path), set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "80")
        patch.delenv("PYTEST_ADDOPTS", raising=False)
        try:
            yield
        finally:
            sys.path[:] = path
            for name in set(sys.modules) - modules:
                file = getattr(sys.modules[name], "__file__", None)
                if file is not None and Path(file).is_relative_to(folder):
                    del sys.modules[name]
