"""The fixture of tests that hold on both pipelines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.each_pipeline import harness_on
from kit.realtime import text_realtime_of


@pytest.fixture(params=["cascading", "realtime"])
def each_pipeline(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run the test on a cascade, and on a realtime model that answers with text for the test's own voice."""
    if request.param == "cascading":
        yield
        return
    with harness_on(text_realtime_of, monkeypatch):
        yield
