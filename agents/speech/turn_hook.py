"""The hook `on_user_turn_completed`. Speech that it asks for is heard before the turn's answer; it may await it."""

from __future__ import annotations

from vivavoce.agents.agent import CompletedTurn, StopResponse
from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.speech.context import ReplyContext
from vivavoce.pipelines.core.checks import awaited
from vivavoce.pipelines.llm.chat_context import ChatMessage

NAME = "on_user_turn_completed"


async def completed_turn(context: ReplyContext, item: ChatMessage, answer: SpeechHandle) -> CompletedTurn:
    """Let the agent edit the turn of `item`, and return the edited turn; a hook that fails is reported.

    Raises:
        StopResponse: The agent drops the turn.
    """
    turn = CompletedTurn(turn_id=item.turn_id, text=item.transcript, history=context.conversation(item.id))
    await context.session.hooks.run(
        "turn hook",
        NAME,
        lambda: awaited(NAME, context.live.agent.on_user_turn_completed(turn)),
        context.limits.hook_timeout,
        "without its speeches",
        watch=context.session.observer.hook(NAME),
        answer_id=answer.id,
        lets_out=(StopResponse,),
    )
    return turn
