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
patience = 30
[ears]
words = "transcription"
[greeting_expect]
words = "which day"
[[steps]]
say = "on friday"
expect = { words = "at what time" }
[[steps]]
say = "at seven"
pause = 10
expect = { words = "the new code booked friday at seven" }
"""


async def test_a_save_in_the_middle_of_a_scripted_call_is_no_end_of_it(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / "call.toml").write_text(SCRIPT)
    with running(tmp_path, "dev", "app.py", "--port", "0") as dev:
        dev.read_until("registered")
        account = ("--url", url_of(dev), "--api-key", DEV_API_KEY, "--api-secret", DEV_API_SECRET)
        with running(tmp_path, "call", "call.toml", *account, "--out", "out") as call:
            await seen(dev, "At what time?")
            write_app(tmp_path, "v2", "The new code booked")
            await seen(dev, "The new code talks now")
            assert "at seven" not in call.seen, "the save took longer than the caller's pause"
            await asyncio.to_thread(call.process.wait, 60)
            await seen(call, "calls passed")
            assert call.process.returncode == 0, call.seen
        assert dev.end(signal.SIGINT) == 0
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["calls"][0]["ended_by"] == "caller"
    assert "agent leaves" not in call.seen  # the new one has been there before the old one went
