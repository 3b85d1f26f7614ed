"""Hooks of a turn: the agent's `on_user_turn_completed`, and a run of the application's code that may speak.

Speech that such code asks for is heard before the turn's answer, and the code may await it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import anyio

from vivavoce.agents.agent import CompletedTurn, StopResponse
from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.speech.context import ReplyContext
from vivavoce.pipelines.core.checks import awaited
from vivavoce.pipelines.core.errors import located
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors
from vivavoce.pipelines.llm.chat_context import ChatMessage

logger = logging.getLogger(__name__)


class TurnHook:
    """One run of the application's code for a turn.

    Args:
        answer: The speech that answers the turn.
        limit: Seconds for the run. They stand still until the speech that it asks for is over.
    """

    def __init__(self, answer: SpeechHandle, limit: float = math.inf) -> None:
        self.answer = answer
        self.has_spoken = False
        """Whether it has asked for any speech."""
        self.is_over = False
        self._limit = limit
        self._scope = anyio.CancelScope()
        self._left = limit
        self._speeches = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Hold the run; what it asks to be spoken belongs to it.

        Raises:
            TimeoutError: It took longer than the limit.
        """
        token = _running_hook.set(self)
        self._scope.deadline = anyio.current_time() + self._limit
        try:
            with self._scope:
                yield
        finally:
            self.is_over = True
            _running_hook.reset(token)
        if self._scope.cancelled_caught:
            raise TimeoutError(f"it took longer than {self._limit:g} s, its speech apart")

    def take(self, handle: SpeechHandle) -> None:
        """The run asked for that speech."""
        self.has_spoken = True
        if not self._speeches:
            self._left = self._scope.deadline - anyio.current_time()
            self._scope.deadline = math.inf
        self._speeches += 1
        handle.add_done_callback(self._spoken)

    def _spoken(self, handle: SpeechHandle) -> None:
        self._speeches -= 1
        if not self._speeches:
            self._scope.deadline = anyio.current_time() + self._left


_running_hook: ContextVar[TurnHook | None] = ContextVar("running_turn_hook", default=None)


def running_turn_hook() -> TurnHook | None:
    """Return the hook that the calling code is part of, while it runs."""
    hook = _running_hook.get()
    return None if hook is None or hook.is_over else hook


async def completed_turn(context: ReplyContext, item: ChatMessage, answer: SpeechHandle) -> CompletedTurn:
    """Let the agent edit the turn of `item`, and return what it left; a hook that fails is reported.

    Raises:
        StopResponse: The agent drops the turn.
    """
    turn = CompletedTurn(turn_id=item.turn_id, text=item.transcript, history=context.conversation())
    try:
        with (
            context.session.observer.hook("on_user_turn_completed"),
            TurnHook(answer, context.limits.hook_timeout).running(),
        ):
            with strays_as_errors("on_user_turn_completed"):
                await awaited("on_user_turn_completed", context.live.agent.on_user_turn_completed(turn))
    except StopResponse:
        raise
    except Exception as error:  # noqa: BLE001 - a user callback: the turn is answered without it
        logger.warning("on_user_turn_completed failed: %s", located(error))
        logger.debug("on_user_turn_completed failed here", exc_info=error)
        context.session.report_error(error, "hook")
    return turn
