"""MCP servers in a session: their place in start and close, and their tools in a conversation."""

from __future__ import annotations

import anyio
import pytest

from kit.mcp.memory import Line, MemoryServer, library
from vivavoce.agents import Agent, AgentSession, SessionOptions, function_tool
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.states import AgentState
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, VirtualClock, run_virtual
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.core.errors import SessionClosedError, ToolServerError
from vivavoce.pipelines.llm.tools import ToolCall


def call(name: str, arguments: str = "{}", call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id=call_id, name=name, arguments=arguments)


def ask(agent: Agent, *calls: ToolCall, options: SessionOptions | None = None) -> SessionHarness:
    """The caller asks, committed at 1.9; the model calls at 2.0 and then answers."""
    harness = SessionHarness(agent, ScriptedLLM(list(calls), "Done.", delay=0.1), options=options)
    harness.caller.says("please do it", 0.5, 1.5)
    return harness


def test_the_model_is_offered_a_servers_tools_and_their_results_are_answered() -> None:
    agent = Agent("Help.", mcp_servers=[MemoryServer(app=library("fetch"))])
    harness = ask(agent, call("fetch", '{"text": "Emma", "seconds": 1}')).run(until=6.0)
    (tool,) = harness.llm.requests[0].tools
    assert (tool.name, tool.description) == ("fetch", "Does fetch.")
    harness.expect_tools(("fetch", "fetch: Emma"))
    harness.expect_history(("user", "please do it"), ("assistant", "Done.")).expect_outcomes("completed")
    assert harness.tools[0].seconds == pytest.approx(1.0)


def test_bad_arguments_and_slow_calls_are_error_outputs() -> None:
    agent = Agent("Help.", mcp_servers=[MemoryServer(app=library("fetch"), call_timeout=2.0)])
    calls = [call("fetch", "[1]", "c1"), call("fetch", "{", "c2"), call("fetch", '{"seconds": 9}', "c3")]
    harness = ask(agent, *calls).run(until=8.0)
    assert {event.call_id: (event.output, event.is_error) for event in harness.tools} == {
        "c1": ("The arguments are not valid: they are not a JSON object.", True),
        "c2": ("The arguments are not valid: they are not JSON.", True),
        "c3": ("The tool did not answer within 2 seconds.", True),
    }
    harness.expect_outcomes("completed")


def test_a_server_that_is_not_there_is_an_error_event_and_the_session_goes_on() -> None:
    line = Line()
    line.fails = True
    agent = Agent("Help.", mcp_servers=[MemoryServer(app=library("fetch"), line=line)])
    harness = SessionHarness(agent, ScriptedLLM("Hello.", delay=0.1))
    harness.caller.says("hello there", 0.5, 1.5)
    harness.run(until=4.0)
    (event,) = harness.recording.of(ErrorOccurred)
    assert (event.source, event.is_recovered, str(event.error)) == (
        "mcp",
        True,
        "MCP server 'library': did not start: Connection refused",
    )
    harness.expect_outcomes("completed")


def test_a_required_server_that_is_not_there_fails_the_start_and_all_is_rolled_back() -> None:
    line, other = Line(), Line()
    line.hangs = True
    servers = [
        MemoryServer(app=library("a"), name="other", line=other),
        MemoryServer(app=library("b"), line=line, required=True, start_timeout=3.0),
    ]
    entered: list[bool] = []

    class Host(Agent):
        async def on_enter(self) -> None:
            entered.append(True)

    async def main() -> None:
        clock = VirtualClock()
        harness = SessionHarness(Host("Help.", mcp_servers=servers))
        session: AgentSession[None] = AgentSession(harness.agent, harness.pipeline, options=SessionOptions(clock=clock))
        with pytest.raises(ToolServerError, match="was not ready within 3 s"):
            await session.start(LocalTransport(clock))
        assert clock.now() == pytest.approx(3.0, abs=0.1)
        assert session.agent_state is AgentState.CLOSED
        report = await session.close()
        assert report.reason == "start_failed"
        assert [step.name for step in report.steps if step.error] == []

    run_virtual(main())
    assert (other.opened, other.closed) == (1, 1)
    assert entered == []


def test_a_close_while_servers_start_does_not_wait_for_them() -> None:
    line = Line()
    line.hangs = True

    async def main() -> None:
        clock = VirtualClock()
        harness = SessionHarness(Agent("Help.", mcp_servers=[MemoryServer(app=library("a"), line=line)]))
        session: AgentSession[None] = AgentSession(harness.agent, harness.pipeline, options=SessionOptions(clock=clock))
        async with anyio.create_task_group() as group:

            async def start() -> None:
                with pytest.raises(SessionClosedError):
                    await session.start(LocalTransport(clock))

            group.start_soon(start)
            await anyio.sleep(1.0)
            report = await session.close()
        assert clock.now() < 1.1
        assert "mcp" in [step.name for step in report.steps]

    run_virtual(main())


