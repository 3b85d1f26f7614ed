"""The hook `on_user_turn_completed`, which a turn passes before its answer.

Speech that it asks for is heard before the turn's answer; it may await that.
"""

from __future__ import annotations

from vivavoce.agents.agent import CompletedTurn, StopResponse
from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.speech.context import ReplyContext
from vivavoce.pipelines.core.checks import awaited
from vivavoce.pipelines.llm.chat_context import ChatMessage

NAME = "on_user_turn_completed"


async def completed_turn(context: ReplyContext, item: ChatMessage, answer: SpeechHandle) -> CompletedTurn:
    """Let the agent edit the turn of `item`, and return the edited turn; a hook that fails is reported.

    A hook that has run for these words before a crash does not run again: its result is used.

    Raises:
        StopResponse: The agent drops the turn.
    """
    left, history = context.checkpoints.passed(item.turn_id).instructions, context.conversation(item.id)
    turn = CompletedTurn(turn_id=item.turn_id, text=item.transcript, history=history, instructions=left or "")
    if left is not None:
        return turn
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


def edit_turn(context: ReplyContext, item: ChatMessage, turn: CompletedTurn) -> bool:
    """Put the text that the hook has left of a turn into the history; return whether the text has changed.

    A turn without any text is removed.
    """
    is_edited = turn.text != item.transcript
    if is_edited and turn.text.strip():
        context.history.replace_text(item, turn.text)
    elif is_edited:
        context.history.withhold(item)
    context.checkpoints.hook_has_run(item.turn_id, turn.instructions)
    return is_edited
