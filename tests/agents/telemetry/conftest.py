"""Tests of telemetry leave no export behind that continues in the next test."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

LIMIT = 60.0


@pytest.fixture(autouse=True)
def exports_end() -> Iterator[None]:
    """Wait for an export that its session gave up: it logs, and draws random pauses, until it ends."""
    yield
    for thread in threading.enumerate():
        if thread.name == "vivavoce telemetry flush":
            thread.join(LIMIT)
            assert not thread.is_alive()
