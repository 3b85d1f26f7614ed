"""docs/telephony.md: its tests pass beside the examples."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "telephony.md").read_text(encoding="utf-8")
(TESTS,) = (block for block in re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.M | re.S) if "def test_" in block)


@pytest.mark.parametrize("name", re.findall(r"^def (test_\w+)", TESTS, flags=re.M))
def test_a_test_of_the_page_passes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    shown: dict[str, Any] = {"__name__": "shown"}
    exec(TESTS, shown)
    shown[name]()
