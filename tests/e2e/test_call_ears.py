"""`vivavoce call` by a caller with ears of its own: by a grammar, where it is a recording, and for any English."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kit.e2e.called_agent import running_agent
from kit.e2e.caller_command import call, checks
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.talker import RATE, record
from kit.e2e.working import Working
from vivavoce.agents.cli.app_file import load_app, with_options
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.wav import write_wav

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(150),
    pytest.mark.test_all("a recogniser may mishear a word on a busy machine"),
]

ROOT = Path(__file__).parents[2]
GRAMMAR = """#JSGF V1.0;
grammar host;
public <utterance> = [ hello ] for which day would you like a table
                   | hello
                   | at what time
                   | goodbye
                   | [ i am ] sorry that did not work;
"""
SCRIPT = """
[ears]
words = "grammar"
grammar = "host.gram"
[greeting_expect]
words = "for which day"
[[steps]]
play = "friday.wav"
expect = { words = "at what time", not_words = "goodbye", within = 9.0 }
"""
GENERAL = """
[ears]
words = "general"
[greeting_expect]
words = "which day"
[[steps]]
say = "on friday"
expect = { words = "at what time" }
[[steps]]
say = "at seven"
expect = { words = ["booked", "friday"] }
"""


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A folder with the caller's line as a stereo recording, whose second channel is silent, and the grammar."""
    (pcm,) = (await record(["table for friday please"])).values()
    left = np.frombuffer(pcm, dtype=np.int16)
    both = np.stack([left, np.zeros_like(left)], axis=1)
    write_wav(tmp_path / "friday.wav", AudioFrame(both.tobytes(), RATE, 2))
    (tmp_path / "host.gram").write_text(GRAMMAR)
    return tmp_path


@pytest.mark.parametrize(("fault", "passes"), [("", True), ("says something else", False)])
async def test_a_recording_is_played_and_the_answer_understood_by_a_grammar(
    embedded_room: RoomEndpoint, room_name: str, folder: Path, fault: str, passes: bool
) -> None:
    async with running_agent(embedded_room, room_name, fault):
        arguments = ("--room", room_name, "--agent-name", room_name)
        status, printed, result = await call(embedded_room, folder, *arguments, script=SCRIPT)
    assert status == (0 if passes else 1), printed
    found = checks(result)
    line = f"<{folder / 'friday.wav'}>"
    assert found["(greeting): says 'for which day'"] is True, printed
    assert found[f"{line}: says 'at what time'"] is passes
    assert found[f"{line}: does not say 'goodbye'"] is True
    (one,) = result["calls"]
    assert one["lines"][1]["heard"] == ("at what time" if passes else "i am sorry that did not work")


async def test_any_english_is_heard_without_a_grammar_and_without_captions(
    embedded_room: RoomEndpoint, room_name: str, tmp_path: Path
) -> None:
    account = {"url": embedded_room.url, "api_key": embedded_room.api_key, "api_secret": embedded_room.api_secret}
    hello = load_app(ROOT / "examples/hello.py").worker
    async with Working(with_options(hello, **account, agent_name=room_name, health_port=None, health_host=None)):
        arguments = ("--room", room_name, "--agent-name", room_name)
        status, printed, result = await call(embedded_room, tmp_path, *arguments, script=GENERAL)
    assert status == 0, printed
    assert len(checks(result)) == 4
