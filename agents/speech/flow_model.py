"""FlowModel: the pipeline's model, asked by a conversation flow for its text.

Tools that the model calls run as in any answer: the text before the calls is played out, the speech waits for the
results without the floor, and the model goes on with them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace

import anyio

from vivavoce.agents.speech.blaming import Failure
from vivavoce.agents.speech.flow_parts import FlowParts
from vivavoce.agents.speech.stages import Stages, without_calls
from vivavoce.agents.tools.batch import StepCalls
from vivavoce.pipelines.core.errors import SessionError
from vivavoce.pipelines.llm.base import GenerateRequest, TextDelta, Usage
from vivavoce.pipelines.llm.chat_context import ChatMessage
from vivavoce.pipelines.llm.tools import ToolCall


class ModelAnswer(AsyncIterator[str]):
    """The model's answer, as a flow reads it.

    Args:
        begin: Called before the first text; raises an error if the answer may not begin.
    """

    def __init__(self, pieces: AsyncGenerator[str, None], begin: Callable[[ModelAnswer], Awaitable[None]]) -> None:
        self._pieces = pieces
        self._begin = begin
        self.has_begun = False
        self.is_read = False
        """Whether a task is waiting for the next text."""
        self._ended_since = ""

    async def __anext__(self) -> str:
        if self._ended_since:
            raise SessionError(f"this answer of model() has ended: {self._ended_since}; read one to its end first")
        if self.is_read:
            raise SessionError("an answer of model() is read by one task at a time")
        self.is_read = True
        try:
            if not self.has_begun:
                await self._begin(self)
                self.has_begun = True
            return await anext(self._pieces)
        finally:
            self.is_read = False
            if self._ended_since:
                await self._pieces.aclose()

    async def end(self, reason: str) -> None:
        """Close the answer, once no task reads it; reading on is an error then."""
        self._ended_since = reason
        if not self.is_read:
            await self._pieces.aclose()

    async def aclose(self) -> None:
        await self._pieces.aclose()


class FlowModel:
    """Answers a turn for a flow.

    Args:
        request: Makes the request of a step.
        add_usage: Counts the tokens of a step.
        max_steps: Steps in which the model may call tools.
        start_tools: Starts the calls of a step.
        item: The user's message.
    """

    def __init__(
        self,
        stages: Stages,
        failure: Failure,
        request: Callable[..., Awaitable[GenerateRequest]],
        start_tools: Callable[[list[ToolCall]], StepCalls],
        add_usage: Callable[[Usage], None],
        max_steps: int,
        *,
        item: ChatMessage,
    ) -> None:
        self._stages = stages
        self._add_usage = add_usage
        self._max_steps = max_steps
        self._failure = failure
        self._request = request
        self._item = item
        self._start_tools = start_tools
        self.calls: StepCalls | None = None
        """The calls that the flow waits for."""
        self._parts: FlowParts | None = None
        self._resumed = anyio.Event()

    def open(self, parts: FlowParts) -> None:
        """Have the flow's text go to `parts`."""
        self._parts = parts

    def resume(self) -> None:
        """Let the model go on, now that the results are in the history."""
        self.calls = None
        self._resumed.set()

    async def answer(self, transcript: str) -> AsyncGenerator[str, None]:
        """Yield the model's text for the turn, whose words are `transcript` in the request."""
        for step in range(self._max_steps + 1):
            request = await self._request(may_call=step < self._max_steps, is_first=step == 0)
            source = self._stages.generate(self._with_words(request, transcript), self._failure, self._add_usage)
            if step == self._max_steps:
                source = without_calls(source, self._item.turn_id)
            calls: list[ToolCall] = []
            with self._failure.blaming("llm"):
                async with aclosing(source) as events:
                    async for event in events:
                        if isinstance(event, TextDelta):
                            yield event.text
                        elif isinstance(event, ToolCall):
                            calls.append(event)
                        elif isinstance(event, Usage):
                            self._add_usage(event)
            if not calls:
                return
            self._resumed = anyio.Event()
            self.calls = self._start_tools(calls)
            assert self._parts is not None
            self._parts.split()
            await self._resumed.wait()  # bounded by the tools' own timeouts

    def _with_words(self, request: GenerateRequest, transcript: str) -> GenerateRequest:
        if transcript == self._item.content:
            return request
        context = request.context.copy()
        for item in context:
            if item.id == self._item.id and isinstance(item, ChatMessage):
                context.replace(replace(item, content=transcript, no_transcript=False))
                break
        return replace(request, context=context)
