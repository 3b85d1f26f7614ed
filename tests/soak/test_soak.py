"""Soak: twenty sessions at a time on the real clock with random actions, without growth, stuck states or lost words.

Half a minute in `make test-all`. By hand for longer, with a figure a minute:
`VIVAVOCE_SOAK_SECONDS=1800 VIVAVOCE_SUITE=all pytest tests/soak -s`. A failing run names its seed and the failing
session's trace. `VIVAVOCE_SOAK_SEED=…` draws the same sessions again (times are real, so they never run quite the same
way); `VIVAVOCE_TRACE=folder` keeps traces of failing sessions in that folder.
"""

from __future__ import annotations

import gc
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.soak.run import Soak

SECONDS = float(os.environ.get("VIVAVOCE_SOAK_SECONDS", "30"))
SEATS = int(os.environ.get("VIVAVOCE_SOAK_SEATS", "20"))
WARM_UP = min(300.0, SECONDS / 3)
"""Of those seconds, until the first measurement; single imports and caches are done by then."""

BLOCKS_PER_SESSION = 20
"""Memory blocks that may be held for each session that is gone; a leaked session holds thousands."""
BLOCKS_AT_ALL = 5_000
RSS_GROWTH = 12.0
"""MB: the allocator does not return fragmented memory."""


@pytest.fixture(autouse=True)
def frozen_heap() -> Iterator[None]:
    """Exempt the objects of 3,000 earlier tests from the collector: it would stop the real clock for half a second."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.soak
@pytest.mark.test_all("half a minute of the real clock, both cores busy")
@pytest.mark.timeout(SECONDS + 100)
async def test_random_sessions_leave_nothing_behind_and_keep_every_law(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL")  # provoked errors are logged too
    seed = os.environ.get("VIVAVOCE_SOAK_SEED") or secrets.token_hex(4)
    traces = Path(os.environ.get("VIVAVOCE_TRACE") or tempfile.mkdtemp(prefix="vivavoce-soak-"))
    print(f"soak: seed {seed}, {SEATS} seats, {SECONDS:g} s, traces of failing sessions in {traces}")
    soak = Soak(seed, SEATS, traces)

    def tell(line: str) -> None:
        print(f"soak: {line}", file=sys.stderr if SECONDS > 60 else sys.stdout, flush=True)

    before = await soak.run("warm-up", WARM_UP, tell)
    warm = sum(soak.lives.values())
    tell(f"at rest after {warm} sessions: {before}")
    after = await soak.run("main", SECONDS - WARM_UP, tell)
    count = sum(soak.lives.values())
    tell(f"at rest after {count} sessions: {after}")
    tell(f"ends {dict(soak.lives)}, turns {dict(soak.turns)}, provoked {dict(soak.provoked)}")
    assert count - warm >= SEATS
    assert (after.tasks, after.sessions) == (1, 0), after
    assert after.threads <= before.threads, (before, after)
    assert after.descriptors <= before.descriptors, (before, after)
    assert after.blocks - before.blocks <= BLOCKS_AT_ALL + BLOCKS_PER_SESSION * (count - warm), (before, after)
    assert after.rss - before.rss <= RSS_GROWTH, (before, after)
    if not os.listdir(traces):
        os.rmdir(traces)
