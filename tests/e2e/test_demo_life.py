"""`vivavoce demo` around its call: wrong keys, Ctrl-C at any moment, guests, language models, a room that says no."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from livekit import api

from kit.e2e.demo_run import COMMAND, demo_environment, run_demo
from kit.e2e.peer_process import PeerProcess
from kit.e2e.room_endpoint import RoomEndpoint
from vivavoce.agents.cli.demo.caller import CallRequest
from vivavoce.agents.cli.demo.outgoing import place_call
from vivavoce.agents.dev_room import DEV_API_KEY, DEV_API_SECRET
from vivavoce.pipelines.core.errors import RoomError
from vivavoce.plugins.openai.twin import OpenAITwin, chat_answer

PROMISED = 3.0
"""Seconds in which Ctrl-C ends everything, on a machine that has time for it."""
LIMIT = 20.0
"""Seconds for a step, on a machine that may be loaded."""

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


@pytest.mark.both_servers
def test_a_wrong_key_is_said_in_words(room_server: RoomEndpoint, tmp_path: Path) -> None:
    ran = run_demo(
        tmp_path,
        *("--url", room_server.url, "--api-key", room_server.api_key),
        env={"LIVEKIT_API_SECRET": "not-the-secret-not-the-secret-not-the-secret"},
    )
    assert ran.status == 1
    assert "Traceback" not in ran.output
    assert "401" in ran.output or "refused" in ran.output


# --- Ctrl-C


@dataclass
class Running:
    """A demo that runs in a process group of its own, as in a terminal."""

    process: subprocess.Popen[str]
    mark: str
    seen: str = ""

    def read_until(self, text: str) -> None:
        """Read output until `text` is in it."""
        assert self.process.stdout is not None
        while text not in self.seen:
            line = self.process.stdout.readline()
            assert line, f"ended before {text!r} was seen:\n{self.seen}"
            self.seen += line

    def family(self) -> dict[int, str]:
        """Return the processes that descend from it, itself included: they inherit a mark in their environment."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if self.mark.encode() in (entry / "environ").read_bytes():
                    found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:  # it ended, or is not ours
                continue
        return found

    def wait_until_all_have_ended(self) -> None:
        """Wait until no process of it is left."""
        _wait_for(lambda: self.family() == {}, "its last process ends")


def _wait_for(condition: Callable[[], bool], what: str) -> None:
    limit = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < limit, f"not within {LIMIT:g} s: {what}"
        time.sleep(0.02)


