"""`vivavoce call` and an agent that leaves: the call ends at once and says why, or passes where it may."""

from __future__ import annotations

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from livekit import api

from kit.e2e.called_agent import running_agent
from kit.e2e.caller_command import call, checks
from kit.e2e.command import running
from kit.e2e.dev_app import seen
from kit.e2e.listener import listening
from kit.e2e.room_endpoint import RoomEndpoint
from vivavoce.agents.cli.call.run import CALLER_IDENTITY

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(150),
    pytest.mark.test_all("a recogniser may mishear a word on a busy machine"),
]

EARS = '[ears]\nwords = "transcription"\n'
TWO_LINES = """
[[steps]]
say = "table for friday please"
{expect}
[[steps]]
say = "at seven"
"""
LONG = 60.0
"""Seconds that no call here takes, on a loaded machine either; the limit of a call is 300."""


async def called(
    room: RoomEndpoint, name: str, folder: Path, script: str, *, fault: str
) -> tuple[int, str, dict[str, Any]]:
    async with running_agent(room, name, fault):
        began = time.monotonic()
        status, printed, result = await call(room, folder, "--room", name, "--agent-name", name, script=script)
        assert time.monotonic() - began < LONG, printed
    (one,) = result["calls"]
    assert one["passed"] is (status == 0)
    assert ("agent leaves" in printed) is (one["ended_by"] == "agent")
    return status, printed, result


async def test_an_agent_that_leaves_before_the_script_is_over_fails_the_call_at_once(
    room_server: RoomEndpoint, room_name: str, tmp_path: Path
) -> None:
    script = TWO_LINES.format(expect="")
    status, printed, result = await called(room_server, room_name, tmp_path, script, fault="leaves")
    (one,) = result["calls"]
    assert status == 1
    assert one["problem"] == "the agent left before the script was over, after 'table for friday please'"
    assert one["problem"] in printed
    assert one["ended_by"] == "agent"


async def test_an_agent_that_deletes_the_room_has_left(
    embedded_room: RoomEndpoint, room_name: str, tmp_path: Path
) -> None:
    script = "takeover = 600\n" + TWO_LINES.format(expect="")
    _, printed, result = await called(embedded_room, room_name, tmp_path, script, fault="deletes the room")
    (one,) = result["calls"]
    assert one["problem"].startswith("the agent left before the script was over"), printed


async def test_an_agent_that_may_leave_says_goodbye_and_the_call_has_passed(
    embedded_room: RoomEndpoint, room_name: str, tmp_path: Path
) -> None:
    script = EARS + TWO_LINES.format(expect='expect = { may_leave = true, words = "goodbye" }')
    status, printed, result = await called(embedded_room, room_name, tmp_path, script, fault="says goodbye and leaves")
    (one,) = result["calls"]
    assert status == 0, printed
    assert one["ended_by"] == "agent"
    assert [line["line"] for line in one["lines"]] == ["(greeting)", "table for friday please"]
    assert set(checks(result).values()) == {True}


@pytest.mark.parametrize("fault", ["says goodbye and leaves", ""])
async def test_an_agent_that_must_leave_is_held_to_it(
    embedded_room: RoomEndpoint, room_name: str, tmp_path: Path, fault: str
) -> None:
    script = "[[steps]]\nsay = 'table for friday please'\nexpect = { leaves_within = 8 }\n"
    status, printed, result = await called(embedded_room, room_name, tmp_path, script, fault=fault)
    (one,) = result["calls"]
    assert status == (0 if fault else 1), printed
    assert one["ended_by"] == ("agent" if fault else "caller")
    assert checks(result) == {"table for friday please: leaves within 8 s": bool(fault)}


async def test_a_call_that_takes_too_long_says_so(embedded_room: RoomEndpoint, room_name: str, tmp_path: Path) -> None:
    script = "limit = 1.5\n" + TWO_LINES.format(expect="")
    status, printed, result = await called(embedded_room, room_name, tmp_path, script, fault="")
    (one,) = result["calls"]
    assert status == 1
    assert one["problem"] == "the call took longer than its limit of 1.5 s", printed
    assert one["ended_by"] == "limit"


async def test_a_caller_whose_place_is_taken_says_that_it_was_not_the_agent(
    embedded_room: RoomEndpoint, room_name: str, tmp_path: Path
) -> None:
    (tmp_path / "call.toml").write_text(TWO_LINES.format(expect="expect = { may_leave = true }"))
    url, key, secret = embedded_room.url, embedded_room.api_key, embedded_room.api_secret
    account = ("--url", url, "--api-key", key, "--api-secret", secret)
    async with running_agent(embedded_room, room_name):
        arguments = ("call.toml", "--room", room_name, "--agent-name", room_name, *account)
        with running(tmp_path, "call", *arguments) as calling:
            await seen(calling, "table for friday please")
            async with listening(url, embedded_room.token(CALLER_IDENTITY, room_name)):
                assert await asyncio.to_thread(calling.process.wait, LONG) == 1
            await seen(calling, "0 of 1 calls passed")
    (one,) = json.loads((tmp_path / "call" / "result.json").read_text())["calls"]
    assert one["problem"] == "the connection to the room was lost (duplicate_identity)"
    assert one["ended_by"] == "room"


async def test_the_script_goes_on_with_another_agent_that_takes_over(
    embedded_room: RoomEndpoint, room_name: str, tmp_path: Path
) -> None:
    script = "takeover = 60\npatience = 40\n" + TWO_LINES.format(expect="") + "expect = { may_leave = true }\n"
    (tmp_path / "call.toml").write_text(script)
    url, key, secret = embedded_room.url, embedded_room.api_key, embedded_room.api_secret
    account = ("--url", url, "--api-key", key, "--api-secret", secret)
    async with running_agent(embedded_room, room_name, "leaves"):
        arguments = ("call.toml", "--room", room_name, "--agent-name", room_name, *account)
        with running(tmp_path, "call", *arguments) as calling:
            await seen(calling, "agent leaves")
            async with api.LiveKitAPI(url, key, secret) as server:
                wanted = api.CreateAgentDispatchRequest(agent_name=room_name, room=room_name)
                await server.agent_dispatch.create_dispatch(wanted)
            await seen(calling, "1 of 1 calls passed")
    (one,) = json.loads((tmp_path / "call" / "result.json").read_text())["calls"]
    assert one["ended_by"] == "agent"
    assert [line["line"] for line in one["lines"]] == ["(greeting)", "table for friday please", "at seven"]
    assert one["lines"][1]["latency"] is not None, "the one that took over was heard"
    told = re.findall(r"^ +(caller|agent leaves|agent is back)\b", calling.seen, re.MULTILINE)
    assert told == ["caller", "agent leaves", "agent is back", "caller", "agent leaves"]
