"""`make demo` and `make dev` on machines where uv does not serve: pip installs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from house_rules.tree import ROOT

PYTHON = """#!/bin/sh
echo "python $*" >> asked
case "$*" in *" uv") {uv};; esac
"""
UV = """#!/bin/sh
echo "uv $*" >> asked
exit {status}
"""


def asked(folder: Path, target: str, *, uv: str, status: int) -> list[str]:
    """Return the requests to python and uv with which `make` reaches a target.

    Args:
        uv: The shell command that stands for the installation of uv.
        status: Of uv.
    """
    shutil.copy(ROOT / "Makefile", folder)
    for name in ("pyproject.toml", "setup.py", "plugins/x", ".ci/constraints.txt", ".venv/bin/python", ".venv/bin/uv"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    for name, text in (("python", PYTHON.format(uv=uv)), ("uv", UV.format(status=status))):
        program = folder / ".venv/bin" / name
        program.write_text(text)
        program.chmod(0o755)
    subprocess.run(["make", target], cwd=folder, check=True, capture_output=True)
    return (folder / "asked").read_text().splitlines()


@pytest.mark.parametrize(("target", "extra"), [(".venv/.demo", ".[demo]"), (".venv/.dev", ".[dev]")])
@pytest.mark.parametrize(("uv", "status"), [("exit 1", 0), ("true", 2)])
def test_pip_installs_where_uv_does_not(tmp_path: Path, target: str, extra: str, uv: str, status: int) -> None:
    wanted = asked(tmp_path, target, uv=uv, status=status)
    assert [line for line in wanted if line.startswith("python -m pip") and line.endswith(f"--editable {extra}")]


@pytest.mark.parametrize(("target", "extra"), [(".venv/.demo", ".[demo]"), (".venv/.dev", ".[dev]")])
def test_uv_installs_where_it_can(tmp_path: Path, target: str, extra: str) -> None:
    wanted = asked(tmp_path, target, uv="true", status=0)
    assert [line for line in wanted if line.startswith("python") and not line.endswith(" uv")] == []
    assert [line for line in wanted if line.startswith("uv pip install") and line.endswith(f"--editable {extra}")]
