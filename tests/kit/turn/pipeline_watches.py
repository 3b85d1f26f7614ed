"""Models of the changes of a pipeline, and of the answers that are owed late, beside a turn machine."""

from __future__ import annotations

from kit.turn.watches import FloorWatch
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.machine import TurnMachine


class LateAnswerWatch:
    """Results without an answer are answered once, when no speech is live and no turn is open, and never before.

    Args:
        floor: Sees each input and effect first.
    """

    def __init__(self, floor: FloorWatch) -> None:
        self._floor = floor
        self.known: list[str] = []
        self._owed: dict[str, str] = {}
        self._live: set[str] = set()
        self._changes: set[str] = set()
        self._is_open = True
        self._turns: dict[str, str] = {}
        self._failed: set[str] = set()
        self._lost_turn_may_follow = False

    def sees_input(self, event: i.TurnInput) -> None:
        """Follow outstanding finals."""
        self._lost_turn_may_follow = False
        match event:
            case i.AnswerOwed():
                self.known.append(event.results_id)
                if self._is_open:
                    self._owed[event.results_id] = event.turn_id
            case i.ResultsCarried():
                self._owed.pop(event.results_id, None)
            case i.SpeechRequested():
                self._live.add(event.speech_id)
            case i.PipelineReady():
                self._changes.add(event.change_id)
            case i.SessionClosing() | i.SessionClosed():
                self._is_open = False
                self._owed.clear()

    def sees_effect(self, effect: fx.Effect) -> None:
        """Check a late answer."""
        match effect:
            case fx.CommitUserTurn():
                self._live.add(effect.speech_id)
                self._turns[effect.speech_id] = effect.turn_id
            case fx.ForgetSpeech():
                self._live.discard(effect.speech_id)
                if effect.outcome == "failed" and effect.speech_id in self._turns:
                    self._failed.add(self._turns[effect.speech_id])
            case fx.TakePipeline() | fx.DropPipeline():
                self._changes.discard(effect.change_id)
                self._lost_turn_may_follow = isinstance(effect, fx.TakePipeline)
            case fx.AnswerHistory() if self._lost_turn_may_follow and effect.turn_id in self._failed:
                self._live.add(effect.speech_id)
            case fx.AnswerHistory():
                assert self._owed, "results are answered that need no answer"
                assert effect.turn_id == next(iter(self._owed.values()))
                assert not self._live - self._floor.behind.keys(), "a late answer comes beside another speech"
                self._live.add(effect.speech_id)
                self._owed.clear()

    def check(self, machine: TurnMachine) -> None:
        """Nothing is owed in silence, unless another pipeline takes over first."""
        assert not self._owed or self._live or machine.open_turn_id or self._changes, "results are never answered"


class PipelineWatch:
    """Changes do not overlap and each ends once; a lost pipeline has a successor, or the session closes."""

    def __init__(self) -> None:
        self.in_use = i.FIRST_PIPELINE
        self.current: fx.OpenPipeline | None = None
        self.is_ready = False
        self.waiting: list[str] = []
        self._lost: i.PipelineLost | None = None
        self._is_open = True
        self._may_close = self._has_given_up = self._is_lost = False

    def sees_input(self, event: i.TurnInput) -> None:
        """Follow requested, opened and lost pipelines."""
        self._lost = event if isinstance(event, i.PipelineLost) else None
        match event:
            case i.PipelineChangeRequested():
                self.waiting.append(event.change_id)
            case i.PipelineReady() if self.current is not None and event.change_id == self.current.change_id:
                self.is_ready = True
            case i.PipelineLost() if event.pipeline == self.in_use:
                self._is_lost, self._may_close = True, not self._has_given_up
            case i.FallbackAtStart():
                self.in_use = event.pipeline
            case i.PipelineChangesClosed() | i.SessionClosing() | i.SessionClosed():
                self._is_open = False

    def sees_effect(self, effect: fx.Effect) -> None:
        """Check a change, and the effects of a loss."""
        match effect:
            case fx.OpenPipeline():
                assert self.current is None, "two changes are under way"
                assert self._is_open, "a session that closes opens a pipeline"
                if effect.change_id.startswith("fallback"):
                    assert self._is_lost, "a pipeline falls back that is not lost"
                    assert not self.waiting, "the fallback goes before a change"
                else:
                    assert self.waiting.pop(0) == effect.change_id
                self.current, self.is_ready = effect, False
            case fx.TakePipeline():
                assert self.current is not None
                assert effect.change_id == self.current.change_id
                assert self.is_ready, "a pipeline takes over that is not open"
                self.in_use, self.current = self.current.pipeline, None
                self._may_close = self._has_given_up = self._is_lost = False
            case fx.DropPipeline():
                if self.current is not None and effect.change_id == self.current.change_id:
                    self.current = None
                else:
                    self.waiting.remove(effect.change_id)
            case fx.ReportLoss():
                assert self._lost is not None
                assert (effect.pipeline, effect.loss_id) == (self._lost.pipeline, self._lost.loss_id)
                has_successor = bool(self._lost.fallback or self.current or self.waiting)
                assert effect.goes_on == (effect.pipeline != self.in_use or has_successor)
                self._lost = None
            case fx.CloseSession(reason="pipeline_lost"):
                assert self._may_close, "the session closes by a loss that there is not"
                assert (self.current, self.waiting) == (None, []), "the session closes though a pipeline follows"
                self._may_close, self._has_given_up = False, True

    def check(self) -> None:
        """Each loss is reported, and a lost pipeline is followed by another one."""
        assert self._lost is None, "a loss is not reported"
        assert self.current is not None or not self.waiting, "a change never begins"
        assert not (self._may_close and self._is_open) or self.current is not None, "a lost pipeline has no successor"

    def check_closed(self) -> None:
        """Nothing is under way."""
        assert (self.current, self.waiting) == (None, []), "a change was neither made nor dropped"
