"""examples/either_pipeline.py in virtual time: the same agent, the same conversation, on both pipelines."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from vivavoce.agents.testing import SessionHarness

EXAMPLE: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "either_pipeline.py"))


@pytest.mark.parametrize("kind", ["cascading", "realtime"])
def test_the_host_books_a_table_on_either_pipeline(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    harness = SessionHarness(EXAMPLE["Host"](), pipeline=EXAMPLE["make_pipeline"](kind))
    harness.caller.makes_noise(2.0, 2.5)
    harness.run(until=6.0)
    harness.expect_history(
        ("assistant", "Hello! For which day?"), ("user", "on friday"), ("assistant", "Your table is booked.")
    )
    harness.expect_tools(("book", "booked: friday")).expect_outcomes("completed", "completed")


@pytest.mark.parametrize(
    ("kind", "parts"), [("cascading", ["stt", "llm", "tts", "vad"]), ("realtime", ["realtime_model", "vad"])]
)
def test_with_a_key_the_parts_are_those_of_a_provider(
    kind: str, parts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-key")
    pipeline = EXAMPLE["make_pipeline"](kind)
    components = pipeline.capabilities.components
    assert [name for name, _, _ in components] == parts
    assert {provider for name, provider, _ in components if name != "vad"} == {"openai"}
