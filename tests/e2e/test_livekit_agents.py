"""A worker written with livekit-agents holds a call with `vivavoce call`, through both servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.e2e.caller_command import call, checks
from kit.e2e.livekit_agents_worker import livekit_agents_worker
from kit.e2e.room_endpoint import RoomEndpoint

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(170),
    pytest.mark.test_all(
        "real ears on both sides: on a busy machine a recogniser mishears, and the peer's agent answers late"
    ),
]

SCRIPT = """
[ears]
words = "transcription"
[greeting_expect]
words = "for which day"
[[steps]]
say = "table for friday please"
expect = { words = "at what time", within = 4.0 }
[[steps]]
say = "at seven"
expect = { words = "let me read" }
[[steps]]
say = "stop please"
barge_in_after = 2.0
expect = { silent_within = 2.0, words = "certainly" }
"""


async def test_a_livekit_agents_worker_is_called_answers_and_is_interrupted(
    room_server: RoomEndpoint, room_name: str, tmp_path: Path
) -> None:
    async with livekit_agents_worker(room_server, room_name, tmp_path) as log:
        arguments = ("--room", room_name, "--agent-name", room_name)
        status, printed, result = await call(room_server, tmp_path, *arguments, script=SCRIPT)
    assert status == 0, printed + log.read_text()[-3000:]
    assert len(checks(result)) == 6
