"""Which suite runs: `make test`, or `make test-all`, which holds every test."""

from __future__ import annotations

import os

SUITE = "VIVAVOCE_SUITE"
"""Environment variable; `make test-all` sets it to `all`: every test runs, on both servers where it can."""


def all_are_wanted() -> bool:
    """Return whether the run is that of `make test-all`."""
    return os.environ.get(SUITE) == "all"
