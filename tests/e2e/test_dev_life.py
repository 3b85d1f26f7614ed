"""`vivavoce dev` beyond one call: several calls moved at once, a process that dies, a LiveKit server that is given."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.e2e.command import Running, running
from kit.e2e.dev_app import DAYS, hears, seen, token_for, two_calls, url_of, write_app, write_folder
from kit.e2e.listener import Listener, listening
from kit.e2e.room_endpoint import RoomEndpoint
from kit.page.caller import calling

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path)
    return tmp_path


@pytest.fixture
def dev(folder: Path) -> Iterator[Running]:
    with running(folder, "dev", "app.py", "--port", "0") as command:
        command.read_until("registered")
        yield command


@pytest.mark.test_all("four sessions with ears of their own; make test holds a save in one call")
async def test_several_calls_are_moved_by_one_save_each_with_its_own_conversation(dev: Running, folder: Path) -> None:
    async with two_calls(dev) as callers:
        write_app(folder, "v2", "The new code booked")
        await seen(dev, "The new code talks now (2 calls moved)")
        for room, caller in callers.items():
            await caller.room.local_participant.send_text("at seven", topic="lk.chat")
            await hears(caller, f"The new code booked {DAYS[room]} at seven")
    log = (folder / "log.txt").read_text().splitlines()
    assert [line for line in log if "enter" in line.split()] == ["v1 enter"] * 2
    assert dev.end() == 0
    assert "Traceback" not in dev.seen
    assert dev.family() == {}


async def greeted(caller: Listener, times: int) -> None:
    await caller.until(lambda: sum("For which day?" in text for text in caller.texts.values()) == times)


def kill_agent(dev: Running) -> None:
    (pid,) = [pid for pid, line in dev.family().items() if "vivavoce.agents.cli.dev.child" in line]
    os.kill(pid, signal.SIGKILL)


async def test_a_process_that_dies_is_started_again_in_the_same_rooms(dev: Running, folder: Path) -> None:
    async with listening(url_of(dev), token_for(dev)) as caller:
        await hears(caller, "For which day?")
        kill_agent(dev)
        await seen(dev, "The agent's process died (killed by SIGKILL); it starts again in 1 s, or when you save.")
        await seen(dev, "It runs now. Begun again: the call in kitchen.")
        await greeted(caller, 2)
        await caller.room.local_participant.send_text("on friday at seven", topic="lk.chat")
        await hears(caller, "The old code booked friday at seven")
        log = (folder / "log.txt").read_text().splitlines()
        assert [line for line in log if "enter" in line.split()] == ["v1 enter", "v1 enter"]
    assert dev.end() == 0
    assert "Traceback" not in dev.seen
    assert dev.family() == {}


@pytest.mark.test_all("a busy machine may see the save only when the pause of 2 s is over")
async def test_a_save_ends_the_pause_before_a_process_that_died_starts_again(dev: Running, folder: Path) -> None:
    async with listening(url_of(dev), token_for(dev)) as caller:
        await hears(caller, "For which day?")
        kill_agent(dev)
        await seen(dev, "It runs now. Begun again: the call in kitchen.")
        await greeted(caller, 2)
        kill_agent(dev)  # within a minute: the pause is longer, and a save ends it
        await seen(dev, "it starts again in 2 s, or when you save.")
        write_app(folder, "v2", "The new code booked")
        await seen(dev, "It runs now. Begun again: the call in kitchen.", times=2)
        await greeted(caller, 3)
        await caller.room.local_participant.send_text("on friday at eight", topic="lk.chat")
        await hears(caller, "The new code booked friday at eight")
        log = (folder / "log.txt").read_text().splitlines()
        assert [line for line in log if "enter" in line.split()] == ["v1 enter", "v1 enter", "v2 enter"]
    assert dev.end() == 0


@pytest.mark.test_all("a browser beside a real server is slow on a busy machine")
async def test_on_a_given_server_the_page_is_served_and_meets_the_agent(
    folder: Path, livekit_room: RoomEndpoint, room_name: str
) -> None:
    account = {
        "LIVEKIT_URL": livekit_room.url,
        "LIVEKIT_API_KEY": livekit_room.api_key,
        "LIVEKIT_API_SECRET": livekit_room.api_secret,
    }
    name = f"dev-{room_name}"
    with running(folder, "dev", "app.py", "--port", "0", "--agent-name", name, **account) as dev:
        await seen(dev, f"registered as {name}")
        (page,) = re.findall(r"^page +(http\S+)", dev.seen, re.MULTILINE)
        async with calling(page) as caller:
            await caller.click("join-typing")
            await caller.caption("agent", "Hello! For which day?")
            await caller.type("on friday")
            await caller.caption("agent", "At what time?")
            write_app(folder, "v2", "The new code booked")
            await seen(dev, "The new code talks now (1 call moved)")
            await caller.type("at seven")
            await caller.until(
                "window.seen.some(([, text, isFinal]) => isFinal && text.startsWith('The new code booked friday at'))"
            )
            await caller.click("leave")
        assert dev.end() == 0
        assert livekit_room.api_secret not in dev.seen
        assert "Traceback" not in dev.seen


HANGS_UP = """
import asyncio

from vivavoce.agents import Agent, AgentSession
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.testing import ScriptedLLM, ScriptedTTS


class Host(Agent):
    async def on_enter(self):
        print("the call begins")

    async def on_exit(self):
        print("the call ends")
        await asyncio.Event().wait()


async def entrypoint(ctx):
    await AgentSession(Host("Be brief."), CascadingPipeline(llm=ScriptedLLM(), tts=ScriptedTTS())).start()
"""


async def test_a_save_while_a_call_ends_is_taken_by_the_new_code(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(HANGS_UP)
    with running(tmp_path, "dev", "app.py", "--port", "0") as dev:
        dev.read_until("registered")
        async with listening(url_of(dev), token_for(dev)):
            await seen(dev, "the call begins")
        await seen(dev, "the call ends")
        (tmp_path / "app.py").write_text(HANGS_UP.replace("Be brief", "Be kind"))
        await seen(dev, "The new code talks now (0 calls moved).")
        assert "The old code continues" not in dev.seen
        assert dev.seen.count("call in room") == 1
        assert dev.end() == 0
