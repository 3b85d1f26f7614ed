"""Real MCP servers in child processes, by all transports: their answers, their crashes, their ends."""

from __future__ import annotations

import gc
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from kit.limits import LIMIT
from kit.mcp import http_server, stdio_server
from vivavoce.agents import Agent, MCPServerHTTP, MCPServerStdio, ToolError
from vivavoce.agents.mcp_servers import MCPServer
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.agents.tools.mcp.servers import MCPServers
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ToolServerError
from vivavoce.pipelines.llm.tools import ToolCall

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

OLDER = pytest.mark.test_all("the older transport: only its answers are in make test")
BY_URL = pytest.mark.parametrize(
    ("transport", "path"), [("streamable_http", "/mcp"), pytest.param("sse", "/sse", marks=OLDER)]
)
END_LIMIT = 20.0
"""Seconds in which a server that ignores its end is ended; by itself it would never end."""


class House:
    """An agent whose servers are connected."""

    def __init__(self, *servers: MCPServer) -> None:
        self.agent = Agent("Help.", mcp_servers=servers)
        self.errors: list[str] = []

    async def open(self, group: TaskGroup) -> None:
        self.room = MCPServers(group, LoopClock(), report_error=lambda error: self.errors.append(str(error)))
        await self.room.open(self.agent)

    @property
    def names(self) -> list[str]:
        return [tool.name for tool in self.agent.tools]

    async def call(self, name: str, **arguments: Any) -> Any:
        tool = next(tool for tool in self.agent.tools if tool.name == name)
        return await tool(**tool.parse_arguments(json.dumps(arguments)))


@asynccontextmanager
async def opened(*servers: MCPServer) -> AsyncIterator[House]:
    house = House(*servers)
    async with anyio.create_task_group() as group:
        await house.open(group)
        try:
            yield house
        finally:
            await house.room.aclose()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def check_answers(house: House) -> None:
    assert house.names == ["add", "files_read", "find", "cover", "refuse", "wait", "crash", "pid", "secret"]
    assert await house.call("add", a=1, b=2) == "3"
    assert await house.call("files_read", path="notes") == "contents of notes"
    assert json.loads(await house.call("find", title="Emma")) == {"title": "Emma", "shelf": 3}
    assert await house.call("cover", title="Emma") == "The cover of Emma:\n[image, image/png, 16 bytes, not shown]"
    with pytest.raises(ToolError, match="We are closed on Mondays"):
        await house.call("refuse")
    with pytest.raises(ToolError, match="valid integer"):
        await house.call("add", a="one", b=2)
    assert house.errors == []


async def test_a_server_on_stdio_answers_gets_its_environment_and_ends_with_the_room() -> None:
    async with opened(stdio_server(env={"BOOKS_KEY": "k"})) as house:
        await check_answers(house)
        assert await house.call("secret") == "k"
        pid = int(await house.call("pid"))
        assert is_running(pid)
    assert not is_running(pid)


@pytest.mark.parametrize(("transport", "path"), [("streamable_http", "/mcp"), ("sse", "/sse")])
async def test_a_server_at_a_url_answers_by_either_transport_and_auto_finds_it(transport: Any, path: str) -> None:
    async with http_server(transport) as url:
        async with opened(MCPServerHTTP(url + path, transport=transport)) as house:
            await check_answers(house)
        async with opened(MCPServerHTTP(url + path)) as house:
            assert await house.call("add", a=1, b=2) == "3"


@BY_URL
async def test_headers_are_sent_and_without_them_the_server_is_left_out(
    transport: Any, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with http_server(transport, "locked") as url:
        headers = {"Authorization": "Bearer s3cret"}
        async with opened(MCPServerHTTP(url + path, transport=transport, headers=headers)) as house:
            assert await house.call("add", a=1, b=2) == "3"
        async with opened(MCPServerHTTP(url + path + "?key=s3cret", transport=transport)) as house:
            assert house.names == []
        assert len(house.errors) == 1
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("vivavoce")]
    assert "s3cret" not in "".join([*ours, *house.errors])


async def test_garbage_on_stdout_is_read_over() -> None:
    async with opened(stdio_server("garbage")) as house:
        assert await house.call("add", a=1, b=2) == "3"
    assert house.errors == []


async def test_a_child_that_crashes_in_a_call_is_an_error_output_and_is_started_again_for_the_next() -> None:
    async with opened(stdio_server()) as house:
        first = await house.call("pid")
        with pytest.raises(ToolError, match="was lost"):
            await house.call("crash")
        second = await house.call("pid")
        assert first != second
        assert len(house.errors) == 1
    assert not is_running(int(first))
    assert not is_running(int(second))


