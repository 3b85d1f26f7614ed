"""Maps the top-level folders to subpackages of the implicit namespace `vivavoce`; all else is in pyproject.toml."""

from __future__ import annotations

import sys

from setuptools import find_namespace_packages, setup

PYTHON = (3, 11)
"""As `requires-python` says. With that alone, pip 23 on Python 3.10 resolves dependencies for minutes first."""
TOP = ("agents", "pipelines", "plugins")


def check_python(version: tuple[int, ...]) -> None:
    """Refuse a Python that is too old, before pip resolves anything.

    Raises:
        SystemExit: pip shows its text.
    """
    if version[:2] < PYTHON:
        needed, got = (".".join(map(str, number)) for number in (PYTHON, version[:2]))
        raise SystemExit(
            f"vivavoce needs Python {needed} or newer, got {got}; make an environment with a newer one, "
            f"such as `python{needed} -m venv .venv`, and install it there"
        )


if __name__ == "__main__":
    check_python(sys.version_info[:2])
    # plugins/ has no __init__.py (third parties add to it). A folder of files, such as agents/page/static, counts as a
    # package: setuptools warns of one that is not listed.
    setup(
        packages=[f"vivavoce.{t}" for t in TOP if t != "plugins"]
        + [f"vivavoce.{t}.{p}" for t in TOP for p in find_namespace_packages(t)],
        package_dir={f"vivavoce.{t}": t for t in TOP},
    )
