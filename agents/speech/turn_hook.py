"""The agent's `on_user_turn_completed`: called within its limit, before the turn is answered."""

from __future__ import annotations

import logging

import anyio

from vivavoce.agents.agent import CompletedTurn, StopResponse
from vivavoce.agents.speech.host import SpeechHost
from vivavoce.pipelines.core.checks import awaited
from vivavoce.pipelines.core.errors import located
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors
from vivavoce.pipelines.llm.chat_context import ChatMessage

logger = logging.getLogger(__name__)


async def completed_turn(host: SpeechHost, item: ChatMessage) -> CompletedTurn:
    """Let the agent edit the turn of `item`, and return what it left; a hook that fails is reported.

    Raises:
        StopResponse: The agent drops the turn.
    """
    turn = CompletedTurn(turn_id=item.turn_id, text=item.transcript, history=host.context())
    try:
        with host.observer.hook("on_user_turn_completed"), anyio.fail_after(host.limits.hook_timeout):
            with strays_as_errors("on_user_turn_completed"):
                await awaited("on_user_turn_completed", host.agent.on_user_turn_completed(turn))
    except StopResponse:
        raise
    except Exception as error:  # noqa: BLE001 - a user callback: the turn is answered without it
        logger.warning("on_user_turn_completed failed: %s", located(error))
        logger.debug("on_user_turn_completed failed here", exc_info=error)
        host.report_error(error, "hook")
    return turn
