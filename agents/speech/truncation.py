"""Truncation: a model that keeps the conversation itself is told what of its answer was heard."""

from __future__ import annotations

from vivavoce.agents.audio.utterance import Utterance
from vivavoce.agents.speech.context import ReplyContext


def tell_cut(context: ReplyContext, utterance: Utterance, samples: int, turn_id: str | None) -> None:
    """Cut the items of an utterance that was stopped after `samples` samples.

    Args:
        turn_id: Whose history gets the words that were heard but are not known yet; None where it gets none.
    """
    heard, is_text = utterance.heard.at(samples), not context.live.capabilities.generates_audio
    items = utterance.items.cut_at(samples, heard, total=utterance.total, rate=utterance.rate, by_text=is_text)
    for item in items:
        context.live.connection.truncate(item.item_id, item.seconds, item.text)
        if item.share and not heard and turn_id is not None:
            context.history.add_cut(item.item_id, item.share, turn_id)
