"""PreemptiveReplies: carries out the preemptive answers that the turn machine decides on."""

from __future__ import annotations

from vivavoce.agents.speech.preemptive import PreemptiveReply
from vivavoce.agents.speech.reply_context import ReplyContext
from vivavoce.agents.turn.effects import DropAttempt, StartAttempt


class PreemptiveReplies:
    """Keeps the one attempt that is alive. Its request is what the turn's reply would ask if the turn were over now.

    Args:
        with_voice: Whether attempts are synthesised ahead too.
    """

    def __init__(self, host: ReplyContext, *, with_voice: bool) -> None:
        self._host = host
        self._with_voice = with_voice
        self._current: PreemptiveReply | None = None

    def start(self, effect: StartAttempt) -> None:
        """Begin one, where the pipeline lets one begin; a conversation flow's turns have effects, so that none is."""
        host = self._host
        if host.links is None or not host.capabilities.can_preempt or host.flows.flow is not None:
            return
        context = host.context_ahead(effect.turn_id, effect.text)
        request = host.step_request(context, turn_id=effect.turn_id, may_call=host.limits.max_tool_steps > 0)
        self._current = attempt = PreemptiveReply(effect.attempt_id, host, request, with_voice=self._with_voice)
        host.group.start_soon(attempt.run, name=f"{effect.attempt_id} of {effect.turn_id}")

    def drop(self, effect: DropAttempt) -> None:
        """Throw it away."""
        attempt = self.take(effect.attempt_id)
        if attempt is not None:
            attempt.drop()

    def take(self, attempt_id: str) -> PreemptiveReply | None:
        """Hand it over, if there is one of that id."""
        attempt = self._current
        if attempt is None or attempt.id != attempt_id:
            return None
        self._current = None
        return attempt
