"""Application code in which a test ends: its limit and its verdict reach the test, and are no error of the code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from vivavoce.agents import Agent, function_tool
from vivavoce.agents.core.application_code import application_code
from vivavoce.agents.core.threads import ThreadPool
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import LoopHeldError, ScriptedLLM, SessionHarness, ToolCall
from vivavoce.agents.turn.barge_in.policy_runner import PolicyRunner
from vivavoce.agents.turn.options import InterruptionOptions

FAILED = pytest.fail.Exception
ENDS = pytest.mark.parametrize("end", [LoopHeldError("held"), FAILED("limit"), pytest.skip.Exception("not here")])


def raising(error: BaseException) -> Callable[..., Any]:
    def leave(*_: object) -> Any:
        raise error

    return leave


@ENDS
async def test_it_passes_the_boundary_to_application_code(end: BaseException) -> None:
    with pytest.raises(type(end)), application_code("a handler"):
        raise end
    with pytest.raises(type(end)):
        async with application_code("a hook"):
            raise end


@ENDS
async def test_it_passes_in_a_group_beside_other_errors(end: BaseException) -> None:
    with pytest.raises(BaseExceptionGroup) as raised, application_code("a hook"):
        raise BaseExceptionGroup("two", [ValueError(), BaseExceptionGroup("one", [end])])
    assert raised.group_contains(type(end))


@ENDS
async def test_it_leaves_a_thread(end: BaseException) -> None:
    with pytest.raises(type(end)):
        await ThreadPool(1).run(raising(end))


@ENDS
def test_it_passes_the_judgement_of_backchannels(end: BaseException) -> None:
    runner = PolicyRunner(InterruptionOptions(backchannels=raising(end)), [])
    with pytest.raises(type(end)):
        runner.is_backchannel("mhm")


@pytest.mark.parametrize("is_sync", [True, False])
def test_a_verdict_in_a_tool_ends_the_run_of_the_test(is_sync: bool) -> None:
    class Clerk(Agent):
        if is_sync:

            @function_tool
            def look_up(self) -> str:
                """Look it up."""
                pytest.fail("must not be called")
        else:

            @function_tool
            async def look_up(self) -> str:
                """Look it up."""
                pytest.fail("must not be called")

    harness = SessionHarness(
        Clerk("Help."), ScriptedLLM([ToolCall(call_id="c1", name="look_up", arguments="{}")], "Bye.")
    )
    harness.caller.says("hello", 0.5, 1.0)
    with pytest.raises(AssertionError):
        harness.run(until=5.0)
    assert harness.recording.of(ErrorOccurred) == []


def test_a_verdict_in_a_handler_ends_the_run_of_the_test() -> None:
    async def scenario(harness: SessionHarness) -> None:
        harness.session.on("user_transcript", raising(FAILED("heard")))
        await harness.until(4.0)

    harness = SessionHarness(Agent("Help."), ScriptedLLM("Bye."))
    harness.caller.says("hello", 0.5, 1.0)
    with pytest.raises(AssertionError, match="the session closed by itself"):
        harness.run(scenario, until=5.0)
    assert harness.recording.of(ErrorOccurred) == []
