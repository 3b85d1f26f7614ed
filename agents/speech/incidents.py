"""SpeechIncidents: retries and fallbacks of a speech's providers, on their way to its record and the session's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.core.incidents import FellBack, on_fallback
from vivavoce.pipelines.core.retry import on_retry

if TYPE_CHECKING:
    from vivavoce.agents.speech.context import ReplyContext
    from vivavoce.agents.speech.preemptive import PreemptiveReply
    from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder


class SpeechIncidents:
    """Notes the incidents of one speech.

    Args:
        record: Of the speech's turn.
    """

    def __init__(self, record: TurnRecordBuilder, context: ReplyContext) -> None:
        self._record = record
        self._context = context

    def listen(self) -> None:
        """Note the incidents of this task, and of the tasks that it starts."""
        on_retry.set(self._retried)
        on_fallback.set(self._fell_back)

    def take(self, attempt: PreemptiveReply) -> None:
        """Note the incidents of an answer that was begun before the turn was over."""
        attempt.retries.pass_on_to(self._retried)
        attempt.fallbacks.pass_on_to(self._fell_back)

    def _retried(self, error: Exception, attempt: int) -> None:
        self._record.add_retry(error, attempt, self._context.clock.now())

    def _fell_back(self, fell: FellBack) -> None:
        self._record.add_fallback(fell, self._context.clock.now())
        self._context.session.log.fell_back(fell)
