"""ToolExecutor: runs the calls of one model step and settles each of them exactly once."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup

from vivavoce.agents.agent import Agent
from vivavoce.agents.core.application_code import application_code
from vivavoce.agents.core.call_site import ToolSite, call_site, calling_tool
from vivavoce.agents.core.threads import ThreadPool
from vivavoce.agents.telemetry.observer import Watch
from vivavoce.agents.tools.batch import CANCELLED, ToolBatch
from vivavoce.pipelines.core.characters import whole, whole_data
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import ConfigurationError, ToolError, located, text_of
from vivavoce.pipelines.llm.tools import Tool, ToolCall, ToolContext, ToolOutput

logger = logging.getLogger(__name__)


SettledCallback = Callable[[ToolCall, ToolOutput, float], None]
ResultCallback = Callable[[ToolCall, str], Awaitable[None]]


class ToolExecutor:
    """Runs tools for one session, each call in a task of the session's tool group.

    Args:
        timeout: Seconds for a tool without a timeout of its own.
        max_threads: Sync tools that run at a time; more wait.
        watch: Makes the watch of a call; its second argument says whether there is such a tool.
        on_settled: Called with each settled call, its output and its seconds.
        on_error: Called with an error that a tool raised, other than a `ToolError`.
        on_result: Awaited with the output of each call that did not fail, before it is settled.
        before_run: Awaited before a tool runs.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        timeout: float,
        max_threads: int,
        watch: Callable[[ToolCall, bool], Watch],
        on_settled: SettledCallback,
        on_error: Callable[[Exception], None],
        on_result: ResultCallback | None = None,
        before_run: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._clock = clock
        self._timeout = timeout
        self._threads = ThreadPool(max_threads)
        self._watch = watch
        self._on_settled = on_settled
        self._on_error = on_error
        self._on_result = on_result
        self._before_run = before_run
        self._scopes: set[anyio.CancelScope] = set()

    def start(
        self,
        group: TaskGroup,
        calls: Sequence[ToolCall],
        tools: Sequence[Tool[..., Any]],
        context: Callable[[ToolCall, Callable[[str], bool]], ToolContext],
        *,
        speech_id: str = "",
        agent: Agent | None = None,
        outputs: Mapping[int, ToolOutput] | None = None,
    ) -> ToolBatch:
        """Run `calls` side by side in `group` and return their batch at once.

        Args:
            context: Makes the value of a tool's context parameter, from the call and its batch's `note_update`.
            speech_id: The speech that made the calls.
            agent: The agent whose tools they are.
            outputs: Outputs of calls that are not run, by the number of the call.
        """
        batch = ToolBatch(tuple(calls), [None] * len(calls), [None] * len(calls))
        by_name = {tool.name: tool for tool in tools}
        for index, call in enumerate(batch.calls):
            if outputs is not None and (output := outputs.get(index)) is not None:
                batch.settle(index, output, 0.0, self._clock.now())
                continue
            given = context(call, partial(batch.note_update, index))
            site = partial(ToolSite, speech_id, call.call_id, agent)
            group.start_soon(self._run, batch, index, by_name, given, site, name=f"tool {call.name}")
        return batch

    def cancel(self) -> None:
        """Cancel all calls; each settles as cancelled."""
        for scope in self._scopes:
            scope.cancel()

    async def _run(
        self,
        batch: ToolBatch,
        index: int,
        tools: dict[str, Tool[..., Any]],
        context: ToolContext,
        site: Callable[[], ToolSite],
    ) -> None:
        call = batch.calls[index]
        call_site.set(site())
        with self._watch(call, call.name in tools) as watch:
            await self._settle(batch, index, tools, context, watch)

    async def _settle(
        self, batch: ToolBatch, index: int, tools: dict[str, Tool[..., Any]], context: ToolContext, watch: Watch
    ) -> None:
        call = batch.calls[index]
        started = self._clock.now()
        text, is_error = CANCELLED, True
        tool = tools.get(call.name)
        scope = anyio.CancelScope()
        self._scopes.add(scope)
        try:
            ends_on_interrupt = tool is not None and tool.cancel_on_interrupt
            with batch.running(index, scope, ends_on_interrupt=ends_on_interrupt), scope:
                if tool is None:
                    text = f"There is no tool named {call.name!r}. Tools: {', '.join(sorted(tools)) or 'none'}."
                else:
                    if self._before_run is not None:
                        await self._before_run()
                    text, is_error = await self._call(batch, index, tool, context, watch)
                    if self._on_result is not None and not is_error:
                        await self._on_result(call, text)
        finally:
            self._scopes.discard(scope)
            output = ToolOutput(call_id=call.call_id, name=call.name, output=text, is_error=is_error)
            seconds = self._clock.now() - started
            watch.settled(output)
            batch.settle(index, output, seconds, started, is_known=tool is not None)
            self._on_settled(call, output, seconds)

    async def _call(
        self, batch: ToolBatch, index: int, tool: Tool[..., Any], context: ToolContext, watch: Watch
    ) -> tuple[str, bool]:
        from pydantic_core import PydanticSerializationError

        call = batch.calls[index]
        timeout = self._timeout if tool.timeout is None else tool.timeout
        result: Any = None
        try:
            async with _tool_code(f"the tool {tool.name}"):
                arguments = tool.parse_arguments(call.arguments)
                arguments.update(dict.fromkeys(tool.context_parameters, context))
                with anyio.move_on_after(timeout) as scope:
                    if (site := calling_tool()) is not None:
                        site.limit(scope)
                    result = await self._invoke(tool, arguments)
                if not scope.cancelled_caught:
                    result = _take_agent(batch, index, result)
                    if isinstance(result, str):
                        return str.__str__(result), False  # a plain str, without the methods of a subclass
                    if isinstance(result, Iterator | Coroutine):  # one may be endless, the other is never awaited
                        if isinstance(result, Generator | Coroutine):
                            result.close()
                        raise PydanticSerializationError(f"a tool returned a {type(result).__name__}")
                    return _json_of(result), False
            logger.warning("Tool %s did not end within %s s", tool.name, timeout)
            return f"The tool did not answer within {timeout:g} seconds.", True
        except ToolError as error:
            return text_of(error), True
        except PydanticSerializationError as error:
            watch.failed(error)
            self._on_error(error)
            return f"The tool returned something that is not JSON ({type(result).__name__}).", True
        except Exception as error:  # noqa: BLE001 - the tool boundary: whatever user code raises becomes an output
            logger.warning("Tool %s raised %s", tool.name, located(error))
            logger.debug("Tool %s raised here", tool.name, exc_info=error)  # its text may quote arguments
            watch.failed(error)
            self._on_error(error)
            return f"The tool failed ({type(error).__name__}).", True

    async def _invoke(self, tool: Tool[..., Any], arguments: dict[str, Any]) -> Any:
        if tool.is_async:
            return await tool(**arguments)
        with self._clock.hold():
            return await self._threads.run(lambda: tool(**arguments))


