"""docs/providers.md is up to date, and its snippet names parts that there are."""

from __future__ import annotations

import re

import pytest
from docs.providers_reference import TARGET, render

KEYS = ("DEEPGRAM_API_KEY", "ANTHROPIC_API_KEY", "CARTESIA_API_KEY")


def test_the_page_is_up_to_date() -> None:
    assert TARGET.read_text(encoding="utf-8") == render(), "plugins or their facts have changed: make reference"


def test_the_snippet_makes_a_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, "a-key")
    (snippet,) = re.findall(r"^```python\n(.*?)^```", TARGET.read_text(encoding="utf-8"), flags=re.M | re.S)
    made: dict[str, object] = {}
    exec(compile(snippet, str(TARGET), "exec"), made)
    assert made["pipeline"]
