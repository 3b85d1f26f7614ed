"""Every scenario can run traced too: nothing of the call may differ, and its spans must add up.

`make test` and CI ask for it (`VIVAVOCE_TRACED_SCENARIOS=1`), as it doubles the time of a quick run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from telemetry_kit import Watching

WAYS = ["plain", "traced"] if os.environ.get("VIVAVOCE_TRACED_SCENARIOS") == "1" else ["plain"]


@pytest.fixture(autouse=True, params=WAYS)
def watched(request: pytest.FixtureRequest) -> Iterator[None]:
    """Trace the sessions of the test, and check their spans when it is over."""
    if request.param == "plain":
        yield
        return
    watching = Watching()
    with watching.everywhere():
        yield
    watching.check()
