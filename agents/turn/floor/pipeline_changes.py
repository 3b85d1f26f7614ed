"""PipelineChanges: decides which pipeline is opened next and when it takes over, and handles the loss of the one in
use.

Changes do not overlap: one that is asked for during another follows it. A change to the pipeline in use does nothing.

The pipeline that has heard a turn answers it, and a speech that sounds is finished: a change waits until no turn is
open, the recogniser owes no words, nothing speaks and all speech asked for before it is over. Speech that is asked for
afterwards, and speeches that wait for their tools, go on with the new pipeline. A handoff may wait for a change, so a
change does not wait for speech that waits for the handoff, nor for an answer that waits for tools of its hook's speech.
Where all components stay that hear the caller, the turn is heard as before: such a change waits for speech only.

When the pipeline in use is lost for good, the change that is under way, or the next one, takes over as soon as it is
open; without one the pipeline's fallback does, and without a fallback the session closes. The lost pipeline cannot
finish its speeches. Its successor waits for the open turn only where a recogniser of the session's own still hears
that, and not for long; else the turn ends where its words do. If the answer to the last turn has failed before the
caller heard any of it, the successor answers that turn.

At the moment of a change nothing gets the floor until `PipelineChangeDue` comes. It is fed once everything that the
present pipeline has reported is taken: its later reports belong to no turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.deadlines import NANOSECOND_DIGITS, Deadline
from vivavoce.agents.turn.effects import (
    CloseSession,
    DropPipeline,
    Effect,
    OpenPipeline,
    ReportLoss,
    TakePipeline,
)
from vivavoce.agents.turn.floor.floor import Floor
from vivavoce.agents.turn.floor.speech import Speech
from vivavoce.agents.turn.options import PipelineTraits
from vivavoce.agents.turn.options_in_use import OptionsInUse
from vivavoce.agents.turn.user.user_side import UserSide

WIND_DOWN = 1.0
"""Seconds for which finished speeches may still be ending: their records are the old pipeline's."""
FALLBACK_WITHIN = 5.0
"""Seconds in which an open turn that is still heard may end before the successor of a lost pipeline takes over."""
EARS = ("stt", "vad", "pipeline")
"""The components whose loss means that a session with its own recogniser no longer hears the caller."""


@dataclass(frozen=True, slots=True)
class Change:
    """A requested change of the pipeline.

    Args:
        within: Seconds after the opening of the pipeline within which it must take over.
    """

    change_id: str
    pipeline: str
    within: float


@dataclass(slots=True)
class Opened:
    """The open pipeline of the change under way, which waits for its moment.

    Args:
        order: Its place among the requests for speech: speech that was asked for before it goes first.
        until: The latest time to take over.
        keeps_ears: Whether all components stay that hear the caller.
        next_since: The time since which only speeches that are winding down go before it; None while others do.
        is_patient: Whether it waits for speeches that are winding down.
    """

    traits: PipelineTraits
    order: int
    until: float
    keeps_ears: bool = False
    next_since: float | None = None
    is_patient: bool = True

    def hurry(self, until: float) -> None:
        """Set the latest time to take over to `until`, if that is earlier."""
        self.until = min(self.until, until)

    def become_next(self, now: float) -> None:
        """Note that only speeches that are winding down go before the pipeline, from now on unless that is known
        already."""
        if self.next_since is None:
            self.next_since = now

    def wait(self) -> None:
        """Note that other speeches go before the pipeline."""
        self.next_since = None

    def lose_patience(self) -> None:
        """Stop waiting for speeches that are winding down."""
        self.is_patient = False


