"""PreemptiveReplies: carries out the preemptive answers that the turn machine decides on."""

from __future__ import annotations

from vivavoce.agents.speech.context import ReplyContext
from vivavoce.agents.speech.preemptive import PreemptiveReply
from vivavoce.agents.speech.turn_extensions import turn_ahead
from vivavoce.agents.turn.effects import DropAttempt, StartAttempt


class PreemptiveReplies:
    """Keeps the one attempt that is alive. Its request is the one that the turn's reply would have if the turn ended
    now.

    Args:
        with_voice: Whether attempts are synthesised ahead too.
    """

    def __init__(self, context: ReplyContext, *, with_voice: bool) -> None:
        self._context = context
        self._with_voice = with_voice
        self._current: PreemptiveReply | None = None

    def start(self, effect: StartAttempt) -> None:
        """Begin an attempt if the pipeline allows it; not with a conversation flow, whose turns have effects.

        It begins none with an async `context_window`, or with an extension that must know the whole turn. Extensions
        that judge words look at the attempt's words first, in its own task.
        """
        context, judges = self._context, self._context.extensions.judges
        if not context.live.capabilities.can_preempt or context.flows.answers or judges == "turn":
            return
        chat, may_call = context.context_ahead(effect.turn_id, effect.text), context.limits.max_tool_steps > 0
        if chat is None:
            return
        request = context.step_request(chat, turn_id=effect.turn_id, may_call=may_call)
        turn = turn_ahead(context, effect.turn_id, effect.text) if judges == "words" else None
        attempt = PreemptiveReply(effect.attempt_id, context, request, turn, with_voice=self._with_voice)
        self._current = attempt
        context.session.group.start_soon(attempt.run, name=f"{effect.attempt_id} of {effect.turn_id}")

    def drop(self, effect: DropAttempt) -> None:
        attempt = self.take(effect.attempt_id)
        if attempt is not None:
            attempt.drop()

    def take(self, attempt_id: str) -> PreemptiveReply | None:
        """Return the attempt with that id, if there is one; the caller owns it then."""
        attempt = self._current
        if attempt is None or attempt.id != attempt_id:
            return None
        self._current = None
        return attempt
