"""`vivavoce dev` and `vivavoce call` together: a save in the middle of a scripted call, and the script continues."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from kit.e2e.command import running
from kit.e2e.dev_app import seen, url_of, write_app, write_folder
from vivavoce.agents.dev_room import DEV_API_KEY, DEV_API_SECRET

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(180),
    pytest.mark.test_all("a recogniser may mishear a word on a busy machine"),
]

SCRIPT = """
patience = 60
[ears]
words = "transcription"
[greeting_expect]
words = "which day"
[[steps]]
say = "on friday"
expect = { words = "at what time" }
[[steps]]
say = "at seven"
pause = PAUSE
expect = { words = "the new code booked friday at seven" }
"""


PAUSES = (10, 20, 40)
"""Seconds that the caller waits for the save. A busy machine takes longer than the first; no other sign holds it."""


async def test_a_save_in_the_middle_of_a_scripted_call_is_no_end_of_it(tmp_path: Path) -> None:
    for pause in PAUSES:
        folder = tmp_path / str(pause)
        folder.mkdir()
        if await is_saved_in_the_middle(folder, pause):
            break
    else:
        pytest.fail(f"no save was over within {PAUSES[-1]} s")
    result = json.loads((folder / "out" / "result.json").read_text())
    assert result["calls"][0]["ended_by"] == "caller"


async def is_saved_in_the_middle(folder: Path, pause: int) -> bool:
    """Save in the caller's pause; return False if the pause was over before the new code had the call."""
    write_folder(folder)
    (folder / "call.toml").write_text(SCRIPT.replace("PAUSE", str(pause)))
    with running(folder, "dev", "app.py", "--port", "0") as dev:
        dev.read_until("registered")
        account = ("--url", url_of(dev), "--api-key", DEV_API_KEY, "--api-secret", DEV_API_SECRET)
        with running(folder, "call", "call.toml", *account, "--out", "out") as call:
            await seen(dev, "At what time?")
            write_app(folder, "v2", "The new code booked")
            await seen(dev, "The new code talks now")
            if "at seven" in call.seen:
                return False
            await asyncio.to_thread(call.process.wait, pause + 60)
            await seen(call, "calls passed")
            assert call.process.returncode == 0, call.seen
            assert "agent leaves" not in call.seen  # the new one has been there before the old one went
        assert dev.end(signal.SIGINT) == 0
    return True
