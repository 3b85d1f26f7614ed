"""`vivavoce dev`, whole: the embedded room, real processes, a caller who stays while the code is replaced."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from kit.e2e.command import Running, running
from kit.e2e.dev_app import hears, seen, token_for, url_of, write_app, write_folder
from kit.e2e.listener import listening
from kit.e2e.talker import record
from vivavoce.agents.job import FAILURE

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

END_LIMIT = 30.0
"""Seconds in which everything has ended, on a machine that may be loaded."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_folder(tmp_path)
    return tmp_path


@pytest.fixture
def dev(folder: Path) -> Iterator[Running]:
    with running(folder, "dev", "app.py", "--port", "0") as command:
        command.read_until("registered")
        yield command


def wait_for_nobody(command: Running, limit: float) -> None:
    """Wait until no process of the command is left."""
    while command.family() and time.monotonic() < limit:
        time.sleep(0.05)
    assert command.family() == {}


@pytest.mark.test_all("a recogniser may mishear a word")
async def test_a_save_keeps_the_caller_and_the_conversation_and_the_new_code_is_there_before_the_old_is_silent(
    dev: Running, folder: Path
) -> None:
    lines = await record(["at seven"])
    async with listening(url_of(dev), token_for(dev)) as caller:
        await hears(caller, "For which day?")
        await caller.room.local_participant.send_text("on friday", topic="lk.chat")
        await hears(caller, "At what time?")
        (first,) = caller.agents
        write_app(folder, "v2", "The new code booked")
        await seen(dev, "The new code talks now")
        await caller.until(lambda: len(caller.agents) == 1 and caller.agents != [first])
        (second,) = caller.agents
        await caller.until(lambda: bool(caller.heard.get(second)))
        print(f"{caller.heard[first][-1] - caller.came[second]:.3f} s before")
        assert caller.came[second] < caller.heard[first][-1]  # the seconds of silence: test_dev_measured.py
        await caller.speak(lines["at seven"])
        await hears(caller, "The new code booked friday at seven")
    assert "caller" in dev.seen
    await seen(dev, "call ended")
    assert dev.end() == 0
    log = (folder / "log.txt").read_text().splitlines()
    assert log == ["v1 enter", "v1 started ['entered']", "v2 started ['entered']", "v2 exit"]
    assert "Traceback" not in dev.seen
    assert dev.family() == {}


BROKEN = {
    "does not parse": ("x = (\n", "was never closed"),
    "does not import": ("import nosuchmodule\n", "nosuchmodule"),
    "raises": ("raise RuntimeError('mine, at import')\n", "mine, at import"),
}


async def test_a_broken_save_is_shown_and_the_old_code_goes_on(dev: Running, folder: Path) -> None:
    async with listening(url_of(dev), token_for(dev)) as caller:
        await hears(caller, "For which day?")
        agents = caller.agents
        shown: set[str] = set()
        caller.room.on("participant_attributes_changed", lambda changed, _: shown.update(changed))
        before, problem = BROKEN["raises"]
        write_app(folder, "v2", "The broken code booked", before=before)
        await seen(dev, problem)
        await seen(dev, "The old code continues.")
        # It loads, and fails only at the takeover of the call.
        text = (folder / "app.py").read_text().removeprefix(before)
        (folder / "app.py").write_text(text.replace("    tts = espeak.TTS()\n", "    raise KeyError('late')\n"))
        await seen(dev, "late")
        await seen(dev, "The old code continues.", times=2)
        assert caller.agents == agents
        await caller.room.local_participant.send_text("on friday at seven", topic="lk.chat")
        await hears(caller, "The old code booked friday at seven")
        assert FAILURE not in shown  # the caller has an agent, and is not concerned
        write_app(folder, "v3", "The mended code booked")
        await seen(dev, "The new code talks now")
        await caller.room.local_participant.send_text("at eight", topic="lk.chat")
        await hears(caller, "The mended code booked friday at eight")
    assert dev.end() == 0


@pytest.mark.test_all("each save starts a process; make test holds one broken save")
async def test_each_way_in_which_a_save_is_broken_is_shown_by_its_own_words(dev: Running, folder: Path) -> None:
    for number, (before, problem) in enumerate(BROKEN.values(), 1):
        write_app(folder, "v2", "The broken code booked", before=before)
        await seen(dev, problem)
        await seen(dev, "The old code continues.", times=number)


async def test_ctrl_c_in_a_call_ends_everything(dev: Running) -> None:
    async with listening(url_of(dev), token_for(dev)) as caller:
        await hears(caller, "For which day?")
        assert len(dev.family()) >= 3
        began = time.monotonic()
        os.killpg(dev.process.pid, signal.SIGINT)
        await asyncio.to_thread(dev.process.wait, 20)
    await asyncio.to_thread(wait_for_nobody, dev, began + END_LIMIT)
    assert dev.process.returncode == 0
    assert "Traceback" not in dev.seen


@pytest.mark.test_all("its seconds are judged, and a busy machine needs more of them")
async def test_ctrl_c_does_not_wait_for_the_watch_of_the_files(dev: Running, folder: Path) -> None:
    (folder / "notes.txt").write_text("no Python: it only has the watch begin a new wait of 5 s")
    await anyio.sleep(1.0)  # for the watch to see it, which shows nowhere
    began = time.monotonic()
    assert await asyncio.to_thread(dev.end) == 0
    assert time.monotonic() - began < 3.5


async def test_a_killed_dev_leaves_no_process_behind(dev: Running) -> None:
    dev.process.kill()
    await asyncio.to_thread(wait_for_nobody, dev, time.monotonic() + END_LIMIT)


async def test_a_caller_who_came_while_the_code_did_not_load_gets_the_agent_once_it_does(tmp_path: Path) -> None:
    write_folder(tmp_path)
    write_app(tmp_path, "v1", "It booked", before="x = (\n")
    with running(tmp_path, "dev", "app.py", "--port", "0") as command:
        await seen(command, "was never closed")
        await seen(command, "Mend it and save")
        async with listening(url_of(command), token_for(command)) as caller:
            assert not re.search("^page ", command.seen, re.MULTILINE)  # nobody would answer there
            write_app(tmp_path, "v1", "It booked")
            await seen(command, "registered")
            await seen(command, "open it and talk")
            await hears(caller, "For which day?")
            assert len(caller.agents) == 1
        assert command.end() == 0