class _tool_code(application_code):  # noqa: N801 - as its base
    __slots__ = ()

    failure = RuntimeError


def _json_of(result: Any) -> str:
    """Return the result of a tool as JSON.

    Raises:
        PydanticSerializationError: It cannot be JSON.
    """
    from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

    try:
        return to_json(result).decode()
    except PydanticSerializationError as error:  # it may hold half of a surrogate pair
        try:
            return whole(json.dumps(to_jsonable_python(whole_data(result)), ensure_ascii=False, separators=(",", ":")))
        except ValueError:
            raise error from None


def _take_agent(batch: ToolBatch, index: int, result: Any) -> Any:
    """Note the agent that a call returned, `Agent` or `(Agent, output)`; return its output for the model.

    Raises:
        ConfigurationError: The call returned the class of an agent.
    """
    first = result[0] if isinstance(result, tuple) and len(result) == 2 else result
    if isinstance(first, type) and issubclass(first, Agent):
        name = batch.calls[index].name
        raise ConfigurationError(f"{name} returned the class {first.__name__}; return {first.__name__}()")
    if isinstance(result, Agent):
        batch.hands_off(index, result, is_mere=True)
        return f"The conversation is handed over to {result.id!r}."
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Agent):
        agent, output = result
        batch.hands_off(index, agent, is_mere=False)
        return output
    return result
