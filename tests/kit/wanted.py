"""What a run of tests wants: `make test`, or every test (`make test-all`), and whether one may be skipped."""

from __future__ import annotations

import os

SUITE = "VIVAVOCE_SUITE"
"""Environment variable; `make test-all` sets it to `all`: every test runs, on both servers where it can."""

NO_SKIPS = "VIVAVOCE_NO_SKIPS"
"""Environment variable; `1`, as in CI, turns a skip for a missing component into a failure."""


def all_are_wanted() -> bool:
    """Return whether the run is that of `make test-all`."""
    return os.environ.get(SUITE) == "all"


def nothing_may_be_missing() -> bool:
    """Return whether a test fails if a component that it needs is missing."""
    return os.environ.get(NO_SKIPS) == "1"
