"""A caller who speaks while a session in real time still starts, in a process that has loaded nothing yet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "first_words.py"


@pytest.mark.timeout(60)
def test_the_first_words_are_heard_though_the_start_is_a_cold_one() -> None:
    ran = subprocess.run([sys.executable, str(SCRIPT), "--one"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
