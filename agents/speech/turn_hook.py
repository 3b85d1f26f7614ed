"""The hook `on_user_turn_completed`, which a turn passes before its answer.

Speech that it asks for is heard before the turn's answer; it may await that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from vivavoce.agents.agent import CompletedTurn, StopResponse
from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.speech.context import ReplyContext
from vivavoce.pipelines.core.checks import awaited
from vivavoce.pipelines.llm.chat_context import ChatMessage

NAME = "on_user_turn_completed"


async def pass_hook(
    context: ReplyContext, item: ChatMessage, answer: SpeechHandle, unless_cut: Callable[[], Awaitable[None]]
) -> tuple[CompletedTurn, bool]:
    """Let the agent edit the turn of `item`; return the edited turn, and whether its text has changed.

    A hook that fails is reported. A hook that has run for these words before a crash does not run again: its result is
    used.

    Args:
        unless_cut: Leaves the call if the answer was cut while the hook ran.
    Raises:
        StopResponse: The turn gets no answer. It is in the history only if the agent takes it.
    """
    left, history = context.checkpoints.passed(item.turn_id).instructions, context.conversation(item.id)
    turn = CompletedTurn(turn_id=item.turn_id, text=item.transcript, history=history, instructions=left or "")
    try:
        if left is None:
            await _run_hook(context, turn, answer)
    except StopResponse as stop:
        await unless_cut()
        if stop.is_taken:
            _edit_turn(context, item, turn)
        else:
            context.history.remove(item)
        raise
    await unless_cut()
    return turn, _edit_turn(context, item, turn)


async def _run_hook(context: ReplyContext, turn: CompletedTurn, answer: SpeechHandle) -> None:
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


def _edit_turn(context: ReplyContext, item: ChatMessage, turn: CompletedTurn) -> bool:
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
