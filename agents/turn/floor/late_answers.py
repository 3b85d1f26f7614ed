"""LateAnswers: decides when the model answers results of tools whose own speech was cut or has failed.

They are answered as soon as no speech is live and no user turn is open, by one reply for all of them. Results that the
request of another answer carries meanwhile, such as that to the user's next words, need no answer of their own.
"""

from __future__ import annotations

from vivavoce.agents.turn.effects import AnswerHistory, Effect
from vivavoce.agents.turn.floor.floor import Floor
from vivavoce.agents.turn.floor.moments import Moments
from vivavoce.agents.turn.inputs import AnswerOwed, SpeechRequested

NEVER = float("-inf")
"""The time of the request: before the onset of every turn, so that no turn spares the answer, even one that the VAD
reports only now."""


class LateAnswers:
    """Keeps the results that no answer has, by their ids.

    Args:
        out: Effects go here.
    """

    def __init__(self, floor: Floor, moments: Moments, out: list[Effect]) -> None:
        self._floor = floor
        self._moments = moments
        self._out = out
        self._owed: dict[str, str] = {}
        self._count = 0

    def owed(self, event: AnswerOwed) -> None:
        """Note results that no model answers."""
        self._owed[event.results_id] = event.turn_id

    def carried(self, results_id: str) -> None:
        """Note that a model answers these results."""
        self._owed.pop(results_id, None)

    def clear(self) -> None:
        """Forget all results, since the session closes."""
        self._owed.clear()

    def ask(self) -> None:
        """Queue a reply if one is owed and now is the time for it."""
        if not self._owed or not self._moments.is_between_turns:
            return
        self.answer(next(iter(self._owed.values())))
        self._owed.clear()

    def answer(self, turn_id: str) -> None:
        """Queue a reply that answers the history."""
        self._count += 1
        asked = SpeechRequested(speech_id=f"late_answer_{self._count}", kind="reply")
        self._floor.add(asked.speech_id, "reply", asked=asked, asked_at=NEVER)
        self._out.append(AnswerHistory(asked.speech_id, turn_id))
