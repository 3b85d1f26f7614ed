"""A test without a component that it needs: skipped with one line, or failed if everything must be there."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

ALL_VARIABLE = "VIVAVOCE_TEST_ALL"
"""Environment variable; `1` turns a skip for a missing component into a failure."""


def missing(component: str, how: str) -> NoReturn:
    """Skip the running test, or fail it under `VIVAVOCE_TEST_ALL=1`.

    Args:
        component: The missing component, for example `"chromium"`.
        how: The remedy, for example `"apt install chromium"`.
    """
    line = f"{component} is missing: {how}"
    if os.environ.get(ALL_VARIABLE) == "1":
        pytest.fail(f"{line} ({ALL_VARIABLE}=1 allows no skip)", pytrace=False)
    pytest.skip(line)
