"""Which tests a run wants."""

from __future__ import annotations

import os

ALL = "VIVAVOCE_TEST_TWINS"
"""Set to 1 by `make test-all`: every test runs, and those that can on both servers."""


def all_are_wanted() -> bool:
    """Return whether the run is that of `make test-all`."""
    return os.environ.get(ALL) == "1"
