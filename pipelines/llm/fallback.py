"""FallbackLLM: asks the next model if one fails, or is slow to begin its answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import anyio

from vivavoce.pipelines.core.boundary import guarded
from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import CapabilityError, ProviderError, ProviderTimeoutError
from vivavoce.pipelines.core.members import FallbackOptions, Member, Members, check_options, final_error
from vivavoce.pipelines.llm.base import (
    LLM,
    LLM_EVENTS,
    Done,
    GenerateRequest,
    LLMCapabilities,
    LLMEvent,
    TextDelta,
    Usage,
)
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage

_REMARKS = (Usage, Done)

CHECK = GenerateRequest(context=ChatContext([ChatMessage(role="user", content="Answer with the word OK.")]))
"""The request of a check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackLLMOptions(FallbackOptions):
    """When a `FallbackLLM` asks the next model.

    Each option: docs/options.md.
    """

    first_token: float = 3.0
    """Seconds from a request to a model's first word or tool call, after which the next one is asked; the last one may
    take longer. The session's own limit, `llm_first_token`, is for all of them together."""

    def __post_init__(self) -> None:
        FallbackOptions.__post_init__(self)
        check_number("first_token", self.first_token, above=0, unit="s")


class FallbackLLM(LLM):
    """Asks the first model that works.

    A model that raises, or sends no word and no call within `first_token` seconds, is passed over: the next model gets
    the same request. Blank text is no word. Once a word or a call has come, no other model is asked for this answer,
    since the caller may have heard the word: a later failure ends the answer, and the next request goes to another
    model. In the background a short request checks whether a model that failed works again. The code that made the
    models closes them.

    Args:
        models: In order of preference; at least two.
    Raises:
        ConfigurationError: There are not two models.
        CapabilityError: Only some of them call tools.
    """

    provider: ClassVar[str] = "fallback"

    def __init__(
        self, models: Sequence[LLM], options: FallbackLLMOptions | None = None, *, clock: Clock | None = None
    ) -> None:
        check_options(options, FallbackLLMOptions, LLM, "FallbackLLM")
        self._options = options or FallbackLLMOptions()
        self._members: Members[LLM] = Members("llm", models, LLM, self._options, check=self._check, clock=clock)
        self._capabilities = _common(self._members.components)

    @property
    def model(self) -> str:
        """Provider and name of the model that answered last."""
        return self._members.in_use

    @property
    def members(self) -> tuple[LLM, ...]:
        """All of them, in order of preference."""
        return self._members.components

    @property
    def capabilities(self) -> LLMCapabilities:
        """The abilities that all of them have."""
        return self._capabilities

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        """Run one step with the first model that begins its answer in time.

        Raises:
            ProviderError: No model does; or the one that answers fails after its first word or call.
        """
        errors: list[ProviderError] = []
        for member, successor in self._members.line():
            llm = member.component
            stream = guarded(partial(llm.generate, request), LLM_EVENTS, llm.provider)
            async with aclosing(stream):
                try:
                    held = await self._first(stream, member, is_last=successor is None)
                except ProviderError as error:
                    self._members.failed(member, error, successor)
                    errors.append(error)
                    continue
                self._members.works(member)
                async with aclosing(self._rest(member, held, stream)) as events:
                    async for event in events:
                        yield event
                return
        raise final_error(errors)

    async def _first(
        self, stream: AsyncGenerator[LLMEvent, None], member: Member[LLM], *, is_last: bool
    ) -> list[LLMEvent]:
        """Return the events up to the first word or call; the last model is not cut, but counts as failed."""
        limit = self._options.first_token
        with self._members.timing(member, limit), anyio.move_on_after(None if is_last else limit) as scope:
            held = await _until_answer(stream)
        if scope.cancelled_caught:
            raise ProviderTimeoutError(f"no word and no call within {limit:g} s", provider=member.component.provider)
        return held

    async def _rest(
        self, member: Member[LLM], held: list[LLMEvent], stream: AsyncGenerator[LLMEvent, None]
    ) -> AsyncGenerator[LLMEvent, None]:
        try:
            for event in held:
                yield _named(event, member)
            async for event in stream:
                yield _named(event, member)
        except ProviderError as error:
            self._members.failed(member, error, None)
            raise

    async def _check(self, llm: LLM) -> None:
        stream = guarded(partial(llm.generate, CHECK), LLM_EVENTS, llm.provider)
        async with aclosing(stream):
            await _until_answer(stream)


def _named(event: LLMEvent, member: Member[LLM]) -> LLMEvent:
    """Return an event; the usage names the model that was asked."""
    if isinstance(event, Usage) and not event.made_by:
        return replace(event, made_by=member.name)
    return event


async def _until_answer(stream: AsyncGenerator[LLMEvent, None]) -> list[LLMEvent]:
    held: list[LLMEvent] = []
    async for event in stream:
        held.append(event)
        is_blank = isinstance(event, TextDelta) and not event.text.strip()  # the caller hears nothing of it
        if not is_blank and not isinstance(event, _REMARKS):
            break
    return held


def _common(models: Sequence[LLM]) -> LLMCapabilities:
    able = next((llm for llm in models if llm.capabilities.supports_tools), None)
    unable = next((llm for llm in models if not llm.capabilities.supports_tools), None)
    if able is not None and unable is not None:
        remedy = f"{able.provider} calls tools; choose models that all do, or none"
        raise CapabilityError(unable.provider, "supports_tools", remedy)
    return LLMCapabilities(
        supports_tools=able is not None,
        supports_images=all(llm.capabilities.supports_images for llm in models),
    )
