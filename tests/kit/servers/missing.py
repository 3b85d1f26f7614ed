"""A test without a component that it needs: skipped with one line, or failed if everything must be there."""

from __future__ import annotations

from typing import NoReturn

import pytest

from kit.wanted import NO_SKIPS, nothing_may_be_missing


def missing(component: str, how: str) -> NoReturn:
    """Skip the running test, or fail it where nothing may be missing.

    Args:
        component: The missing component, for example `"chromium"`.
        how: The remedy, for example `"apt install chromium"`.
    """
    line = f"{component} is missing: {how}"
    if nothing_may_be_missing():
        pytest.fail(f"{line} ({NO_SKIPS}=1 allows no skip)", pytrace=False)
    pytest.skip(line)
