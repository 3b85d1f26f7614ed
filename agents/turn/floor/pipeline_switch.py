"""PipelineChange: when another pipeline, which is open and waits, takes the conversation over.

Whoever has heard a turn answers it, and whoever speaks finishes: the change waits until no turn is open, the recogniser
owes no words, nothing speaks and what was asked for before it is over. What is asked for afterwards, and speeches that
wait for their tools, go on with the new pipeline. A handoff's hooks may wait for a change, so that it does not wait for
what waits for them.

An urgent change is one from a pipeline that is lost: nothing that it was to say can come any more. It waits for the
open turn only where that is still heard, by a recogniser of one's own; else the turn ends where its words do.

When its moment is there, nothing gets the floor until `PipelineChangeDue` comes, which is fed once everything that the
present pipeline has told is taken: what it tells later is of no turn of its own any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

from vivavoce.agents.turn.deadlines import NANOSECOND_DIGITS, Deadline
from vivavoce.agents.turn.effects import DropPipeline, Effect, TakePipeline
from vivavoce.agents.turn.floor.floor import Floor, Speech
from vivavoce.agents.turn.inputs import PipelineChangeRequested
from vivavoce.agents.turn.options import TurnOptions
from vivavoce.agents.turn.user.turn import UserSide

WIND_DOWN = 1.0
"""Seconds for which speeches that are over may still be unwinding: their records are the old pipeline's."""


class PipelineChange:
    """Holds the one change that waits.

    Args:
        take: Gives the machine's parts their options, those of the new pipeline.
        owed_until: Returns until when the present recogniser may still settle words that were committed.
        lose_turn: Ends what a lost pipeline was hearing.
        out: Effects go here.
    """

    def __init__(
        self,
        options: TurnOptions,
        floor: Floor,
        user: UserSide,
        *,
        take: Callable[[TurnOptions, float], None],
        owed_until: Callable[[], float],
        lose_turn: Callable[[float], None],
        out: list[Effect],
    ) -> None:
        self._options = options
        self._floor = floor
        self._user = user
        self._take = take
        self._owed_until = owed_until
        self._now = 0.0
        self._lose_turn = lose_turn
        self._out = out
        self._order = 0
        self._until = 0.0
        self._next_since: float | None = None
        self._is_patient = True
        self.waiting: PipelineChangeRequested | None = None
        """The one that waits."""

    def requested(self, event: PipelineChangeRequested, now: float, *, is_open: bool) -> None:
        """Another pipeline is ready; it takes the place of one that waits. It may be told again as urgent."""
        if self.waiting is None or self.waiting.change_id != event.change_id:
            self.drop("withdrawn")
            self._order, self._until = self._floor.next_order(), float("inf")
            self._next_since, self._is_patient = None, True
        self._until = min(self._until, now + event.within)
        self.waiting = event
        if not is_open:
            self.drop("closed")

    def withdrawn(self, change_id: str) -> None:
        """Nothing is to come of that one."""
        if self.waiting is not None and self.waiting.change_id == change_id:
            self.drop("withdrawn")

    def drop(self, reason: Literal["closed", "withdrawn", "no_moment"]) -> None:
        """Nothing comes of what waits."""
        if self.waiting is not None:
            self._out.append(DropPipeline(self.waiting.change_id, reason))
            self.waiting = None

    @property
    def is_due(self) -> bool:
        """Whether its moment is now, unless something that was told and not taken yet has ended it."""
        change = self.waiting
        return change is not None and (self._is_lost_moment(change) if change.is_urgent else self._is_moment)

    def holds_floor(self, now: float) -> bool:
        """Whether nothing may begin to speak before it: only what is winding down goes before it."""
        change, self._now = self.waiting, now
        if change is None or not (change.is_urgent or self._is_next):
            self._next_since = None
        elif self._next_since is None:
            self._next_since = now
        return self._next_since is not None

    def begin(self, now: float) -> None:
        """Nothing more was told: let it take over, if its moment is now."""
        if self.waiting is not None and self.is_due:
            self._begin(self.waiting, now)

    def deadlines(self) -> Iterator[Deadline]:
        """Yield until when the moment of the one that waits must have come, and what is over have wound down."""
        yield Deadline(self._until, self._on_limit)
        if self._is_owed:
            yield Deadline(self._owed_until(), self._on_settled)
        if self._next_since is not None and self._is_patient:
            yield Deadline(self._next_since + WIND_DOWN, self._on_wound_down)

    def _begin(self, change: PipelineChangeRequested, now: float) -> None:
        self.waiting = None
        if change.is_urgent:
            self._lose_turn(now)
        self._options = replace(
            self._options,
            detector_timeout=change.detector_timeout,
            remote_decides=change.remote_decides,
            hears_audio=change.hears_audio,
            max_attempts=change.max_attempts,
            voice_lag=change.voice_lag,
            emits_interims=change.emits_interims,
        )
        self._take(self._options, now)
        self._out.append(TakePipeline(change.change_id))

    def _is_lost_moment(self, change: PipelineChangeRequested) -> bool:
        return change.is_deaf or self._options.hears_audio or not self._user.is_active

    @property
    def _is_moment(self) -> bool:
        is_wound_down = not self._is_patient or all(speech.phase != "ending" for speech in self._floor.speeches)
        return is_wound_down and self._is_next

    @property
    def _is_next(self) -> bool:
        if self._user.is_active or self._is_owed:
            return False
        return not any(self._goes_first(speech) for speech in self._floor.live)

    @property
    def _is_owed(self) -> bool:
        return round(self._owed_until(), NANOSECOND_DIGITS) > self._now

    def _goes_first(self, speech: Speech) -> bool:
        if speech.phase not in ("queued", "lapsed", "prepared"):
            return speech.phase == "active"
        if speech.has_used_tools:
            return False
        is_turn = speech.kind == "turn"
        if self._floor.handoff and not speech.by_hook:
            return is_turn and self._options.hears_audio
        return is_turn or speech.order < self._order

    def _on_settled(self, now: float) -> None:
        self._now = now

    def _on_wound_down(self, now: float) -> None:
        self._is_patient = False

    def _on_limit(self, now: float) -> None:
        change = self.waiting
        assert change is not None
        if change.is_urgent:  # what is being said goes on longer than anyone should wait
            self._begin(change, now)
        else:
            self.drop("no_moment")
