"""Owns the process of a worker written with livekit-agents, as a test holds it."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

import vivavoce.agents.cli.demo
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.talker import RATE, spoken
from kit.servers import install
from kit.servers.missing import missing
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.wav import write_wav
from vivavoce.plugins import espeak

APP = Path(__file__).with_name("livekit_agents_app.py")
GRAMMAR = Path(vivavoce.agents.cli.demo.__path__[0], "caller_says.gram")
SENTENCES = (
    "Hello, for which day would you like a table?",
    "At what time?",
    "Please let me read you our house rules, we keep every table for fifteen minutes, the kitchen takes the last order "
    "at ten in the evening, and children and quiet dogs are welcome in the garden.",
    "Certainly. Goodbye.",
)
REGISTER_LIMIT = 60.0


@asynccontextmanager
async def livekit_agents_worker(server: RoomEndpoint, agent_name: str, folder: Path) -> AsyncIterator[Path]:
    """Run the worker until the block ends; yields its log. Skips the test, or fails it, where it cannot be had."""
    try:
        python = await anyio.to_thread.run_sync(install.livekit_agents_python)
    except install.InstallError as error:
        missing("livekit-agents", str(error))
    sounds: dict[str, str] = {}
    async with espeak.TTS(voice="en-us+f5", rate=160) as tts:
        for number, text in enumerate(SENTENCES):
            path = folder / f"sound-{number}.wav"
            write_wav(path, AudioFrame(await spoken(tts, text), RATE))
            sounds[text] = str(path)
    (folder / "sounds.json").write_text(json.dumps(sounds))
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "COVERAGE_PROCESS_START")
    }
    environment |= {
        "LIVEKIT_URL": server.url,
        "LIVEKIT_API_KEY": server.api_key,
        "LIVEKIT_API_SECRET": server.api_secret,
        "HOST_AGENT_NAME": agent_name,
        "HOST_GRAMMAR": str(GRAMMAR),
        "HOST_SOUNDS": str(folder / "sounds.json"),
        "HOST_PACKAGES": sysconfig.get_path("platlib"),
    }
    log = folder / "worker.log"
    with log.open("w") as sink:
        process = await anyio.open_process(
            [python, str(APP), "start"], env=environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
        )
    try:
        with anyio.fail_after(REGISTER_LIMIT):
            while "registered worker" not in log.read_text():
                assert process.returncode is None, log.read_text()
                await anyio.sleep(0.1)
        yield log
    finally:
        if process.returncode is None:
            process.terminate()
        with anyio.move_on_after(20, shield=True):
            await process.wait()
        await process.aclose()  # kills it if it still runs
