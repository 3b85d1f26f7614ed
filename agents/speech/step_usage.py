"""The usage of a model step that the step's stream does not yield: of a request that is cut, or that a hook keeps."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from vivavoce.agents.turn_records.turn_record import EstimatedUsage
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent, Usage
from vivavoce.pipelines.llm.chat_units import BYTES_PER_TOKEN, estimate_tokens
from vivavoce.pipelines.tts.base import AudioChunk

ModelStream = AsyncGenerator[LLMEvent | AudioChunk, None]
CountUsage = Callable[[Usage], None]


def estimate(request: GenerateRequest, said: int, model: str) -> EstimatedUsage:
    """Return an estimate of the tokens of a request, and of its answer with so many bytes."""
    instructions = request.instructions + request.extra_instructions
    size = len(instructions.encode(errors="surrogatepass"))
    return EstimatedUsage(
        input_tokens=sum(map(estimate_tokens, request.context)) + math.ceil(size / BYTES_PER_TOKEN),
        output_tokens=math.ceil(said / BYTES_PER_TOKEN),
        made_by=model,
    )


class KeptUsage:
    """The usage that a hook of the model reads. It counts although a hook that yields only text does not pass it on.

    Args:
        report: Called with it at the end.
    """

    def __init__(self, report: CountUsage) -> None:
        self._report = report
        self._read: list[Usage] = []
        self._is_passed_on = False

    async def noted(self, source: ModelStream) -> ModelStream:
        """Yield the model's stream for the hook."""
        async with aclosing(source) as events:
            async for event in events:
                if isinstance(event, Usage):
                    self._read.append(event)
                yield event

    def passed_on(self) -> None:
        """Note that the hook yields usage itself, so that it counts by that."""
        self._is_passed_on = True

    def count(self) -> None:
        """Report what the hook has kept."""
        for usage in () if self._is_passed_on else self._read:
            self._report(usage)
