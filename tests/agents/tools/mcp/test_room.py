"""MCPServers: an agent's servers and their tools, and calls of a server that is lost."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from kit.mcp.memory import Line, MemoryServer, library
from vivavoce.agents import Agent, ToolError, function_tool
from vivavoce.agents.mcp_servers import MCPServer
from vivavoce.agents.testing import VirtualClock, run_virtual
from vivavoce.agents.tools.mcp.servers import MCPServers
from vivavoce.pipelines.core.errors import ToolServerError
from vivavoce.pipelines.llm.tools import Tool


@function_tool
async def look() -> str:
    """The agent's own."""
    return "own"


class House:
    """An agent in a session, with its reports."""

    def __init__(self, *servers: MCPServer) -> None:
        self.agent = Agent("Help.", tools=[look], mcp_servers=servers)
        self.errors: list[str] = []
        self.opened_at = 0.0

    async def open(self, group: TaskGroup) -> None:
        self.room = MCPServers(group, VirtualClock(), report_error=lambda error: self.errors.append(str(error)))
        await self.room.open(self.agent)

    @property
    def names(self) -> list[str]:
        return [tool.name for tool in self.agent.tools]

    def tool(self, name: str) -> Tool[..., Any]:
        return next(tool for tool in self.agent.tools if tool.name == name)

    async def call(self, name: str, **arguments: Any) -> Any:
        tool = self.tool(name)
        return await tool(**tool.parse_arguments(json.dumps(arguments)))

    def run(self, test: Callable[[House], Awaitable[None]] | None = None) -> House:
        async def main() -> None:
            async with anyio.create_task_group() as group:
                await self.open(group)
                self.opened_at = anyio.current_time()
                if test is not None:
                    await test(self)
                with anyio.fail_after(10):
                    await self.room.aclose()

        run_virtual(main())
        return self


def test_an_agent_has_its_servers_tools_while_the_room_is_open() -> None:
    house = House(MemoryServer(app=library("fetch", "order")))

    async def test(house: House) -> None:
        assert house.names == ["look", "fetch", "order"]
        assert house.tool("fetch").description == "Does fetch."
        assert house.tool("fetch").parameters_schema()["properties"]["text"]["type"] == "string"
        assert await house.call("fetch", text="Emma") == "fetch: Emma"

    house.run(test)
    assert house.names == ["look"]
    assert house.errors == []


def test_a_tool_whose_server_says_that_a_second_run_does_no_harm_is_idempotent() -> None:
    from mcp.types import ToolAnnotations

    app = library("fetch")
    for name, hints in (
        ("keep", ToolAnnotations(idempotent_hint=True)),
        ("order", ToolAnnotations(idempotent_hint=False)),
        ("lend", ToolAnnotations(title="Lend")),
    ):
        app.add_tool(look_up, name=name, description=name, annotations=hints)

    async def test(house: House) -> None:
        names = ("fetch", "keep", "order", "lend")
        assert [house.tool(name).idempotent for name in names] == [False, True, False, False]

    House(MemoryServer(app=app)).run(test)


async def look_up(text: str) -> str:
    return text


def test_only_allowed_tools_are_taken_and_a_missing_one_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    house = House(MemoryServer(app=library("fetch", "order", "burn"), allowed_tools=["order", "lend"]))

    async def test(house: House) -> None:
        assert house.names == ["look", "order"]

    house.run(test)
    assert "no tools ['lend']" in caplog.text


def test_names_that_models_do_not_take_are_mended_and_the_server_is_called_by_its_own() -> None:
    house = House(MemoryServer(app=library("files.read"), prefix="lib/"))

    async def test(house: House) -> None:
        assert house.names == ["look", "lib_files_read"]
        assert await house.call("lib_files_read", text="x") == "files.read: x"

    house.run(test)


def test_of_two_tools_of_one_name_the_first_is_taken_and_the_other_reported() -> None:
    house = House(
        MemoryServer(app=library("look", "fetch"), name="one"),
        MemoryServer(app=library("fetch", "order"), name="two"),
        MemoryServer(app=library("fetch"), name="three", prefix="three_"),
    )

    async def test(house: House) -> None:
        assert house.names == ["look", "fetch", "order", "three_fetch"]

    house.run(test)
    assert [error.partition(",")[0] for error in house.errors] == [
        "MCP server 'one': offers a tool 'look'",
        "MCP server 'two': offers a tool 'fetch'",
    ]
    assert "prefix" in house.errors[0]


def test_a_required_servers_clash_fails_the_start() -> None:
    house = House(MemoryServer(app=library("look"), required=True))
    with pytest.raises(ExceptionGroup) as caught:
        house.run()
    assert isinstance(caught.value.exceptions[0], ToolServerError)


def test_servers_start_side_by_side_and_one_that_hangs_is_left_out_at_its_limit() -> None:
    slow, gone = Line(), Line()
    slow.hangs = gone.fails = True
    house = House(
        MemoryServer(app=library("a"), name="slow", line=slow, start_timeout=2.0),
        MemoryServer(app=library("b"), name="slower", line=slow, start_timeout=3.0),
        MemoryServer(app=library("c"), name="gone", line=gone),
        MemoryServer(app=library("d"), name="fine"),
    )

    async def test(house: House) -> None:
        assert house.names == ["look", "d"]

    house.run(test)
    assert house.opened_at == pytest.approx(3.0)
    assert house.errors == [
        "MCP server 'gone': did not start: Connection refused",
        "MCP server 'slow': was not ready within 2 s",
        "MCP server 'slower': was not ready within 3 s",
    ]


