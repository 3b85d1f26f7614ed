"""`vivavoce serve` as a process: it drains on a signal, and `vivavoce call --wire twilio` calls it."""

from __future__ import annotations

import json
import signal
import socket
import time
from pathlib import Path

import numpy as np
import pytest

from kit.cli import in_a_process
from kit.e2e.command import running
from vivavoce.pipelines.media.wav import read_wav

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

TOKEN = {"TWILIO_AUTH_TOKEN": "12345"}
APP = """
from vivavoce.agents import Agent, AgentSession, JobContext
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.plugins import espeak, silero


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("Help.")

    async def on_enter(self) -> None:
        await self.session.say("Hello.")


async def entrypoint(ctx: JobContext) -> None:
    print("caller", ctx.caller.number, ctx.caller.line, flush=True)
    stt, llm = ScriptedSTT(["a table please"]), ScriptedLLM("For how many?")
    await AgentSession(Host(), CascadingPipeline(vad=silero.VAD(), stt=stt, llm=llm, tts=espeak.TTS())).start()
"""
SCRIPT = """
[[steps]]
say = "a table please"
pause = 0.4
expect = { within = 3.0 }
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "app.py"
    path.write_text(APP)
    return path


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def takes_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5.0).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_signal_that_comes_while_the_server_closes_does_not_kill_it(app: Path) -> None:
    port = free_port()
    arguments = ("--wire", "twilio", "--public-url", "https://phone.example.com", "--port", str(port))
    with running(app.parent, "serve", str(app), *arguments, **TOKEN) as server:
        server.read_until("listening at")
        with socket.create_connection(("127.0.0.1", port)) as unfinished:
            unfinished.sendall(b"POST /twilio HTTP/1.1\r\nHost: phone.example.com\r\nContent-Length: 9\r\n\r\n")
            server.process.send_signal(signal.SIGTERM)
            while takes_connections(port):
                time.sleep(0.01)
            assert server.end(signal.SIGTERM) == 0
        assert "Traceback" not in server.seen


@pytest.mark.test_all("three processes and a real voice; serve and the caller on the wire are in make test, each alone")
def test_a_call_by_wire_is_held_by_two_processes_and_the_server_drains_when_it_is_over(app: Path) -> None:
    url = f"http://127.0.0.1:{(port := free_port())}"
    script = app.parent / "script.toml"
    script.write_text(SCRIPT)
    with running(
        app.parent, "serve", str(app), "--wire", "twilio", "--public-url", url, "--port", str(port), **TOKEN
    ) as server:
        server.read_until(f"listening at 127.0.0.1:{port}")
        status, printed = in_a_process("call", str(script), "--wire", "twilio", "--url", url, cwd=app.parent, env=TOKEN)
        assert server.end(signal.SIGTERM) == 0
    assert status == 0, printed
    assert "caller +15550100 twilio" in server.seen
    assert "Traceback" not in server.seen
    [call] = json.loads((app.parent / "call/result.json").read_text())["calls"]
    assert call["ended_by"] == "caller"
    caller, agent = np.split(read_wav(app.parent / "call/call.wav").to_numpy(), 2, axis=1)
    for voice in (caller, agent):
        assert np.count_nonzero(np.abs(voice) > 500) > 0.2 * 16000
