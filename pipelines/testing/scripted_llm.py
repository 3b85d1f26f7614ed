"""ScriptedLLM: a model whose answers, delays and faults a test writes down."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import anyio

from vivavoce.pipelines.llm.base import LLM, GenerateRequest, LLMCapabilities, LLMEvent
from vivavoce.pipelines.testing.script import ScriptError, Step, StepItem, items, play, wait


class ScriptedLLM(LLM):
    """Answers the n-th request with the n-th step.

    `ScriptedLLM("Hello.", [0.1, "Sure. ", 0.05, "Done."], [ToolCall(...)], [ProviderError(...)], [HANG])`: text goes
    out piece by piece, a number waits that many seconds, an exception is raised. A request that is tried again takes
    the next step.

    Args:
        steps: The script.
        delay: Seconds before the first piece of each step.
        default: Answers every request after the script has run out; without it such a request is an error.
    """

    provider = "scripted"

    def __init__(
        self,
        *steps: Step,
        delay: float = 0.0,
        default: Step | None = None,
        capabilities: LLMCapabilities | None = None,
    ) -> None:
        self._steps = [items(step) for step in steps]
        self._delay = delay
        self._default = items(default) if default is not None else None
        self._capabilities = capabilities or LLMCapabilities()
        self.requests: list[GenerateRequest] = []
        """What was asked, oldest first."""
        self.requested_at: list[float] = []
        """Loop times of the requests."""
        self.cancelled: list[int] = []
        """Indexes of the requests that were closed before their step had ended."""
        self.script_error: ScriptError | None = None
        """What a request was told for which the script has no step; the code under test may have swallowed it."""

    @property
    def capabilities(self) -> LLMCapabilities:
        """As given."""
        return self._capabilities

    def add(self, *steps: Step) -> None:
        """Append steps to the script."""
        self._steps += [items(step) for step in steps]

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        """Play the next step."""
        index = len(self.requests)
        self.requests.append(request)
        self.requested_at.append(anyio.current_time())
        step = self._step(index)
        try:
            await wait(self._delay)
            async with aclosing(play(step)) as events:
                async for event in events:
                    yield event
        except (GeneratorExit, anyio.get_cancelled_exc_class()):
            self.cancelled.append(index)
            raise

    def assert_done(self) -> None:
        """Check that the script was used up.

        Raises:
            ScriptError: Steps are left.
        """
        if len(self.requests) < len(self._steps):
            left = self._steps[len(self.requests) :]
            raise ScriptError(f"{len(left)} of {len(self._steps)} scripted steps were never asked for: {left!r}")

    def _step(self, index: int) -> tuple[StepItem, ...]:
        if index < len(self._steps):
            return self._steps[index]
        if self._default is None:
            self.script_error = ScriptError(
                f"ScriptedLLM got request {index + 1}, its script has {len(self._steps)} step(s); add one, or default="
            )
            raise self.script_error
        return self._default
