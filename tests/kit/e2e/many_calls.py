"""A worker for calls dispatched to the agent `host`, and callers that ask for it."""

from __future__ import annotations

import anyio
from livekit.protocol.agent_dispatch import RoomAgentDispatch
from livekit.protocol.room import RoomConfiguration

from kit.e2e.listener import Listener
from kit.e2e.room_endpoint import RoomEndpoint
from kit.servers.agent_server import AgentServer
from vivavoce.agents import WorkerOptions
from vivavoce.agents.worker.executors.executor import Entrypoint
from vivavoce.agents.worker.worker import Worker

LIMIT = 20.0
"""Seconds for a step of a call."""


def worker_of(url: str, server: RoomEndpoint | AgentServer, entrypoint: Entrypoint, **options: object) -> Worker:
    """Return a worker whose lost calls stay lost."""
    account = {"url": url, "api_key": server.api_key, "api_secret": server.api_secret}
    given = WorkerOptions(crash_safety=None, **(account | options))  # type: ignore[arg-type]
    return Worker(entrypoint, agent_name="host", options=given)


def host_token(server: RoomEndpoint, room: str) -> str:
    """Return a token for a caller whose room dispatches the agent."""
    return server.token("caller", room, config=RoomConfiguration(agents=[RoomAgentDispatch(agent_name="host")]))


async def meets_agent(caller: Listener) -> None:
    """Wait until the caller has an agent."""
    with anyio.fail_after(LIMIT):
        while not caller.agents:  # noqa: ASYNC110 - the listener has no event for it
            await anyio.sleep(0.05)


async def process_of_agent(caller: Listener) -> int:
    """Wait until the caller hears the one agent of `talking_app.talks_on`, and return the agent's process."""
    await caller.until(lambda: len(caller.loud_at) > 25)
    (agent,) = caller.agents
    with anyio.fail_after(LIMIT):
        while not (pid := caller.room.remote_participants[agent].attributes.get("pid")):  # noqa: ASYNC110 - no event
            await anyio.sleep(0.05)
    return int(pid)
