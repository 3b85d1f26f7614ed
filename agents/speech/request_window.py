"""RequestWindow: the part of the conversation in a model's request, chosen by the application's policy."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Callable, Collection

import anyio

from vivavoce.agents.core.application_code import application_code
from vivavoce.agents.speech.seeing import Seeing
from vivavoce.pipelines.core.errors import ConfigurationError, located
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.llm.chat_units import TokenCounter, answered, completed, estimate_tokens
from vivavoce.pipelines.llm.context_window import ContextPolicy, ContextWindow

logger = logging.getLogger(__name__)


class RequestWindow:
    """Applies a policy, which is foreign code: it cannot change the history, separate a call from its output, leave out
    the message that is answered, or stop a turn.

    Args:
        policy: None sends everything.
        seeing: Adds pictures of the caller's video.
        report_error: Called when the policy fails; the whole conversation is sent then.
        limit: Seconds for an async policy.
    """

    def __init__(
        self,
        policy: ContextPolicy | None,
        seeing: Seeing,
        report_error: Callable[[Exception, str], None],
        *,
        limit: float,
    ) -> None:
        self._policy = policy
        self._seeing = seeing
        self._report_error = report_error
        self._limit = limit

    async def cut(self, context: ChatContext, needed: Callable[[], Collection[str]], turn_id: str) -> ChatContext:
        """Return the part of `context` that is sent, with pictures.

        Older pictures take only the room that the policy's limit leaves beside the words.

        Args:
            needed: Returns the ids of calls that run, or whose results no model has got yet; they are always sent.
            turn_id: The turn that is answered.
        """
        if not self._seeing.is_shown:
            return await self._cut(context, needed, turn_id)
        part = await self._cut(self._seeing.with_newest(context, turn_id, is_open=False), needed, turn_id)
        return self._with_older(part, turn_id)

    def cut_ahead(
        self, context: ChatContext, needed: Callable[[], Collection[str]], turn_id: str
    ) -> ChatContext | None:
        """Return the part for an open turn, whose request comes later: no failure is reported. None if the policy is
        async."""
        if not self._seeing.is_shown:
            return self._cut_now(context, needed, turn_id)
        part = self._cut_now(self._seeing.with_newest(context, turn_id, is_open=True), needed, turn_id)
        return None if part is None else self._with_older(part, turn_id)

    def _with_older(self, part: ChatContext, turn_id: str) -> ChatContext:
        policy, tokens = self._policy, math.inf
        count: TokenCounter = estimate_tokens
        if isinstance(policy, ContextWindow) and policy.max_tokens is not None:
            count = policy.count_tokens
            tokens = policy.max_tokens - sum(map(count, part))
        return self._seeing.with_older(part, turn_id, tokens=tokens, count_tokens=count)

    async def _cut(self, context: ChatContext, needed: Callable[[], Collection[str]], turn_id: str) -> ChatContext:
        if self._policy is None:
            return context
        try:
            part = await part_of(self._policy, context, self._limit)
        except Exception as error:  # noqa: BLE001 - a user callback: the turn is answered without it
            logger.warning("context_window failed: %s", located(error))
            logger.debug("context_window failed here", exc_info=error)
            self._report_error(error, "context_window")
            return context
        return self._completed(part, context, needed(), turn_id)

    def _cut_now(self, context: ChatContext, needed: Callable[[], Collection[str]], turn_id: str) -> ChatContext | None:
        if self._policy is None:
            return context
        if _is_async(self._policy):
            return None
        try:
            with application_code("the policy"):
                part = self._policy(context.copy())
            if inspect.isawaitable(part):
                _drop(part)
                return None
            part = _checked(part)
        except Exception:  # noqa: BLE001 - as above
            return context
        return self._completed(part, context, needed(), turn_id)

    def _completed(self, part: ChatContext, whole: ChatContext, needed: Collection[str], turn_id: str) -> ChatContext:
        message = answered(whole.items, turn_id) if turn_id else None
        full = ChatContext(completed(part.items, whole.items, needed, message))
        if len(full) > len(part) and isinstance(self._policy, ContextWindow):
            return self._policy.shortened(full)  # the calls that were added
        return full


async def part_of(policy: ContextPolicy, context: ChatContext, limit: float) -> ChatContext:
    """Return the part of `context` that a policy chooses, async ones included, within `limit` seconds.

    Raises:
        ConfigurationError: The policy returns something else.
        TimeoutError: The policy took longer.
    """
    async with application_code("the policy"):
        part = policy(context.copy())
        if inspect.isawaitable(part):
            with anyio.move_on_after(limit) as scope:
                part = await part
            if scope.cancelled_caught:
                raise TimeoutError(f"the policy did not return within {limit:g} s")
    return _checked(part)


def _checked(part: object) -> ChatContext:
    if not isinstance(part, ChatContext):
        raise ConfigurationError(f"a policy of a context must return a ChatContext, got {type(part).__name__}")
    return part


def _is_async(policy: ContextPolicy) -> bool:
    return inspect.iscoroutinefunction(policy) or inspect.iscoroutinefunction(type(policy).__call__)


def _drop(part: object) -> None:
    if inspect.iscoroutine(part):
        part.close()