class PipelineChanges:
    """Holds the pipeline in use, the change that is under way and the changes behind it.

    Args:
        take: Makes the machine use the traits of the new pipeline, which may keep the ears.
        owed_until: Returns the time until which the present recogniser may still settle committed words.
        lose_turn: Ends the speech that a lost pipeline was hearing.
        answer_lost_turn: Has the new pipeline answer the last turn, if the lost one has failed to.
        out: Effects go here.
    """

    def __init__(
        self,
        options: OptionsInUse,
        floor: Floor,
        user: UserSide,
        *,
        take: Callable[[PipelineTraits, float, bool], None],
        owed_until: Callable[[], float],
        lose_turn: Callable[[float], None],
        answer_lost_turn: Callable[[], None],
        out: list[Effect],
    ) -> None:
        self._options = options
        self._floor = floor
        self._user = user
        self._take = take
        self._owed_until = owed_until
        self._lose_turn = lose_turn
        self._answer_lost_turn = answer_lost_turn
        self._out = out
        self._in_use = i.FIRST_PIPELINE
        self._is_lost = False
        """Whether the pipeline in use is lost for good."""
        self._is_deaf = False
        """Whether no part of the session hears the caller any more."""
        self._fallback = ""
        self._fallbacks = 0
        self._has_given_up = False
        self._is_closed = False
        self._current: Change | None = None
        self._behind: deque[Change] = deque()
        self.ready: Opened | None = None
        """The open pipeline of the change under way."""

    # --- inputs

    def requested(self, event: i.PipelineChangeRequested) -> None:
        """Queue a change to another pipeline, by the application's request."""
        if self._is_closed:
            self._out.append(DropPipeline(event.change_id, "closed"))
            return
        self._behind.append(Change(event.change_id, event.pipeline, event.within))
        self._begin_next()

    def opened(self, event: i.PipelineReady, now: float) -> None:
        """Note that the pipeline of the change under way is open."""
        if self._current is not None and self._current.change_id == event.change_id:
            within = FALLBACK_WITHIN if self._is_lost else self._current.within
            self.ready = Opened(event.traits, self._floor.next_order(), now + within, event.keeps_ears)

    def failed(self, change_id: str) -> None:
        """Drop that change: its pipeline could not be opened, or is not wanted any more."""
        if self._current is not None and self._current.change_id == change_id:
            self._drop("failed")
        for change in [change for change in self._behind if change.change_id == change_id]:
            self._behind.remove(change)
            self._out.append(DropPipeline(change_id, "failed"))

    def lost(self, event: i.PipelineLost, now: float) -> None:
        """Note the loss of a pipeline: the one in use, its planned successor, or a pipeline that was left."""
        if event.pipeline == self._in_use:
            self._is_lost, self._fallback = True, event.fallback
            self._is_deaf = self._is_deaf or self._options.traits.hears_audio or event.component in EARS
            goes_on = bool(event.fallback or self._current or self._behind)
            keeps_audio = self._is_deaf and not self._is_closed
            self._out.append(ReportLoss(event.pipeline, goes_on, keeps_audio, event.loss_id))
            if self.ready is not None:
                self.ready.hurry(now + FALLBACK_WITHIN)
            if self._current is None and not self._is_closed:
                self._replace_lost()
            return
        self._out.append(ReportLoss(event.pipeline, True, False, event.loss_id))
        if self._current is not None and event.pipeline == self._current.pipeline:
            self._drop("failed")

    def fell_back(self, event: i.FallbackAtStart, now: float) -> None:
        """Note that the session starts with that pipeline instead of the one before."""
        self._in_use = event.pipeline
        self._lose_turn(now)
        self._take(event.traits, now, False)

    def close(self) -> None:
        """Drop all changes, since the session closes."""
        self._is_closed = True
        behind, self._behind = self._behind, deque()
        self._drop("closed")
        self._out += [DropPipeline(change.change_id, "closed") for change in behind]

    def begin(self, now: float) -> None:
        """Let the open pipeline take over if it may do so now; all inputs are taken."""
        if self.is_due:
            self._begin(now)

    # --- the moment

    @property
    def is_due(self) -> bool:
        """Whether the pipeline may take over now, unless an input that is not taken yet prevents it."""
        ready = self.ready
        return ready is not None and (self._is_lost_moment if self._is_lost else self._is_moment(ready))

    def holds_floor(self, now: float) -> bool:
        """Return whether no speech may begin before the open pipeline takes over: only speeches that are winding down
        go before it."""
        ready = self.ready
        assert ready is not None
        if self._is_lost or self._is_next(ready):
            ready.become_next(now)
        else:
            ready.wait()
        return ready.next_since is not None

    def deadlines(self) -> Iterator[Deadline]:
        """Yield the latest time to take over, and the time by which speeches must have wound down."""
        ready = self.ready
        assert ready is not None
        yield Deadline(ready.until, self._on_limit)
        if self._is_owed:
            yield Deadline(self._owed_until(), self._on_settled)
        if ready.next_since is not None and ready.is_patient:
            yield Deadline(ready.next_since + WIND_DOWN, self._on_wound_down)

    @property
    def _is_lost_moment(self) -> bool:
        return self._is_deaf or self._options.traits.hears_audio or not self._user.is_active

    def _is_moment(self, ready: Opened) -> bool:
        is_wound_down = not ready.is_patient or not any(speech.is_over for speech in self._floor.speeches)
        return is_wound_down and self._is_next(ready)

    def _is_next(self, ready: Opened) -> bool:
        if not ready.keeps_ears and (self._user.is_active or self._is_owed):
            return False
        return not any(self._goes_first(speech, ready) for speech in self._floor.present)

    @property
    def _is_owed(self) -> bool:
        return round(self._owed_until(), NANOSECOND_DIGITS) > self._floor.now

    def _goes_first(self, speech: Speech, ready: Opened) -> bool:
        if not speech.waits:
            return speech.has_floor
        if speech.has_used_tools or self._floor.awaits_tools_of_hook(speech):
            return False
        is_turn = speech.kind == "turn"
        if self._floor.is_behind_handoff(speech):
            return is_turn and self._options.traits.hears_audio and not ready.keeps_ears
        return is_turn or speech.order < ready.order

    def _on_settled(self, now: float) -> None:
        """Note that no words are owed any more: the open pipeline may now take over."""

    def _on_wound_down(self, now: float) -> None:
        assert self.ready is not None
        self.ready.lose_patience()

    def _on_limit(self, now: float) -> None:
        if self._is_lost:  # the turn continues for longer than its caller should wait
            self._begin(now)
        else:
            self._drop("no_moment")

    # --- from one change to the next

    def _begin(self, now: float) -> None:
        ready, change, was_lost = self.ready, self._current, self._is_lost
        assert ready is not None
        assert change is not None
        self._in_use, self._current, self.ready = change.pipeline, None, None
        self._is_lost = self._is_deaf = self._has_given_up = False
        self._fallback = ""
        if was_lost:
            self._lose_turn(now)
        self._take(ready.traits, now, ready.keeps_ears and not was_lost)
        self._out.append(TakePipeline(change.change_id))
        if was_lost:
            self._answer_lost_turn()
        self._begin_next()

    def _drop(self, reason: Literal["closed", "failed", "no_moment", "in_use"]) -> None:
        change, self._current, self.ready = self._current, None, None
        if change is None:
            return
        self._out.append(DropPipeline(change.change_id, reason))
        if self._is_lost and not self._is_closed:
            self._replace_lost(but=change.pipeline)
        self._begin_next()

    def _replace_lost(self, but: str = "") -> None:
        """Replace a lost pipeline by the next change, or by its fallback unless the fallback has just failed."""
        if not self._behind and self._fallback not in ("", but):
            self._fallbacks += 1
            self._behind.append(Change(f"fallback_{self._fallbacks}", self._fallback, FALLBACK_WITHIN))
        if not self._behind and not self._has_given_up:
            self._has_given_up = True
            self._out.append(CloseSession("pipeline_lost"))
        self._begin_next()

    def _begin_next(self) -> None:
        if self._current is None and self._behind:
            self._current = change = self._behind.popleft()
            if change.pipeline == self._in_use:
                self._drop("in_use")
            else:
                self._out.append(OpenPipeline(change.change_id, change.pipeline))
