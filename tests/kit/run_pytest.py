"""pytest in a process that ends with pytest's own exit status, in spite of livekit's threads (`run_process`)."""

from __future__ import annotations

import sys

import pytest

from vivavoce.pipelines.core.process_end import run_process

if __name__ == "__main__":
    run_process(lambda: sys.exit(pytest.main()))