@contextmanager
def _running(folder: Path, *options: str) -> Iterator[Running]:
    mark = f"VIVAVOCE_TEST_MARK={time.time_ns()}"
    name, value = mark.split("=")
    process = subprocess.Popen(
        [*COMMAND, "--port", "0", *options],
        env=demo_environment(**{name: value, "PYTHONUNBUFFERED": "1"}),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    running = Running(process, mark)
    try:
        yield running
    finally:
        for pid in running.family():
            os.kill(pid, signal.SIGKILL)
        process.communicate()


def _to_group(pid: int) -> None:
    os.killpg(pid, signal.SIGINT)


def _to_parent(pid: int) -> None:
    os.kill(pid, signal.SIGINT)


MOMENTS = {
    "while starting": "room ",
    "registered": "registered",
    "greeting": "call in room",
    "mid-call": "\ncaller ",  # its first words, whatever was understood
    "barge-in": "speaks over",
}


OTHER_MOMENT = pytest.mark.test_all("one moment is enough for each change, and this is another one")
CASES = [
    pytest.param("greeting", _to_group),
    *(pytest.param(moment, _to_group, marks=OTHER_MOMENT) for moment in MOMENTS if moment != "greeting"),
    pytest.param("while starting", _to_parent, marks=OTHER_MOMENT),
    pytest.param("mid-call", _to_parent, marks=OTHER_MOMENT),
]


def _interrupt(demo: Running, moment: str, send: Callable[[int], None]) -> float:
    """Interrupt the demo at that moment, and return the seconds to its end."""
    demo.read_until(MOMENTS[moment])
    began = time.monotonic()
    send(demo.process.pid)
    rest, _ = demo.process.communicate(timeout=LIMIT)
    demo.wait_until_all_have_ended()
    took = time.monotonic() - began
    assert demo.process.returncode == 130
    assert "Traceback" not in demo.seen + rest
    assert "call ended: interrupted" in rest or moment in ("while starting", "registered")
    return took


@pytest.mark.parametrize(("moment", "send"), CASES)
def test_ctrl_c_ends_everything(moment: str, send: Callable[[int], None], tmp_path: Path) -> None:
    with _running(tmp_path) as demo:
        print(f"ended in {_interrupt(demo, moment, send):.2f} s")


@pytest.mark.test_all("its seconds are judged, and a busy machine needs more of them")
def test_ctrl_c_ends_a_call_within_3_seconds(tmp_path: Path) -> None:
    with _running(tmp_path) as demo:
        assert _interrupt(demo, "greeting", _to_group) < PROMISED


def test_a_killed_demo_leaves_no_process_behind(tmp_path: Path) -> None:
    with _running(tmp_path) as demo:
        demo.read_until("call in room")
        _wait_for(lambda: len(demo.family()) >= 3, "room and caller are processes beside the demo")
        demo.process.kill()
        demo.wait_until_all_have_ended()


def test_without_a_call_the_room_waits_with_a_token_and_ctrl_c_is_success(tmp_path: Path) -> None:
    with _running(tmp_path, "--no-call") as demo:
        demo.read_until("Ctrl-C")
        assert demo.seen.index("registered") < demo.seen.index("token")
        demo.process.send_signal(signal.SIGINT)
        demo.process.communicate(timeout=20)
        assert demo.process.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_the_parts_that_are_wanted_speak_and_hear(tmp_path: Path) -> None:
    with _running(tmp_path, "--no-call", "--voice", "espeak", "--ears", "pocketsphinx") as demo:
        demo.read_until("Ctrl-C")
    assert "espeak speaks, pocketsphinx hears   the sentences of a grammar\n" in demo.seen


async def test_the_printed_token_lets_a_guest_meet_the_agent_again_and_again(
    room_server: RoomEndpoint, tmp_path: Path
) -> None:
    given = ["--url", room_server.url, "--api-key", room_server.api_key, "--api-secret", room_server.api_secret]
    account = given if room_server.kind == "livekit" else []
    with _running(tmp_path, "--no-call", *account) as demo:
        await asyncio.to_thread(demo.read_until, "Ctrl-C")
        (url,) = re.findall(r"^room +(\S+)", demo.seen, re.MULTILINE)
        (token,) = re.findall(r"^eyJ\S+", demo.seen, re.MULTILINE)
        (room,) = re.findall(r"joins room (\w+)", demo.seen)
        key, secret = (room_server.api_key, room_server.api_secret) if account else (DEV_API_KEY, DEV_API_SECRET)
        async with api.LiveKitAPI(url, key, secret) as server:
            for _ in range(2):
                async with PeerProcess() as guest:
                    await guest.call("connect", url=url, token=token)
                    await guest.event("track_subscribed")
                    await guest.call("disconnect")
                with anyio.fail_after(LIMIT):
                    while (await server.room.list_rooms(api.ListRoomsRequest(names=[room]))).rooms:  # noqa: ASYNC110 - no event for it
                        await anyio.sleep(0.1)


async def test_a_language_model_answers_only_when_asked_for_and_then_to_whoever_joins(tmp_path: Path) -> None:
    async with OpenAITwin() as server:
        server.default = chat_answer("We are open until ten.")
        with _running(tmp_path, "--llm-base-url", server.url, "--llm-model", "tiny") as demo:
            await asyncio.to_thread(demo.read_until, "Ctrl-C")
            (url,) = re.findall(r"^room +(\S+)", demo.seen, re.MULTILINE)
            (token,) = re.findall(r"^eyJ\S+", demo.seen, re.MULTILINE)
            async with PeerProcess() as guest:
                await guest.call("connect", url=url, token=token)
                await guest.event("track_subscribed")
                await guest.call("send_text", topic="lk.chat", chunks=["How long are you open?"])
                await asyncio.to_thread(demo.read_until, "We are open until ten.")
                await guest.call("disconnect")
    (body,) = server.bodies
    assert body["model"] == "tiny"
    assert body["messages"][-1]["content"] == "How long are you open?"
    assert [tool["function"]["name"] for tool in body["tools"]] == ["book"]


async def test_a_call_that_cannot_be_placed_says_why(embedded_room: RoomEndpoint, tmp_path: Path) -> None:
    expired = embedded_room.token("caller", "room", ttl=-600)
    request = CallRequest(
        url=embedded_room.url, token=expired, wav=str(tmp_path / "call.wav"), voice="hibari", ears="moonshine"
    )
    with pytest.raises(RoomError, match=r"could not join.*expired"):
        await place_call(request, lambda event, data: None)
