"""Which files of the checkout the house rules are about."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from house_rules import rules

Rule = Callable[[str], list[str]]

ROOT = rules.ROOT
PRODUCT = ("agents", "pipelines", "plugins")


def files() -> list[Path]:
    """Return every file that git tracks or would track, relative to the root; symlinks are left out."""
    listed = subprocess.run(
        # A container's checkout may belong to another user; listing it is harmless.
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    paths = [Path(name) for name in listed.stdout.split("\0") if name]
    return sorted({path for path in paths if (ROOT / path).is_file() and not (ROOT / path).is_symlink()})


def python(*folders: str) -> list[Path]:
    """Return the Python files under these top-level folders."""
    return [path for path in files() if path.suffix == ".py" and path.parts[0] in folders]


def broken(rule: Rule, paths: Iterable[Path]) -> list[str]:
    """Return one line, `path:line: what`, for each place that breaks the rule."""
    if rule in rules.PARSING:
        return [f"{path}:{what}" for path in paths for what in _found(path)[rule]]
    return [f"{path}:{what}" for path in paths for what in rule((ROOT / path).read_text())]


@cache
def _found(path: Path) -> dict[Rule, list[str]]:
    """Return the breaches of each rule that parses; all of them in a row, so that the file is parsed once."""
    source = (ROOT / path).read_text()
    return {rule: rule(source) for rule in rules.PARSING}
