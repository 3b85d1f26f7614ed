"""ToolExecutor: every call settles exactly once, for any behaviour of the tool."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from vivavoce.agents.telemetry.observer import NO_WATCH
from vivavoce.agents.testing import VirtualClock, run_virtual
from vivavoce.agents.tools.batch import ToolBatch
from vivavoce.agents.tools.executor import ToolExecutor
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ToolError
from vivavoce.pipelines.llm.schema_tool import SchemaTool
from vivavoce.pipelines.llm.tools import Tool, ToolCall, ToolContext, ToolOutput, function_tool


class Room:
    """An executor with its reports."""

    def __init__(self, *, timeout: float = 30.0, max_threads: int = 8) -> None:
        self.settled: list[tuple[str, str, float]] = []
        self.errors: list[Exception] = []
        self.executor = ToolExecutor(
            VirtualClock(),
            timeout=timeout,
            max_threads=max_threads,
            watch=lambda call, is_known: NO_WATCH,
            on_settled=self._settled,
            on_error=self.errors.append,
        )

    def _settled(self, call: ToolCall, output: ToolOutput, seconds: float) -> None:
        self.settled.append((call.call_id, output.output, round(seconds, 6)))

    async def run(
        self, tools: list[Tool[..., Any]], *calls: tuple[str, str], after: Callable[[], None] | None = None
    ) -> ToolBatch:
        async with anyio.create_task_group() as group:
            batch = self.executor.start(
                group,
                [ToolCall(call_id=f"c{n}", name=name, arguments=text) for n, (name, text) in enumerate(calls)],
                tools,
                lambda call, note: ToolContext(),
            )
            assert not batch.is_settled
            if after is not None:
                await anyio.sleep(1.0)
                after()
        assert batch.is_settled
        assert batch.settled.is_set()
        assert len(self.settled) == len(calls)
        return batch


def outputs(batch: ToolBatch) -> list[tuple[str, bool]]:
    return [(output.output, output.is_error) for output in batch.outputs if output is not None]


@function_tool
async def sleep(seconds: float) -> str:
    """Sleep."""
    await anyio.sleep(seconds)
    return f"slept {seconds:g}"


def test_outputs_keep_the_order_of_the_calls_and_settling_that_of_time() -> None:
    room = Room()

    async def main() -> None:
        batch = await room.run([sleep], ("sleep", '{"seconds": 2}'), ("sleep", '{"seconds": 1}'))
        assert outputs(batch) == [("slept 2", False), ("slept 1", False)]

    run_virtual(main())
    assert room.settled == [("c1", "slept 1", 1.0), ("c0", "slept 2", 2.0)]


def test_a_tool_past_its_timeout_is_answered_and_its_siblings_go_on() -> None:
    room = Room(timeout=1.5)

    async def main() -> None:
        batch = await room.run([sleep], ("sleep", '{"seconds": 9}'), ("sleep", '{"seconds": 1}'))
        assert outputs(batch) == [("The tool did not answer within 1.5 seconds.", True), ("slept 1", False)]

    run_virtual(main())


def test_a_tools_own_timeout_wins_also_when_it_is_longer() -> None:
    patient = function_tool(timeout=20.0)(sleep.function)
    room = Room(timeout=1.0)

    async def main() -> None:
        batch = await room.run([patient], ("sleep", '{"seconds": 9}'))
        assert outputs(batch) == [("slept 9", False)]

    run_virtual(main())


def test_a_cancelled_call_is_answered_as_cancelled() -> None:
    room = Room()

    async def main() -> None:
        batch = await room.run([sleep], ("sleep", '{"seconds": 9}'), after=room.executor.cancel)
        assert outputs(batch) == [("The call was cancelled.", True)]

    run_virtual(main())
    assert room.settled == [("c0", "The call was cancelled.", 1.0)]


def test_a_tools_own_timeout_error_is_a_failure_of_the_tool() -> None:
    @function_tool
    async def impatient() -> str:
        """Time out by itself."""
        with anyio.fail_after(0.5):
            await anyio.sleep_forever()
        return "never"

    room = Room()

    async def main() -> None:
        batch = await room.run([impatient], ("impatient", "{}"))
        assert outputs(batch) == [("The tool failed (TimeoutError).", True)]

    run_virtual(main())


def test_errors_leak_nothing_but_a_tool_errors_text() -> None:
    @function_tool
    async def fails() -> None:
        """Fail."""
        raise ValueError("the password is 1234")

    @function_tool
    async def explains() -> None:
        """Explain."""
        raise ToolError("We are closed.")

    room = Room()

    async def main() -> None:
        batch = await room.run([fails, explains], ("fails", ""), ("explains", "{}"))
        assert outputs(batch) == [("The tool failed (ValueError).", True), ("We are closed.", True)]

    run_virtual(main())
    assert [type(error) for error in room.errors] == [ValueError]


def test_arguments_that_a_tool_cannot_read_are_an_error_output() -> None:
    async def take(arguments: dict[str, Any]) -> str:
        return "taken"

    class Odd(SchemaTool):
        def parse_arguments(self, text: str) -> dict[str, Any]:
            raise KeyError(text)

    described: dict[str, Any] = {"description": "Take it.", "parameters": {"type": "object"}}
    room = Room()
    tools: list[Tool[..., Any]] = [SchemaTool(take, name="take", **described), Odd(take, name="odd", **described)]

    async def main() -> None:
        batch = await room.run(tools, ("take", "[" * 100_000), ("odd", "{}"))
        told = "The arguments are not valid: they are not JSON."
        assert outputs(batch) == [(told, True), ("The tool failed (KeyError).", True)]

    run_virtual(main())


def test_a_result_that_is_no_json_is_an_error_output() -> None:
    @function_tool
    async def odd() -> object:
        """Return something odd."""
        return object()

    room = Room()

    async def main() -> None:
        batch = await room.run([odd], ("odd", "{}"))
        assert outputs(batch) == [("The tool returned something that is not JSON (object).", True)]

    run_virtual(main())


def test_no_more_threads_run_than_allowed() -> None:
    running: list[int] = []
    most: list[int] = []
    lock = threading.Lock()

    @function_tool
    def work() -> int:
        """Work in a thread."""
        with lock:
            running.append(1)
            most.append(len(running))
        threading.Event().wait(0.02)
        with lock:
            running.pop()
        return 0

    room = Room(max_threads=2)

    async def main() -> None:
        batch = await room.run([work], *[("work", "{}")] * 6)
        assert outputs(batch) == [("0", False)] * 6

    run_virtual(main())
    assert 1 <= max(most) <= 2


def test_a_sync_tool_past_its_timeout_is_answered_while_its_thread_hangs() -> None:
    release = threading.Event()

    @function_tool(timeout=0.05)
    def stuck() -> str:
        """Hang in a thread."""
        release.wait(60)
        return "late"

    async def main() -> None:  # real time: virtual time stands still while a thread works
        settled: list[str] = []
        executor = ToolExecutor(
            LoopClock(),
            timeout=30,
            max_threads=1,
            watch=lambda call, is_known: NO_WATCH,
            on_settled=lambda call, output, seconds: settled.append(output.output),
            on_error=lambda error: None,
        )
        async with anyio.create_task_group() as group:
            call = ToolCall(call_id="c1", name="stuck", arguments="{}")
            executor.start(group, [call], [stuck], lambda call, note: ToolContext())
        release.set()
        assert settled == ["The tool did not answer within 0.05 seconds."]

    anyio.run(main)


@pytest.mark.parametrize("arguments", ["", "{}", '{"name": "Ada"}'])
def test_defaults_fill_what_the_model_left_out(arguments: str) -> None:
    @function_tool
    async def greet(name: str = "you") -> str:
        """Greet."""
        return f"hello {name}"

    room = Room()

    async def main() -> None:
        ((output, is_error),) = outputs(await room.run([greet], ("greet", arguments)))
        assert not is_error
        assert output == ("hello Ada" if "Ada" in arguments else "hello you")

    run_virtual(main())
