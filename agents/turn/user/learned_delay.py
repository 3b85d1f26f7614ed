"""LearnedDelay: the length of a pause that ends the caller's turn, fixed or learned from the caller's own pauses.

The aim is the shortest delay that this caller's pauses *within* a turn rarely exceed. So only such pauses teach. The
events that follow a pause show which kind it was:

* Words that went on with the open turn, or with a committed one whose answer the caller had not heard yet (a merged
  turn: the delay was too short), or that began within `REACTION` of the answer's first sound, too early to be a
  reaction to it: a pause within the turn. Noise teaches nothing: it takes words.
* A turn that a pause ended and that went without one: the caller finished in one go, so the delay may shrink.

The estimate is exponential smoothing with two rates, which makes it a high quantile and not a mean (at a mean, half of
the caller's pauses would be cut off): half of the way to a pause that was too long for it, a tenth of the way back. Two
hesitations are enough to be patient, some ten quick turns to be brisk again; one outlier counts at most as `high` does.

LiveKit's dynamic endpointing, for comparison: one mean of all pauses (0.9 of the past), from `min_delay` upwards only;
noise between two sounds counts as a pause; and `max_delay` follows the silence before the agent's speech, in which its
own delay is contained. Here `max_delay` stays as the options set it: it belongs to the turn detector, and pauses that
the detector judged incomplete do not teach.

Without a VAD there are no pauses to learn from, and the delay stays where it is.

The learned delay belongs to the caller: where agents have options of their own, `dynamic` goes on from the delay that
it has learned so far, within the bounds of the new options, also after an agent whose delay is fixed.
"""

from __future__ import annotations

from vivavoce.agents.turn.options import EndpointingOptions

RISE = 0.5
"""Share of the way towards a longer pause that the delay takes."""
FALL = 0.1
"""Share of the way towards a shorter pause that the delay takes."""
MARGIN = 0.15
"""Seconds by which the delay must exceed a pause."""
REACTION = 0.25
"""Seconds of the agent's speech within which the caller cannot have reacted to it yet."""


class LearnedDelay:
    """Owns the delay that ends a turn which the detector judged complete, or did not judge."""

    def __init__(self, options: EndpointingOptions) -> None:
        self.min_delay = options.min_delay
        """The present delay, in seconds of silence."""
        self.is_dynamic = options.mode == "dynamic"
        self._low, self._high = options.learned
        self._learned: float | None = None
        """The delay learned before the present options, if these do not learn."""
        self._ended_at: float | None = None
        self._pause: float | None = None
        self._has_paused = False
        self._went_without = False

    def take_options(self, options: EndpointingOptions) -> None:
        """Use these options, of the agent that has the conversation."""
        if self.is_dynamic:
            self._learned = self.min_delay
        self.is_dynamic = options.mode == "dynamic"
        self._low, self._high = options.learned
        self.min_delay = options.min_delay
        if self.is_dynamic and self._learned is not None:
            self.min_delay = min(max(self._learned, self._low), self._high)
        elif not self.is_dynamic:
            self._pause, self._has_paused, self._went_without = None, False, False

    def speech_began(self, at: float, since: float | None) -> None:
        """Note that the caller sounds again at `at`.

        Args:
            since: The beginning of the pause within the turn; None if it is not such a pause.
        """
        self._pause = None if since is None else max(0.0, at - since)

    @property
    def ended_at(self) -> float | None:
        """The true end of the last committed turn."""
        return self._ended_at

    def words_came(self) -> None:
        """Note that the sound has words: the pause before it was a pause within the turn."""
        if self._pause is not None:
            self._has_paused, self._went_without = True, False
            self._move(self._pause + MARGIN)
            self._pause = None

    def turn_ended(self, silence_since: float | None) -> None:
        """Note that a turn was committed.

        Args:
            silence_since: The true end of its speech; None if the turn was not ended by a pause.
        """
        self._ended_at, self._pause = silence_since, None
        if self._went_without:  # only now is it sure that nothing followed
            self._move(self._low)
        self._went_without = self.is_dynamic and silence_since is not None and not self._has_paused
        self._has_paused = False

    def _move(self, wanted: float) -> None:
        rate = RISE if wanted > self.min_delay else FALL
        moved = self.min_delay + rate * (min(wanted, self._high) - self.min_delay)
        self.min_delay = max(moved, self._low)
