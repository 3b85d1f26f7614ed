"""Passes a turn of the caller to the extensions, before its answer.

Speech that they ask for is heard before the answer; they may await it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from vivavoce.agents.agent import StopResponse
from vivavoce.agents.extension.turn_in_hand import TurnInHand
from vivavoce.pipelines.core.words import same_words

if TYPE_CHECKING:
    from vivavoce.agents.core.speech_handle import SpeechHandle
    from vivavoce.agents.speech.context import ReplyContext
    from vivavoce.agents.speech.preemptive import PreemptiveReply
    from vivavoce.agents.speech.request import SpeechRequest
    from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder
    from vivavoce.pipelines.llm.chat_context import ChatMessage


def turn_ahead(context: ReplyContext, turn_id: str, text: str) -> TurnInHand:
    """Return a turn that is not over yet, whose words are `text` so far."""
    checkpoints = context.checkpoints
    return TurnInHand(
        turn_id,
        text,
        inbox=context.session.inbox,
        note_taken=partial(checkpoints.turn_taken, turn_id),
        taken_by=checkpoints.passed(turn_id).taken_by,
    )


def turn_to_answer(
    context: ReplyContext,
    request: SpeechRequest,
    text: str,
    handle: SpeechHandle,
    record: TurnRecordBuilder,
    attempt: PreemptiveReply | None,
) -> TurnInHand:
    """Return the turn that the request answers, with the final words `text`.

    Args:
        attempt: The answer that was begun ahead. Extensions that have looked at the same words for it do not get them
            again.
    """
    assert request.user_item is not None, "it answers the caller"
    turn = None if attempt is None else attempt.turn
    if attempt is not None and turn is not None and not same_words(turn.text, text):
        attempt.drop(record)
        turn = None
    turn = turn or turn_ahead(context, request.user_item.turn_id, text)
    said = request.user_item.transcript  # the hook and the guard have replaced it in the history alone
    turn.commit(handle, record, text, said=said, is_remote=bool(request.remote_reply_id))
    return turn


async def pass_extensions(
    context: ReplyContext, turn: TurnInHand, item: ChatMessage, attempt: PreemptiveReply | None
) -> None:
    """Wait for the extensions that look at the turn of `item`; do not wait if the model's server has begun the answer.

    Raises:
        StopResponse: An extension drops the turn.
    """
    context.extensions.hold(turn)  # it may be withdrawn while it is looked at
    if turn.is_remote:
        context.session.group.start_soon(context.extensions.take_turn, turn, name=f"extensions at {turn.turn_id}")
        return
    if attempt is not None and attempt.turn is turn:
        await attempt.looked.wait()  # bounded by the limits of the extensions
    await context.extensions.take_turn(turn)
    if turn.is_dropped:
        context.history.remove(item)
        raise StopResponse
