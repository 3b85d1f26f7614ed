"""The twin of Cartesia's TTS speaks with the vendor's SDK and with livekit-plugins-cartesia, in their own Python."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from kit.servers import install
from kit.servers.missing import missing
from vivavoce.plugins.cartesia.twin import CartesiaTwin

CLIENTS = Path(__file__).resolve().parents[2] / "kit" / "peers" / "cartesia_clients.py"
LIMIT = 150.0
"""Seconds; importing livekit-agents takes ten of them on a busy machine."""

VOICE = "f786b574-daa5-4673-aa0c-cbe3e8534c02"

HELLO = [
    ["Hello", 0.0, 0.25],
    ["there.", 0.25, 0.5],
    ["How", 0.5, 0.75],
    ["are", 0.75, 1.0],
    ["you?", 1.0, 1.25],
]


async def sessions(twin: CartesiaTwin) -> dict[str, dict[str, Any]]:
    """Return the observations of each client."""
    try:
        python = await anyio.to_thread.run_sync(install.livekit_agents_python)
    except install.InstallError as error:
        missing("livekit-agents", str(error))
    environment = {**os.environ, "PYTHONPATH": "", "NO_PROXY": "127.0.0.1"}
    pipes: dict[str, Any] = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
    arguments = (str(CLIENTS), twin.url, twin.key, VOICE)
    child = await asyncio.create_subprocess_exec(str(python), *arguments, env=environment, **pipes)
    try:
        out, errors = await asyncio.wait_for(child.communicate(), LIMIT)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    assert child.returncode == 0, errors.decode(errors="replace")[-3000:]
    seen = [json.loads(line) for line in out.splitlines() if line.startswith(b'{"client"')]
    return {each["client"]: each for each in seen}


@pytest.mark.test_all("a process of livekit-agents costs ten seconds of a processor, and tries the test kit alone")
@pytest.mark.e2e
@pytest.mark.timeout(180)
async def test_clients_written_elsewhere_speak_with_the_twin() -> None:
    async with CartesiaTwin(voices=(VOICE,)) as twin:
        seen = await sessions(twin)
    sdk, livekit = seen["sdk"], seen["livekit"]

    first, second, flushed = sdk["first"], sdk["second"], sdk["flushed"]
    assert (first["words"], first["samples"], first["kinds"]) == (HELLO, 30_000, ["timestamps", "chunk", "done"])
    assert [word for word, _, _ in second["words"]] == ["Two", "at", "once."]
    assert first["levels"] != second["levels"], "two contexts at once do not mix"
    assert len(first["levels"]) == len(second["levels"]) == 1
    assert flushed["flushes"] == [1, 2]
    assert "flush_done" in flushed["kinds"]
    assert sdk["after"]["samples"] == 18_000
    assert sdk["after"]["levels"] != sdk["cut"]["levels"]
    assert [context.is_cancelled for context in twin.contexts].count(True) == 1
    invalid = "The model is not valid, make sure it is a valid model ID."
    assert sdk["wrong model"] == [400, "model_not_found", "Invalid model", invalid]
    assert sdk["wrong voice"][0] == 404
    assert sdk["wrong language"][0] == 400
    assert sdk["wrong key"]

    assert (livekit["first"]["words"], livekit["first"]["samples"]) == (HELLO, 30_000)
    assert [word for word, _, _ in livekit["second"]["words"]] == ["And", "again."]
    assert livekit["wrong voice"][1] == "no audio frames were pushed for text: Hello there.", "it passes errors over"
    assert livekit["wrong key"][0] == 401

    assert len(twin.connections) == 3, "one of the SDK, one of livekit's plugin for two answers, one for a wrong voice"
    versions = {handshake.get("cartesia-version") or handshake["cartesia_version"] for handshake in twin.handshakes}
    assert versions == {"2026-08-14", "2025-04-16"}
    assert twin.received[0]["generation_config"] == {"speed": 1.2, "emotion": "calm"}
    assert not twin.live
