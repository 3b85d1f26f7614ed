"""A project of a user: its tests and scripts run in this process, in a folder of their own."""

from __future__ import annotations

import gc
import os
import runpy
import sys
import warnings
from pathlib import Path

import pytest

from kit.own_process import restored

PLUGINS_OF_THE_SUITE = ("asyncio", "anyio", "hypothesispytest", "timeout")
PLUGINS_OF_THE_PROCESS = ("faulthandler", "cacheprovider", "unraisableexception")
"""They change this process. The suite's own run reports exceptions that nothing could raise."""
BLOCKED = (*PLUGINS_OF_THE_SUITE, *PLUGINS_OF_THE_PROCESS)
"""Plugins that a project names if it wants them."""


def run_pytest(folder: Path, *arguments: str, ini: str = "", capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run pytest on a folder, with none of this repository's settings; return its status and all that it printed."""
    (folder / "pytest.ini").write_text(f"[pytest]\n{ini}", encoding="utf-8")
    blocked = [argument for name in BLOCKED for argument in ("-p", f"no:{name}")]
    # Plugins are loaded before the run, so that their assertions cannot be rewritten; a fresh process says nothing.
    loaded = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    capsys.readouterr()
    gc.collect()  # garbage of earlier tests is not the project's
    with restored(folder):
        _enter(folder)
        status = pytest.main(["-q", f"--rootdir={folder}", *blocked, *loaded, *arguments, str(folder)])
    printed = capsys.readouterr()
    return int(status), printed.out + printed.err


def run_script(script: Path, *, folder: Path | None = None, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a script as the main module, with warnings as errors; return what it printed, which must not be an error."""
    folder = folder or script.parent
    capsys.readouterr()
    with restored(folder):
        _enter(folder)
        warnings.simplefilter("error")
        sys.path.insert(0, str(script.parent))
        runpy.run_path(str(script), run_name="__main__")
    printed = capsys.readouterr()
    assert printed.err == "", printed.err
    return printed.out


def _enter(folder: Path) -> None:
    os.chdir(folder)
    os.environ["COLUMNS"] = "80"
    os.environ.pop("PYTEST_ADDOPTS", None)
