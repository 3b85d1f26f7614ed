"""ScriptedLLM: a model with answers, delays and faults by a test's script, by number or by the user's words."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Self

import anyio

from vivavoce.pipelines.llm.base import LLM, GenerateRequest, LLMCapabilities, LLMEvent
from vivavoce.pipelines.llm.chat_context import FunctionCall
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.testing.script import ScriptError, Step, StepItem, items, play, wait


class ScriptedLLM(LLM):
    """Answers the n-th request with the n-th step, or a request by the user's words, if `when()` has them.

    `ScriptedLLM("Hello.", [0.1, "Sure. ", 0.05, "Done."], [ToolCall(...)], [ProviderError(...)], [HANG])`: text goes
    out piece by piece, a number waits that many seconds, an exception is raised. A repeated request takes the next
    step.

    A call with an `extra` must come back with it in each later request that has the call, as at a server that signs the
    thoughts of its model.

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
        self._keyed: list[_Keyed] = []
        self._numbered = 0
        self._default = items(default) if default is not None else None
        self._capabilities = capabilities or LLMCapabilities()
        self.requests: list[GenerateRequest] = []
        """The requests, oldest first."""
        self.requested_at: list[float] = []
        """Loop times of the requests."""
        self.cancelled: list[int] = []
        """Indexes of the requests that were closed before their step had ended."""
        self.script_error: ScriptError | None = None
        """The error of a request without a step in the script, or of a call without its extra; the code under test may
        have swallowed it."""
        self._made: dict[str, set[str]] = {}
        """The extras of its calls, by the ids of the calls."""

    @property
    def capabilities(self) -> LLMCapabilities:
        """The given capabilities."""
        return self._capabilities

    def add(self, *steps: Step) -> None:
        """Append steps to the script."""
        self._steps += [items(step) for step in steps]

    def when(self, words: str, *steps: Step) -> Self:
        """Answer with these steps a user message that contains `words`, in upper or lower case; return the model.

        `ScriptedLLM().when("table", [call], "Booked.").when("bye", "Good bye.")`: the requests of one turn take the
        steps one after the other, and each new message begins with the first one again. The first `when` that matches
        answers; the numbered steps are for messages that match none. A `reply()` is matched by its instructions.

        Raises:
            ValueError: `words` is blank, or no step is given.
        """
        if not words.strip() or not steps:
            raise ValueError(f"when() needs words and at least one step, got {words!r} and {len(steps)} step(s)")
        self._keyed.append(_Keyed(words.casefold(), [items(step) for step in steps]))
        return self

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        """Play the next step."""
        index = len(self.requests)
        self.requests.append(request)
        self.requested_at.append(anyio.current_time())
        self._check_extras(request)
        step = self._step(request)
        try:
            await wait(self._delay)
            async with aclosing(play(step)) as events:
                async for event in events:
                    if isinstance(event, ToolCall):
                        self._made.setdefault(event.call_id, set()).add(event.extra)
                    yield event
        except (GeneratorExit, anyio.get_cancelled_exc_class()):
            self.cancelled.append(index)
            raise

    def assert_done(self) -> None:
        """Check that the script was used up.

        Raises:
            ScriptError: Steps are left.
        """
        left = self._steps[self._numbered :]
        unused = [keyed.words for keyed in self._keyed if not keyed.is_used]
        if left:
            raise ScriptError(f"{len(left)} of {len(self._steps)} scripted steps were never asked for: {left!r}")
        if unused:
            raise ScriptError(f"the answers to these words were never asked for: {unused!r}")

    def _check_extras(self, request: GenerateRequest) -> None:
        for item in request.context:
            if isinstance(item, FunctionCall) and item.extra not in self._made.get(item.call_id, (item.extra,)):
                self.script_error = ScriptError(f"ScriptedLLM got its call {item.call_id!r} back without its extra")
                raise self.script_error

    def _step(self, request: GenerateRequest) -> tuple[StepItem, ...]:
        topic, words = _asked(request)
        keyed = next((keyed for keyed in self._keyed if keyed.words in words.casefold()), None)
        if keyed is not None:
            step = keyed.next(topic)
            came = f"a further request on {keyed.words!r}, which has {len(keyed.steps)} step(s)"
        else:
            step = self._steps[self._numbered] if self._numbered < len(self._steps) else None
            self._numbered += 1
            came = f"request {len(self.requests)}, its script has {len(self._steps)} step(s)"
            if self._keyed:
                came += f" and none for the words {words!r}"
        if step is None:
            step = self._default
        if step is None:
            self.script_error = ScriptError(f"ScriptedLLM got {came}; add one, or default=")
            raise self.script_error
        return step


class _Keyed:
    """The answers to user messages that contain certain words."""

    def __init__(self, words: str, steps: list[tuple[StepItem, ...]]) -> None:
        self.words = words
        self.steps = steps
        self._topic: object = None
        self._next = 0

    @property
    def is_used(self) -> bool:
        return self._topic is not None

    def next(self, topic: object) -> tuple[StepItem, ...] | None:
        """Return the next step on a topic, a message or instructions; the first one of a new topic."""
        self._next = self._next + 1 if topic == self._topic else 0
        self._topic = topic
        return self.steps[self._next] if self._next < len(self.steps) else None


def _asked(request: GenerateRequest) -> tuple[object, str]:
    """Return a topic that stays the same for the same message, and its words."""
    messages = request.context.messages("user")
    if messages and messages[-1].turn_id == request.turn_id:
        last = messages[-1]
        return (last.id, last.content), last.content
    return (request.turn_id, request.extra_instructions), request.extra_instructions
