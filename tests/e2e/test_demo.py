"""`vivavoce demo`, whole: the call with --once on both servers, its report, its recording, and Ctrl-C at any moment."""

from __future__ import annotations

import asyncio
import json
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

from e2e_kit.demo_run import COMMAND, Ran, demo_environment, run_demo
from e2e_kit.peer_process import PeerProcess
from e2e_kit.room_endpoint import RoomEndpoint
from servers.scripted_openai import chat_answer, scripted_openai
from vivavoce.agents.cli.demo.caller import CallRequest
from vivavoce.agents.cli.demo.checks import GAP_RANGE, GAP_SPREAD, MAX_SILENCING, MIN_ANSWERS
from vivavoce.agents.cli.demo.outgoing import place_call
from vivavoce.agents.cli.demo.place import DEPARTURE_TIMEOUT
from vivavoce.pipelines.core.errors import RoomError
from vivavoce.pipelines.media.wav import read_wav

END_LIMIT = 3.0
"""Seconds in which Ctrl-C ends everything."""


@pytest.fixture(params=["on_embedded", "on_livekit"])
def ran(request: pytest.FixtureRequest) -> Ran:
    """The demo on both servers, run once each for all tests."""
    done: Ran = request.getfixturevalue(request.param)
    return done


pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


def test_the_call_succeeds_and_says_so(ran: Ran) -> None:
    assert ran.status == 0, ran.output
    assert "Traceback" not in ran.output
    assert "✗" not in ran.output


def test_the_report_has_every_field_of_version_1(ran: Ran) -> None:
    report = ran.report
    assert report["version"] == 1
    assert isinstance(report["started_at"], float)
    assert report["room"].startswith("demo_")
    assert {"turns", "states", "usage", "close"} <= report.keys()
    for turn in report["turns"]:
        fields = {"turn_id", "user_text", "agent_text", "heard_text", "outcome", "interrupted", "e2e_latency"}
        assert fields | {"stages", "tools"} <= turn.keys()
        assert all({"name", "owner", "seconds"} == stage.keys() for stage in turn["stages"])
        tool_fields = {"name", "arguments", "output", "is_error", "seconds"}
        assert all(tool_fields <= tool.keys() for tool in turn["tools"])
    assert {state["who"] for state in report["states"]} == {"user", "agent"}
    times = [state["at"] for state in report["states"]]
    assert all(-0.5 < at < 120 for at in times)
    assert report["close"]["reason"] == "participant_left"
    assert not [step for step in report["close"]["steps"] if step["error"]]


def test_the_corrected_table_is_booked_by_two_tool_calls(ran: Ran) -> None:
    assert ran.report["booking"] == {"day": "friday", "time": "20:00", "people": 4}
    calls = [tool for turn in ran.report["turns"] for tool in turn["tools"]]
    assert [json.loads(call["arguments"])["time"] for call in calls] == ["19:00", "20:00"]
    assert not any(call["is_error"] for call in calls)


def test_the_barge_in_cuts_one_turn_and_its_words_are_those_that_were_heard(ran: Ran) -> None:
    (cut,) = [turn for turn in ran.report["turns"] if turn["interrupted"]]
    assert cut["outcome"] == "interrupted"
    assert cut["heard_text"]
    assert cut["agent_text"].startswith(cut["heard_text"])
    assert len(cut["heard_text"]) < len(cut["agent_text"])


def test_stages_sum_to_the_latency_of_every_answered_turn(ran: Ran) -> None:
    answered = [turn for turn in ran.report["turns"] if turn["e2e_latency"] is not None]
    assert len(answered) >= MIN_ANSWERS
    for turn in answered:
        assert sum(stage["seconds"] for stage in turn["stages"]) == pytest.approx(turn["e2e_latency"], abs=1e-3)
        assert all(stage["seconds"] >= 0 for stage in turn["stages"])


def test_the_recording_shows_what_the_report_says(ran: Ran) -> None:
    """The gaps are measured here anew, from the sound alone: a third opinion beside caller and agent."""
    caller, agent = _sounds(ran.wav)
    latencies = [turn["e2e_latency"] for turn in ran.report["turns"] if turn["e2e_latency"] is not None]
    waits = [next(start for start, _ in agent if start > end) - end for _, end in caller]
    assert len(waits) == len(latencies)
    apart = [wait - latency for wait, latency in zip(waits, latencies, strict=True)]
    assert min(apart) >= GAP_RANGE[0], apart
    assert max(apart) <= GAP_RANGE[1], apart
    assert max(apart) - min(apart) <= GAP_SPREAD, apart


