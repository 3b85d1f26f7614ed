"""`vivavoce call` places real calls: it passes against an agent as it should be, and catches one that is not."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from kit.cli import in_this_process
from kit.e2e.called_agent import running_agent
from kit.e2e.caller_command import call, checks
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.working import Working
from vivavoce.agents.cli.app_file import load_app, with_options
from vivavoce.pipelines.media.wav import read_wav

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(150)]

EARS = pytest.mark.test_all("a recogniser may mishear a word on a busy machine")

ROOT = Path(__file__).parents[2]
SCRIPT = """
[ears]
words = "transcription"
[greeting_expect]
words = "for which day"
[[steps]]
say = "table for friday please"
expect = { words = "at what time", within = 2.0 }
[[steps]]
say = "at seven"
expect = { words = "let me read" }
[[steps]]
say = "stop please"
barge_in_after = 2.0
expect = { silent_within = 1.5, words = "certainly" }
"""


@EARS
@pytest.mark.both_servers
async def test_an_agent_as_it_should_be_passes(room_server: RoomEndpoint, room_name: str, tmp_path: Path) -> None:
    async with running_agent(room_server, room_name):
        status, printed, result = await call(
            room_server, tmp_path, "--room", room_name, "--agent-name", room_name, script=SCRIPT
        )
    assert status == 0, printed
    assert set(checks(result).values()) == {True}
    assert len(checks(result)) == 6
    (one,) = result["calls"]
    assert one["room"] == room_name
    assert [line["line"] for line in one["lines"]] == [
        "(greeting)",
        "table for friday please",
        "at seven",
        "stop please",
    ]
    assert 0 < one["lines"][1]["latency"] <= 2.0
    assert 0 < one["lines"][3]["silenced"] <= 1.5

    both = read_wav(tmp_path / "out" / "call.wav").to_numpy().astype(np.float64)
    line = one["lines"][1]
    spoken = both[round(line["start"] * 16_000) : round(line["end"] * 16_000)]
    caller, agent = np.sqrt(np.mean(spoken**2, axis=0))
    assert caller > 10 * max(agent, 1.0)  # left is the caller, right the agent
    assert "1 of 1 calls passed" in printed


@EARS
async def test_the_script_of_the_docs_passes_against_the_readme_s_agent(
    embedded_room: RoomEndpoint, room_name: str, tmp_path: Path
) -> None:
    (script,) = re.findall(
        r"^```toml\n(.*?)^```", (ROOT / "docs/start.md").read_text(encoding="utf-8"), flags=re.M | re.S
    )
    account = {"url": embedded_room.url, "api_key": embedded_room.api_key, "api_secret": embedded_room.api_secret}
    hello = load_app(ROOT / "examples/hello.py").worker
    async with Working(with_options(hello, **account, agent_name=room_name, health_port=None, health_host=None)):
        status, printed, result = await call(
            embedded_room, tmp_path, "--room", room_name, "--agent-name", room_name, script=script
        )
    assert status == 0, printed
    assert [line["line"] for line in result["calls"][0]["lines"]] == ["(greeting)", "on friday", "at seven", "goodbye"]
    assert len(checks(result)) == 6


@EARS
@pytest.mark.parametrize(
    ("fault", "broken"),
    [
        ("ignores barge-ins", "stop please: silent within 1.5 s of the barge-in"),
        ("late", "table for friday please: answers within 2 s"),
        ("says something else", "table for friday please: says 'at what time'"),
    ],
)
async def test_an_agent_that_is_not_as_it_should_be_is_caught(
    embedded_room: RoomEndpoint, room_name: str, tmp_path: Path, fault: str, broken: str
) -> None:
    async with running_agent(embedded_room, room_name, fault):
        status, printed, result = await call(
            embedded_room, tmp_path, "--room", room_name, "--agent-name", room_name, script=SCRIPT
        )
    assert status == 1, printed
    assert checks(result)[broken] is False, printed
    assert result["passed"] is False


@EARS
async def test_several_calls_at_a_time_are_judged_one_by_one(
    embedded_room: RoomEndpoint, room_name: str, tmp_path: Path
) -> None:
    script = "[[steps]]\nsay = 'table for friday please'\nexpect = { within = 3.0 }\n"
    arguments = ("--room", room_name, "--agent-name", room_name, "--repeat", "3", "--parallel", "2")
    async with running_agent(embedded_room, room_name):
        status, printed, result = await call(embedded_room, tmp_path, *arguments, script=script)
    assert status == 0, printed
    assert (result["calls_placed"], result["calls_passed"]) == (3, 3)
    assert [one["room"] for one in result["calls"]] == [f"{room_name}-{number}" for number in (1, 2, 3)]
    assert all(read_wav(Path(one["recording"])).num_channels == 2 for one in result["calls"])
    assert 0 < result["latency"]["median"] <= result["latency"]["max"]


async def test_a_call_that_nobody_answers_fails_in_words(
    embedded_room: RoomEndpoint, room_name: str, tmp_path: Path
) -> None:
    status, printed, result = await call(
        embedded_room, tmp_path, "--room", room_name, "--answer-limit", "1", script=SCRIPT
    )
    assert status == 1
    assert "no agent answered the call" in printed
    assert "`vivavoce dev` has none until its file loads" in " ".join(printed.split())
    assert result["calls"][0]["problem"].startswith("no agent answered")


@pytest.mark.parametrize(
    ("script", "arguments", "status", "said"),
    [
        ("[[steps]]\nsay = 'hi'\nexpect = { words = 'hello' }", [], 1, "error: the script .* has 1 mistake"),
        ("[[steps]]\nsay = 'hi'", ["--url", "nonsense"], 1, "nonsense"),
        ("[[steps]]\nsay = 'hi'", ["--url", "ws://127.0.0.1:1"], 1, "no room answers at ws://127.0.0.1:1; start"),
        ("[[steps]]\nsay = 'hi'", ["--repeat", "0"], 2, "--repeat"),
        ("[[steps]]\nsay = 'hi'", ["--out", "/dev/null/x"], 1, "cannot write to the folder"),
        ("[voice]\noptions = { speed = 3 }\n[[steps]]\nsay = 'hi'", [], 1, "do not fit espeak.TTS"),
    ],
)
def test_wrong_input_is_told_in_words_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], script: str, arguments: list[str], status: int, said: str
) -> None:
    (tmp_path / "call.toml").write_text(script)
    vivavoce = in_this_process(capsys)
    found, printed = vivavoce("call", "call.toml", *arguments, cwd=tmp_path, env={"COLUMNS": "200"})
    assert found == status, printed
    assert "Traceback" not in printed
    assert re.search(said, printed), printed
