"""The usage of a model step that the step's stream does not yield: of a request that is cut, or that a hook keeps."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from vivavoce.agents.telemetry.observer import NO_WATCH, Watch
from vivavoce.agents.turn_records.turn_record import EstimatedUsage
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent, Usage
from vivavoce.pipelines.llm.chat_units import BYTES_PER_TOKEN, estimate_tokens
from vivavoce.pipelines.tts.base import AudioChunk

ModelStream = AsyncGenerator[LLMEvent | AudioChunk, None]
CountUsage = Callable[[Usage], None]


def estimate(request: GenerateRequest, said: int, model: str) -> EstimatedUsage:
    """Return an estimate of the tokens of a request, and of its answer with so many bytes."""
    instructions = request.instructions + request.extra_instructions
    size = len(instructions.encode())
    return EstimatedUsage(
        input_tokens=sum(map(estimate_tokens, request.context)) + math.ceil(size / BYTES_PER_TOKEN),
        output_tokens=math.ceil(said / BYTES_PER_TOKEN),
        made_by=model,
    )


class StepUsage:
    """Counts the usage of the model steps of one reply.

    Args:
        add: Adds usage to the session and the turn.
    """

    def __init__(self, add: CountUsage) -> None:
        self.add = add
        self._watch = NO_WATCH

    def watched_by(self, watch: Watch | None) -> Watch:
        """Begin a step; return its watch, if there is one."""
        self._watch = watch or NO_WATCH
        return self._watch

    def add_unseen(self, usage: Usage) -> None:
        """Add usage that the step's stream does not yield, so that its watch has not seen it."""
        self._watch.take(usage)
        self.add(usage)


class KeptUsage:
    """The usage that a hook of the model reads and does not pass on: it counts, unless the hook yields other usage.

    Args:
        report: Called with it at the end.
    """

    def __init__(self, report: CountUsage) -> None:
        self._report = report
        self._read: list[Usage] = []
        self._is_told_by_hook = False

    async def noted(self, source: ModelStream) -> ModelStream:
        """Yield the model's stream for the hook."""
        async with aclosing(source) as events:
            async for event in events:
                if isinstance(event, Usage):
                    self._read.append(event)
                yield event

    def passed_on(self, usage: Usage) -> None:
        """Note usage that the hook yields."""
        if usage in self._read:
            self._read.remove(usage)
        else:
            self._is_told_by_hook = True

    def count(self) -> None:
        """Report what the hook has kept."""
        for usage in () if self._is_told_by_hook else self._read:
            self._report(usage)
