"""RequestWindow: the part of the conversation that goes into a model's request, by the application's policy."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from vivavoce.pipelines.core.errors import ConfigurationError, located
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.llm.chat_units import completed
from vivavoce.pipelines.llm.context_window import ContextPolicy

logger = logging.getLogger(__name__)


class RequestWindow:
    """Applies a policy, which is foreign code: it cannot harm the history, part a call from its output, or stop a turn.

    Args:
        policy: None sends everything.
        report_error: Called when the policy fails; the whole conversation is sent then.
    """

    def __init__(self, policy: ContextPolicy | None, report_error: Callable[[Exception, str], None]) -> None:
        self._policy = policy
        self._report_error = report_error

    def cut(
        self, context: ChatContext, needed: Callable[[], Collection[str]], *, is_quiet: bool = False
    ) -> ChatContext:
        """Return the part of `context` that is sent.

        Args:
            needed: Returns the ids of calls that run or whose results no model was sent yet; they are sent in any case.
            is_quiet: Whether a failure is not reported: the turn that this is for will ask again.
        """
        if self._policy is None:
            return context
        try:
            part = self._policy(context.copy())
            if not isinstance(part, ChatContext):
                raise ConfigurationError(
                    f"context_window must return a ChatContext, got {type(part).__name__}; it must not be async"
                )
        except Exception as error:  # noqa: BLE001 - a user callback: the turn is answered without it
            if is_quiet:
                return context
            logger.warning("context_window failed: %s", located(error))
            logger.debug("context_window failed here", exc_info=error)
            self._report_error(error, "context_window")
            return context
        return ChatContext(completed(part.items, context.items, needed()))
