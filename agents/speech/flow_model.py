"""FlowModel: the pipeline's model, asked by a conversation flow for its text.

Tools that the model calls run as in any answer: the text before the calls is played out, the speech waits for the
results without the floor, and the model goes on with them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace

import anyio

from vivavoce.agents.speech.blaming import Failure
from vivavoce.agents.speech.flow_parts import FlowParts
from vivavoce.agents.speech.stages import Stages, without_calls
from vivavoce.agents.tools.batch import StepCalls
from vivavoce.pipelines.llm.base import GenerateRequest, TextDelta, Usage
from vivavoce.pipelines.llm.chat_context import ChatMessage
from vivavoce.pipelines.llm.tools import ToolCall


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
        """The flow's text goes to `parts`."""
        self._parts = parts

    def resume(self) -> None:
        """The results are in the history: the model goes on."""
        self.calls = None
        self._resumed.set()

    async def answer(self, transcript: str) -> AsyncGenerator[str, None]:
        """Yield the model's text for the turn, whose words are `transcript` in the request."""
        for step in range(self._max_steps + 1):
            request = await self._request(may_call=step < self._max_steps, is_first=step == 0)
            source = self._stages.generate(self._with_words(request, transcript), self._failure)
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
