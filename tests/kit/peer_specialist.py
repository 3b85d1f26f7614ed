"""A process with a specialist: a `PeerServer` in the registry of a Redis server, with its telemetry at a collector.

Run as `python peer_specialist.py <Redis URL> <prefix> <collector URL>`; it says "ready", and runs until it is killed.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parents[1]))

from kit.store_writer import opened  # noqa: E402 - the path comes first
from kit.talking_peers import talker  # noqa: E402 - as above
from vivavoce.agents import AgentSession  # noqa: E402 - as above
from vivavoce.agents.peers import AgentCard, AgentRegistry, PeerServer  # noqa: E402 - as above
from vivavoce.agents.telemetry import TelemetryOptions  # noqa: E402 - as above
from vivavoce.agents.testing import ScriptedLLM  # noqa: E402 - as above
from vivavoce.pipelines import CascadingPipeline  # noqa: E402 - as above

ANSWER = "There is one by the window."


async def main(where: str, prefix: str, collector: str) -> None:
    """Answer each text by a turn of a session of its own."""

    def specialist() -> AgentSession[None]:
        pipeline = CascadingPipeline(llm=ScriptedLLM(default=[ANSWER]))
        telemetry = TelemetryOptions(endpoint=collector)
        return talker("specialist", pipeline, text_is_turn=True, telemetry=telemetry)

    async with AgentRegistry(opened(where, prefix)) as registry, PeerServer(specialist) as server:
        await registry.register(AgentCard("specialist", server.url, domain="restaurants", capabilities=("tables",)))
        print("ready", flush=True)
        await anyio.sleep_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
