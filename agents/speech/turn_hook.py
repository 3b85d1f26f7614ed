"""The code that a turn passes before its answer: the hook `on_user_turn_completed`, and the conversation graph.

Speech that they ask for is heard before the turn's answer; they may await it.
"""

from __future__ import annotations

from collections.abc import Callable

from vivavoce.agents.agent import CompletedTurn, StopResponse
from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.speech.context import ReplyContext
from vivavoce.agents.speech.flow_parts import TextParts
from vivavoce.agents.speech.turn_dialogue import SpokenTurn
from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder
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


def edit_turn(history: HistoryControl, item: ChatMessage, text: str) -> None:
    """Put the text that the hook has left of a turn into the history; without any the turn is not there."""
    if text.strip():
        history.replace_text(item, text)
    else:
        history.remove(item)


async def judge_turn(
    context: ReplyContext,
    item: ChatMessage,
    text: str,
    handle: SpeechHandle,
    record: TurnRecordBuilder,
    answer: Callable[[TextParts], None],
    *,
    is_remote: bool,
) -> None:
    """Let the graph judge the turn of `item`, whose words are `text`; arguments as of `SpokenTurn`."""
    assert context.dialogue is not None
    await context.dialogue.judge(SpokenTurn(handle, item.turn_id, text, record, answer, is_remote))
