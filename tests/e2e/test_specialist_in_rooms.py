"""A call in a room whose agent asks a specialist in another process, found through Redis: one trace of both."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from livekit import rtc

from kit.e2e.calls import OPTIONS, caller_and_agent
from kit.e2e.room_endpoint import RoomEndpoint
from kit.peer_specialist import ANSWER
from kit.servers.otel_collector import Collector, running_collector
from kit.servers.redis_server import running_redis_server
from vivavoce.agents import Agent, AgentOverrides, RunContext, function_tool
from vivavoce.agents.memory import RedisStore
from vivavoce.agents.peers import AgentRegistry, PeerOptions
from vivavoce.agents.telemetry import TelemetryOptions
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.llm.base import LLM, Done, GenerateRequest, LLMEvent, TextDelta
from vivavoce.pipelines.llm.chat_context import ChatMessage, FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall

pytestmark = [
    pytest.mark.real_server,
    pytest.mark.e2e,
    pytest.mark.timeout(120),
    pytest.mark.test_all("real ears and voices: a recogniser may mishear a word on a busy machine"),
]

PROCESS = Path(__file__).parents[1] / "kit" / "peer_specialist.py"


class Passes(LLM):
    """Passes the caller's words on to a tool, and says what it returns."""

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        last = next(item for item in reversed([*request.context]) if isinstance(item, ChatMessage | FunctionCallOutput))
        if isinstance(last, FunctionCallOutput):
            yield TextDelta(last.output)
        else:
            yield ToolCall(call_id=new_id("call"), name="ask", arguments=json.dumps({"question": last.content}))
        yield Done("stop" if isinstance(last, FunctionCallOutput) else "tool_calls")


class Host(Agent):
    def __init__(self, registry: AgentRegistry) -> None:
        super().__init__("Be brief.", overrides=AgentOverrides(llm=Passes()))
        self._registry = registry

    @function_tool
    async def ask(self, context: RunContext, question: str) -> str:
        "Ask an agent that knows tables."
        (card, *_) = await self._registry.find(capability="tables")
        return str(await context.session.peers.request(card.url, question))


@asynccontextmanager
async def specialist(*arguments: str) -> AsyncIterator[None]:
    child = await asyncio.create_subprocess_exec(
        sys.executable, str(PROCESS), *arguments, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        assert await child.stdout.readline() == b"ready\n"
        yield
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


async def sessions_of(collector: Collector) -> dict[str, dict[str, Any]]:
    """Return the spans of both sessions, by the ids of their agents, once they have arrived."""
    while True:
        found = {span["attributes"]["gen_ai.agent.id"]: span for span in collector.spans() if span["name"] == "session"}
        if len(found) == 2:
            return found
        await anyio.sleep(0.1)


async def test_a_specialist_of_another_process_found_through_redis_answers_the_caller_in_one_trace(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    with running_redis_server() as redis, running_collector() as collector:
        prefix = new_id("test")
        store = RedisStore(redis.url, prefix)
        async with (
            specialist(redis.url, prefix, collector.http_url),
            AgentRegistry(store) as registry,
            caller_and_agent(room_server, room_name, agent_room) as start,
        ):
            options = replace(OPTIONS, peers=PeerOptions(), telemetry=TelemetryOptions(endpoint=collector.http_url))
            call = await start(agent=Host(registry), options=options)
            while ("assistant", ANSWER) not in call.messages:
                call.talker.say("table for friday please")
                with anyio.move_on_after(15.0):  # the recogniser may have missed it
                    await call.turns(len(call.session.turns) + 1)
            assert call.talker.heard(), "the caller has heard it"
            await call.session.close()
            sessions = await sessions_of(collector)
        await store.aclose()
        spans = collector.spans()
    host, other = sessions[call.session.agent.id], sessions["specialist"]
    assert len({span["traceId"] for span in spans}) == 1
    assert len({span["resource"]["service.instance.id"] for span in (host, other)}) == 2
    by_id = {span["spanId"]: span for span in spans}
    assert by_id[other["parentSpanId"]]["name"] == "execute_tool ask"
    assert above(by_id, other)[-1] == host["spanId"]
    (answer, *_) = [span for span in spans if span["name"].startswith("chat") and other["spanId"] in above(by_id, span)]
    assert by_id[answer["parentSpanId"]]["name"] == "turn"


def above(by_id: dict[str, dict[str, Any]], span: dict[str, Any]) -> list[str]:
    """Return the ids of the spans that contain one, the nearest first."""
    found = []
    while parent := span.get("parentSpanId", ""):
        found.append(parent)
        span = by_id[parent]
    return found
