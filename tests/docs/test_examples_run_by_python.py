"""An example that is an app reports the right command if `python` runs it, and does not end with success."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
APPS = sorted(
    path.name
    for path in EXAMPLES.glob("*.py")
    if re.search(r"^(async def entrypoint|    def pipeline)\(", path.read_text(encoding="utf-8"), flags=re.M)
)


@pytest.mark.parametrize("name", [name for name in APPS if name != "hello.py"])  # which the README shows whole
def test_an_app_that_python_runs_says_what_runs_it(name: str) -> None:
    with pytest.raises(SystemExit, match=re.escape(f"vivavoce dev examples/{name}")):
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")


def test_the_apps_are_found() -> None:
    assert {"hello.py", "realtime_agent.py", "table_booking.py"} <= set(APPS)
