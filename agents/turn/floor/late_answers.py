"""LateAnswers: when the model answers the results of tools whose own speech was cut, or has failed.

They are answered as soon as no speech is live and no user turn is open, by one reply for all of them. Results that the
request of another answer carries meanwhile, such as that to the user's next words, need no answer of their own.
"""

from __future__ import annotations

from vivavoce.agents.turn.effects import AnswerHistory, Effect
from vivavoce.agents.turn.floor.floor import Floor
from vivavoce.agents.turn.floor.moments import Moments
from vivavoce.agents.turn.inputs import AnswerOwed, SpeechRequested

NEVER = float("-inf")
"""When it was asked for: no caller's turn spares it, also not one whose speech the VAD reports only now."""


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
        """No model answers these results."""
        self._owed[event.results_id] = event.turn_id

    def carried(self, results_id: str) -> None:
        """A model answers these results."""
        self._owed.pop(results_id, None)

    def clear(self) -> None:
        """The session closes: nothing is answered any more."""
        self._owed.clear()

    def ask(self) -> None:
        """Queue a reply if one is owed and its moment has come."""
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