def test_a_required_server_that_fails_stops_the_others_start_at_once() -> None:
    slow, gone = Line(), Line()
    slow.hangs = gone.fails = True
    house = House(
        MemoryServer(app=library("a"), name="slow", line=slow),
        MemoryServer(app=library("b"), name="gone", line=gone, required=True),
    )

    async def main() -> None:
        async with anyio.create_task_group() as group:
            with pytest.raises(ToolServerError, match="MCP server 'gone'"):
                await house.open(group)
            assert anyio.current_time() < 0.1
            await house.room.aclose()

    run_virtual(main())
    assert house.names == ["look"]


def test_a_call_under_way_when_its_server_goes_fails_and_the_next_one_connects_anew() -> None:
    line = Line()
    house = House(MemoryServer(app=library("fetch"), line=line))

    async def test(house: House) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(line.cut)
            with pytest.raises(ToolError, match="not known"):
                await house.call("fetch", seconds=5.0)
        assert anyio.current_time() < 1.0
        assert await house.call("fetch", text="Emma") == "fetch: Emma"
        assert house.names == ["look", "fetch"]

    house.run(test)
    assert (line.opened, line.closed) == (2, 2)
    assert house.errors == ["MCP server 'library': was lost: the connection ended; the next call connects anew"]


def test_a_server_that_went_between_calls_is_noticed_at_once_and_calls_side_by_side_share_one_new_connection() -> None:
    line = Line()
    house = House(MemoryServer(app=library("fetch"), line=line))

    async def test(house: House) -> None:
        await line.cut()
        await anyio.sleep(0.1)
        assert len(house.errors) == 1
        assert line.closed == 1
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(house.call, "fetch")

    house.run(test)
    assert line.opened == 2


def test_a_server_that_cannot_be_reached_again_costs_each_call_one_bounded_try() -> None:
    line = Line()
    house = House(MemoryServer(app=library("fetch"), line=line, start_timeout=2.0))

    async def test(house: House) -> None:
        await line.cut()
        line.hangs = True
        began = anyio.current_time()
        with pytest.raises(ToolError, match="cannot be reached"):
            await house.call("fetch")
        assert anyio.current_time() - began == pytest.approx(2.0)
        line.hangs = False
        assert await house.call("fetch", text="back") == "fetch: back"

    house.run(test)
    assert [error.partition(": ")[2] for error in house.errors] == [
        "was lost: the connection ended; the next call connects anew",
        "was not ready within 2 s",
    ]


def test_a_session_that_the_server_does_not_know_any_more_is_begun_anew_and_the_call_sent_again() -> None:
    from mcp import MCPError
    from mcp.types import INVALID_REQUEST

    line, app = Line(), library("fetch")
    tries: list[int] = []

    async def lend() -> str:
        tries.append(line.opened)
        if len(tries) == 1:
            raise MCPError(INVALID_REQUEST, "Session terminated")  # as the SDK has it for status 404
        return "lent"

    app.add_tool(lend, structured_output=False)
    house = House(MemoryServer(app=app, line=line))

    async def test(house: House) -> None:
        assert await house.call("lend") == "lent"

    house.run(test)
    assert tries == [1, 2]


def test_a_protocol_error_is_told_to_the_model() -> None:
    from mcp import MCPError

    line, app = Line(), library("fetch")

    async def lend() -> str:
        raise MCPError(-32050, "No lending today.")

    app.add_tool(lend)
    house = House(MemoryServer(app=app, line=line))

    async def test(house: House) -> None:
        with pytest.raises(ToolError, match="refused the call: No lending today"):
            await house.call("lend")
        assert await house.call("fetch") == "fetch: "

    house.run(test)
    assert line.opened == 1


def test_after_the_close_a_call_does_not_connect_any_more() -> None:
    line = Line()
    house = House(MemoryServer(app=library("fetch"), line=line))
    kept: list[Tool[..., Any]] = []

    async def test(house: House) -> None:
        kept.append(house.tool("fetch"))

    house.run(test)

    async def main() -> None:
        with pytest.raises(ToolError, match="closed"):
            await kept[0]({})

    run_virtual(main())
    assert line.opened == 1


def test_a_wrong_call_is_answered_with_the_servers_own_words() -> None:
    house = House(MemoryServer(app=library("fetch")))

    async def test(house: House) -> None:
        with pytest.raises(ToolError, match="seconds"):
            await house.call("fetch", seconds="soon")

    house.run(test)


def test_the_next_way_is_tried_when_the_first_does_not_answer() -> None:
    class TwoWays(MemoryServer):
        def connectors(self) -> Any:
            (way,) = super().connectors()

            def broken() -> Any:
                raise ConnectionRefusedError(111, "Connection refused")

            return [broken, way]

    house = House(TwoWays(app=library("fetch")))

    async def test(house: House) -> None:
        assert house.names == ["look", "fetch"]

    house.run(test)
