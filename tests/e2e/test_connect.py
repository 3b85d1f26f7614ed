"""`vivavoce connect`: an agent in a named room without dispatch, on both servers; and doctor on a real server."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import pytest

from kit.cli import in_this_process
from kit.e2e.command import running
from kit.e2e.listener import listening
from kit.e2e.room_endpoint import RoomEndpoint

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

HELLO = Path(__file__).parents[2] / "examples/hello.py"
AGENT = """
from vivavoce.agents import Agent


class Greeter(Agent):
    def __init__(self):
        super().__init__("Greet.")

    async def on_enter(self):
        await self.session.say("Good morning, whoever you are.")
"""


def account(server: RoomEndpoint) -> dict[str, str]:
    return {
        "LIVEKIT_URL": server.url,
        "LIVEKIT_API_KEY": server.api_key,
        "LIVEKIT_API_SECRET": server.api_secret,
    }


async def test_the_agent_joins_a_room_with_somebody_in_it_and_talks(
    room_server: RoomEndpoint, room_name: str, tmp_path: Path
) -> None:
    async with listening(room_server.url, room_server.token("caller", room_name)) as caller:
        with running(tmp_path, "connect", str(HELLO), "--room", room_name, **account(room_server)) as command:
            await caller.until(lambda: "Hello! For which day?" in caller.texts.values())
            assert caller.agents == [f"agent-{room_name}"]
            await caller.until(lambda: bool(caller.loud_at))
            await caller.room.local_participant.send_text("on friday", topic="lk.chat")
            await asyncio.to_thread(command.read_until, "At what time?")
            assert await asyncio.to_thread(command.end, signal.SIGINT) == 0
        await caller.until(lambda: caller.agents == [])
        assert command.family() == {}
        assert "on friday" in command.seen
        assert "Traceback" not in command.seen


async def test_an_agent_class_alone_is_enough(embedded_room: RoomEndpoint, room_name: str, tmp_path: Path) -> None:
    (tmp_path / "greeter.py").write_text(AGENT)
    arguments = ("connect", "greeter.py", "--room", room_name, "--identity", "greeter")
    async with listening(embedded_room.url, embedded_room.token("caller", room_name)) as caller:
        with running(tmp_path, *arguments, **account(embedded_room)) as command:
            await caller.until(lambda: "Good morning, whoever you are." in caller.texts.values())
            assert caller.agents == ["greeter"]
            await caller.room.local_participant.send_text("what can you do", topic="lk.chat")
            await caller.until(lambda: any("I heard you." in text for text in caller.texts.values()))
            assert command.end() == 0
    assert "has no method `pipeline()`" in command.seen


async def test_an_agent_that_hangs_up_ends_the_call_and_the_command(
    room_server: RoomEndpoint, room_name: str, tmp_path: Path
) -> None:
    (tmp_path / "greeter.py").write_text(AGENT + "        await self.session.hangup()\n")
    arguments = ("connect", "greeter.py", "--room", room_name, "--identity", "greeter")
    async with listening(room_server.url, room_server.token("caller", room_name)) as caller:
        over = asyncio.Event()
        caller.room.on("disconnected", lambda reason: over.set())
        with running(tmp_path, *arguments, **account(room_server)) as command:
            await asyncio.wait_for(over.wait(), 60.0)
            assert await asyncio.to_thread(command.process.wait, 30) == 0
        assert "Good morning, whoever you are." in caller.texts.values()


def test_an_agent_that_fails_is_said_so_by_the_status(
    embedded_room: RoomEndpoint, room_name: str, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(
        "async def entrypoint(ctx):\n    await ctx.connect()\n    raise KeyError('mine')\n"
    )
    with running(tmp_path, "connect", "app.py", "--room", room_name, **account(embedded_room)) as command:
        assert command.process.wait(timeout=60) == 1
        command.read_until("the agent failed")


@pytest.mark.both_servers
def test_doctor_finds_nothing_wrong_with_a_running_server(
    room_server: RoomEndpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, printed = in_this_process(capsys)("doctor", "--json", cwd=tmp_path, env=account(room_server))
    assert status == 0, printed
    found = {finding["name"]: finding for finding in json.loads(printed)}
    assert [found[name]["health"] for name in ("LiveKit server", "clock", "key and secret")] == ["ok"] * 3
    assert room_server.api_secret not in printed