@BY_URL
async def test_a_server_at_a_url_that_crashes_is_found_again_once_it_is_back(transport: Any, path: str) -> None:
    async with http_server(transport) as url:
        port = int(url.rpartition(":")[2])
        async with opened(MCPServerHTTP(url + path, transport=transport)) as house:
            with pytest.raises(ToolError):
                await house.call("crash")
            with pytest.raises(ToolError, match="cannot be reached"):
                await house.call("add", a=1, b=2)
            async with http_server(transport, port=port):
                assert await house.call("add", a=1, b=2) == "3"


@BY_URL
async def test_a_server_restarted_between_two_calls_costs_no_call(transport: Any, path: str) -> None:
    async with AsyncExitStack() as stack:
        async with http_server(transport) as url:
            house = await stack.enter_async_context(opened(MCPServerHTTP(url + path, transport=transport)))
            assert await house.call("add", a=1, b=2) == "3"
        async with http_server(transport, port=int(url.rpartition(":")[2])):
            assert await house.call("add", a=2, b=2) == "4"
            await stack.aclose()


async def test_a_child_that_never_gets_ready_is_left_out_at_its_limit_and_ended() -> None:
    began = anyio.current_time()
    async with opened(stdio_server("hang", start_timeout=1.0), stdio_server(prefix="b_")) as house:
        assert house.names[0] == "b_add"
        assert house.errors == ["MCP server 'python': was not ready within 1 s"]
        assert anyio.current_time() - began < END_LIMIT


async def test_a_command_that_is_not_there_is_left_out_and_fails_the_start_if_required() -> None:
    async with opened(MCPServerStdio("no-such-program-here")) as house:
        assert house.errors == ["MCP server 'no-such-program-here': did not start: No such file or directory"]
    async with anyio.create_task_group() as group:
        with pytest.raises(ToolServerError, match="No such file"):
            await House(MCPServerStdio("no-such-program-here", required=True)).open(group)


@pytest.mark.parametrize("transport", ["stdio", "streamable_http", pytest.param("sse", marks=OLDER)])
async def test_a_cancelled_call_is_cancelled_at_the_server_too(transport: str, tmp_path: Path) -> None:
    note = tmp_path / "note"

    async def noted(word: str) -> None:
        with anyio.fail_after(LIMIT):
            while not note.exists() or word not in note.read_text():  # noqa: ASYNC110 - another process writes it
                await anyio.sleep(0.02)

    async def check(server: MCPServer) -> None:
        async with opened(server) as house:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: house.call("wait", seconds=60, note=str(note)))
                await noted("begun")
                tasks.cancel_scope.cancel()
            await noted("cancelled")
            assert await house.call("add", a=1, b=2) == "3"

    if transport == "stdio":
        await check(stdio_server())
    else:
        async with http_server(transport) as url:
            await check(MCPServerHTTP(url + ("/mcp" if transport == "streamable_http" else "/sse")))


@pytest.mark.parametrize("behaviour", ["lingering", "stubborn"])
async def test_a_child_that_ignores_its_end_is_ended_within_a_bound(behaviour: str) -> None:
    async with opened(stdio_server(behaviour)) as house:
        pid = int(await house.call("pid"))
        began = anyio.current_time()
    assert anyio.current_time() - began < END_LIMIT
    assert not is_running(pid)


async def test_a_session_whose_server_ignores_its_end_closes_in_time_and_names_it() -> None:
    pids: list[int] = []

    class Host(Agent):
        async def on_enter(self) -> None:
            tool = next(tool for tool in self.tools if tool.name == "pid")
            pids.append(int(await tool({})))

    harness = SessionHarness(Host("Help.", mcp_servers=[stdio_server("stubborn")]))
    async with harness:
        began = anyio.current_time()
        report = await harness.session.close()
        assert anyio.current_time() - began < END_LIMIT
        assert [step.name for step in report.steps if step.error] == ["mcp"]
        with anyio.fail_after(LIMIT):
            while is_running(pids[0]):  # noqa: ASYNC110 - another process ends
                await anyio.sleep(0.05)


async def test_a_conversation_uses_a_servers_tool() -> None:
    call = ToolCall(call_id="c1", name="add", arguments='{"a": 20, "b": 22}')
    agent = Agent("Help.", mcp_servers=[stdio_server(allowed_tools=["add"])])
    harness = SessionHarness(agent, ScriptedLLM([call], "It is 42."))
    async with harness:
        await harness.session.reply("Add the numbers.")
    harness.expect_tools(("add", "42"))
    assert [tool.name for tool in harness.llm.requests[0].tools] == ["add"]


async def test_no_descriptor_is_left_of_many_connections() -> None:
    async def once() -> None:
        async with opened(stdio_server()) as house, http_server("streamable_http") as url:
            assert house.errors == []
            async with opened(MCPServerHTTP(url + "/mcp")) as other:
                assert await other.call("add", a=1, b=2) == "3"

    await once()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        await once()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before