def test_the_agent_is_silent_soon_after_the_barge_in_began(ran: Ran) -> None:
    caller, agent = _sounds(ran.wav)
    overlaps = [(start, stop) for start, _ in caller for began, stop in agent if began < start < stop]
    assert len(overlaps) == 1
    onset, silent = overlaps[0]
    assert silent - onset <= MAX_SILENCING


def test_the_summary_names_turns_checks_and_files(on_embedded: Ran) -> None:
    for text in (
        "no at eight",
        "heard after",
        "corrected table booked: friday, 20:00, 4",
        "call.wav",
        "report.json",
        "call.html",
    ):
        assert text in on_embedded.output


def test_on_a_given_server_the_agent_has_a_name_of_its_own(on_livekit: Ran) -> None:
    assert "registered as vivavoce_demo_" in on_livekit.output
    assert "devsecret" not in on_livekit.output


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
    "mid-call": "at seven",
    "barge-in": "speaks over",
}


CASES = [*((moment, _to_group) for moment in MOMENTS), ("while starting", _to_parent), ("mid-call", _to_parent)]


@pytest.mark.parametrize(("moment", "send"), CASES, ids=[f"{moment}{send.__name__}" for moment, send in CASES])
def test_ctrl_c_ends_everything_within_3_seconds(moment: str, send: Callable[[int], None], tmp_path: Path) -> None:
    with _running(tmp_path) as demo:
        demo.read_until(MOMENTS[moment])
        began = time.monotonic()
        send(demo.process.pid)
        rest, _ = demo.process.communicate(timeout=20)
        while demo.family() and time.monotonic() - began < END_LIMIT:
            time.sleep(0.02)
        took = time.monotonic() - began
        assert demo.family() == {}
        assert took < END_LIMIT
        assert demo.process.returncode == 130
        assert "Traceback" not in demo.seen + rest


def test_a_killed_demo_leaves_no_process_behind(tmp_path: Path) -> None:
    with _running(tmp_path) as demo:
        demo.read_until("at seven")
        assert len(demo.family()) >= 3
        demo.process.kill()
        limit = time.monotonic() + END_LIMIT
        while demo.family() and time.monotonic() < limit:
            time.sleep(0.02)
        assert demo.family() == {}


def test_without_a_call_the_room_waits_with_a_token_and_ctrl_c_is_success(tmp_path: Path) -> None:
    with _running(tmp_path, "--no-call") as demo:
        demo.read_until("Ctrl-C")
        assert demo.seen.index("registered") < demo.seen.index("token")
        demo.process.send_signal(signal.SIGINT)
        demo.process.communicate(timeout=20)
        assert demo.process.returncode == 0
    assert list(tmp_path.iterdir()) == []


async def test_the_printed_token_lets_a_guest_meet_the_agent_again_and_again(
    room_server: RoomEndpoint, tmp_path: Path
) -> None:
    account = ["--url", room_server.url, "--api-key", room_server.api_key, "--api-secret", room_server.api_secret]
    with _running(tmp_path, "--no-call", *(account if room_server.kind == "livekit" else [])) as demo:
        await asyncio.to_thread(demo.read_until, "Ctrl-C")
        (url,) = re.findall(r"^room +(\S+)", demo.seen, re.MULTILINE)
        (token,) = re.findall(r"^eyJ\S+", demo.seen, re.MULTILINE)
        for _ in range(2):
            async with PeerProcess() as guest:
                await guest.call("connect", url=url, token=token)
                await guest.event("track_subscribed")
                await guest.call("disconnect")
            await anyio.sleep(DEPARTURE_TIMEOUT + 2)  # the server's own time, not ours: there is nothing to wait on


async def test_a_language_model_answers_only_when_asked_for_and_then_to_whoever_joins(tmp_path: Path) -> None:
    async with scripted_openai() as server:
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
    request = CallRequest(url=embedded_room.url, token=expired, wav=str(tmp_path / "call.wav"))
    with pytest.raises(RoomError, match=r"could not join.*expired"):
        await place_call(request, lambda event, data: None)


def _sounds(wav: Path) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return when caller (left) and agent (right) sound: spans in seconds, cut at 0.35 s of silence."""
    import numpy as np

    recording = read_wav(wav)
    sides = recording.to_numpy()
    size = recording.sample_rate // 200
    spans: list[list[tuple[float, float]]] = []
    for side in (sides[:, 0], sides[:, 1]):
        peaks = np.abs(side[: len(side) // size * size].reshape(-1, size).astype(np.int32)).max(axis=1)
        windows = np.flatnonzero(peaks > 400)  # -38 dB
        cuts = np.flatnonzero(np.diff(windows) > 70) + 1
        spans.append([(group[0] / 200, (group[-1] + 1) / 200) for group in np.split(windows, cuts) if len(group)])
    return spans[0], spans[1]