def test_the_close_ends_the_servers_after_on_exit_and_before_the_pipeline() -> None:
    line = Line()
    closed_at_exit: list[int] = []

    class Host(Agent):
        async def on_exit(self) -> None:
            closed_at_exit.append(line.closed)

    harness = SessionHarness(Host("Help.", mcp_servers=[MemoryServer(app=library("a"), line=line)])).run(until=1.0)
    assert harness.close_report is not None
    names = [step.name for step in harness.close_report.steps]
    assert names[names.index("on_exit") : names.index("pipeline")] == ["on_exit", "mcp"]
    assert closed_at_exit == [0]
    assert (line.opened, line.closed) == (1, 1)


def test_a_session_without_servers_has_no_such_step() -> None:
    harness = SessionHarness(Agent("Help.")).run(until=1.0)
    assert harness.close_report is not None
    assert "mcp" not in [step.name for step in harness.close_report.steps]


def test_an_agents_servers_are_there_again_for_its_next_session() -> None:
    line = Line()
    agent = Agent("Help.", mcp_servers=[MemoryServer(app=library("fetch"), line=line)])
    ask(agent, call("fetch")).run(until=5.0).expect_tools(("fetch", "fetch: "))
    ask(agent, call("fetch")).run(until=5.0).expect_tools(("fetch", "fetch: "))
    assert line.opened == 2


class Clerk(Agent):
    """Hands over to an agent with servers of its own."""

    def __init__(self, next_agent: Agent, *servers: MemoryServer) -> None:
        super().__init__("Help.", mcp_servers=servers)
        self.next_agent = next_agent

    @function_tool
    async def hand_over(self) -> Agent:
        """Hand over."""
        return self.next_agent


def hand_over(clerk: Clerk) -> SessionHarness:
    harness = SessionHarness(clerk, ScriptedLLM([call("hand_over")], [call("fetch", call_id="c2")], "Done.", delay=0.1))
    harness.caller.says("please do it", 0.5, 1.5)
    return harness


def test_an_agent_that_takes_over_has_its_own_servers_and_those_of_the_old_one_stay_until_the_close() -> None:
    old, new = Line(), Line()
    expert = Agent("Know.", mcp_servers=[MemoryServer(app=library("fetch"), line=new)])
    harness = hand_over(Clerk(expert, MemoryServer(app=library("look"), line=old))).run(until=10.0)
    assert [[tool.name for tool in request.tools] for request in harness.llm.requests[:2]] == [
        ["hand_over", "look"],
        ["fetch"],
    ]
    assert ("fetch", "fetch: ") in [(event.tool, event.output) for event in harness.tools]
    assert [(line.opened, line.closed) for line in (old, new)] == [(1, 1), (1, 1)]


def test_an_agent_whose_required_server_is_not_there_takes_over_all_the_same() -> None:
    line = Line()
    line.fails = True
    expert = Agent("Know.", mcp_servers=[MemoryServer(app=library("fetch"), line=line, required=True)])
    harness = hand_over(Clerk(expert)).run(until=10.0)
    assert harness.session.agent is expert
    assert [event.source for event in harness.recording.of(ErrorOccurred)] == ["mcp"]
    assert harness.messages[-1] == ("assistant", "Done.")


def test_an_agent_that_is_put_in_its_place_while_servers_start_has_its_own() -> None:
    line = Line()
    line.hangs = True
    slow = Agent("Wait.", mcp_servers=[MemoryServer(app=library("never"), line=line, start_timeout=2.0)])
    expert = Agent("Know.", mcp_servers=[MemoryServer(app=library("fetch"))])
    had: list[str] = []

    async def main() -> None:
        clock = VirtualClock()
        pipeline = SessionHarness(slow, ScriptedLLM()).pipeline
        session = AgentSession[None](slow, pipeline, options=SessionOptions(clock=clock))
        async with anyio.create_task_group() as group:
            group.start_soon(session.start, LocalTransport(clock))
            await anyio.sleep(0.5)
            await session.update_agent(expert)
            await anyio.sleep(5.0)
            had.extend(tool.name for tool in session.agent.tools)
            await session.close()

    run_virtual(main())
    assert had == ["fetch"]


def test_an_agent_that_takes_over_without_a_required_server_has_the_tools_of_its_others() -> None:
    line = Line()
    line.fails = True
    servers = [MemoryServer(app=library("fetch")), MemoryServer(app=library("order"), line=line, required=True)]
    expert = Agent("Know.", mcp_servers=servers)
    had: list[str] = []

    async def look(harness: SessionHarness) -> None:
        await harness.until(9.0)
        had.extend(tool.name for tool in harness.session.agent.tools)

    harness = hand_over(Clerk(expert)).run(look, until=10.0)
    assert harness.session.agent is expert
    assert had == ["fetch"]
    assert [event.source for event in harness.recording.of(ErrorOccurred)] == ["mcp"]


def test_a_close_while_the_next_agents_servers_start_is_not_held_up() -> None:
    line = Line()
    line.hangs = True
    expert = Agent("Know.", mcp_servers=[MemoryServer(app=library("fetch"), line=line)])
    harness = hand_over(Clerk(expert)).run(until=4.0)
    assert harness.close_report is not None
    assert harness.close_report.seconds < 1.0
    assert harness.close_report.is_clean
