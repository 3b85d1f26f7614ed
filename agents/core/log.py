"""SessionLog: the only writer of a session's events, and the keeper of its states, turns and usage for the report."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

from anyio.abc import TaskGroup

from vivavoce.agents import events as ev
from vivavoce.agents.core.application_code import drop_stray_cancellation
from vivavoce.agents.core.emitter import SessionEmitter
from vivavoce.agents.core.hooks import Hooks
from vivavoce.agents.core.inbox import Inbox
from vivavoce.agents.events import SessionEvent
from vivavoce.agents.records import (
    BudgetRecord,
    CloseReport,
    ComponentRecord,
    DroppedTurnRecord,
    DropReason,
    ErrorRecord,
    MarkRecord,
    RecordingRecord,
    SessionReport,
    StateRecord,
    TurnRecord,
    UsageRecord,
)
from vivavoce.agents.telemetry.observer import NO_OBSERVER, SessionObserver
from vivavoce.agents.turn_records.parts import TurnParts
from vivavoce.agents.turn_records.turn_record import add_usage
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import describe
from vivavoce.pipelines.core.incidents import FellBack
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.stt.recognised import STTWord, earlier

logger = logging.getLogger(__name__)

E = TypeVar("E", bound=SessionEvent)

MAX_ERRORS = 500
"""The report's first errors; more are counted."""
MAX_BESIDE = 10_000
"""Marks and dropped turns that the report keeps, together."""


class SessionLog:
    """Notes events when they happen and hands them out by `flush()`, after all effects of a step.

    Args:
        session_id: For the report.
        inbox: Woken by each event that has handlers, so that the loop flushes.
        callback_timeout: Seconds for one run of an async handler.
    """

    def __init__(self, session_id: str, clock: Clock, inbox: Inbox, *, callback_timeout: float) -> None:
        self.session_id = session_id
        self._clock = clock
        self._inbox = inbox
        self.hooks = Hooks(self.report_error)
        """Runs the application code, and reports its errors as events."""
        self.emitter = SessionEmitter(self.hooks, report_frame=self.note_repeated_error, timeout=callback_timeout)
        """Hands events to handlers."""
        self._pending: deque[SessionEvent] = deque()
        self._sequence = 0
        self._states: list[StateRecord] = []
        self.turns: list[TurnRecord] = []
        self._words: dict[str, tuple[str, bool]] = {}
        """The words of turns whose message was changed and whose record is not made yet; whether they are an edit."""
        self.usage = UsageRecord()
        self._errors: list[ErrorRecord] = []
        self._errors_left_out = 0
        self._repeated: dict[object, int | None] = {}
        """An error that may come again and again → its index in the kept errors."""
        self._beside: list[MarkRecord | DroppedTurnRecord] = []
        """Marks, and the turns that were not answered."""
        self._budget: Callable[[], BudgetRecord | None] = lambda: None
        self.job_id = ""
        self.started_at = 0.0
        """Session clock at `start()`."""
        self.started_wall = 0.0
        self.room = ""
        self.observer: SessionObserver = NO_OBSERVER
        """The session's telemetry; one that does nothing before `start()`."""

    def start(self, observer: SessionObserver, *, room: str, job_id: str) -> None:
        """Note that the session starts now, in that room and job; `observer` watches from now on."""
        self.observer = observer
        self.started_at = self._clock.now()
        self.started_wall = self._clock.wall()
        self.room = room
        self.job_id = job_id

    def open(self, group: TaskGroup) -> None:
        """Let async handlers run in `group`."""
        self.hooks.open(group)

    def note(self, event: type[E], /, *, at: float | None = None, turn_id: str = "", **fields: Any) -> None:
        """Note an event that happened at `at` (session clock), by default now.

        Without a handler for it, the event is counted and not made.
        """
        self._sequence += 1
        if self.observer.is_on:
            self.observer.noted(event, fields)
        keep = _KEPT.get(event)
        if keep is not None:
            keep(self, (self._clock.now() if at is None else at) - self.started_at, fields)
        if not self.emitter.is_listened_to(event.name):
            return
        moment = (self._clock.now() if at is None else at) - self.started_at
        self._pending.append(event(at=moment, sequence=self._sequence, turn_id=turn_id, **fields))
        self._inbox.wake()

    def timed(self, words: Sequence[STTWord]) -> tuple[STTWord, ...]:
        """Return words with times of the session clock with seconds from the session's start."""
        return earlier(words, self.started_at)

    def report_error(self, error: Exception, source: str, *, is_recovered: bool = False, successor: str = "") -> None:
        """Note an `error` event; `successor`: the component that took the place of the one that failed."""
        self.note(ev.ErrorOccurred, error=error, source=source, is_recovered=is_recovered, successor=successor)

    def fell_back(self, fell: FellBack) -> None:
        """Note that a component failed and another one takes its place."""
        self.observer.fell_back(fell)
        if not fell.is_reported:
            self.report_error(fell.error, fell.component, is_recovered=True, successor=fell.successor)

    def note_repeated_error(self, who: Hashable, error: Exception, source: str, *, is_recovered: bool = False) -> bool:
        """Note an error that may come again and again: an event the first time, then counted in the report.

        Args:
            who: Identifies it: the code that is called for each frame, or the problem.
        Returns:
            Whether it is the first one.
        """
        is_first = who not in self._repeated
        if is_first:
            kept = len(self._errors)
            self.report_error(error, source, is_recovered=is_recovered)
            self._repeated[who] = kept if kept < len(self._errors) else None
        elif (index := self._repeated[who]) is not None:
            before = self._errors[index]
            self._errors[index] = replace(before, times=before.times + 1)
        return is_first

    def note_state(self, who: Literal["user", "agent"], state: str, at: float) -> None:
        """Note a change of state for the report."""
        self._states.append(StateRecord(who=who, state=state, at=at - self.started_at))

    def note_turn(self, record: TurnRecord, parts: TurnParts) -> None:
        """Keep the record of a turn that is over."""
        self.turns.append(record)
        waited = "" if record.e2e_latency is None else f" after {record.e2e_latency:.2f} s"
        ids = {"turn_id": record.turn_id}
        logger.info("%s (%s) %s%s", record.turn_id, record.kind, record.outcome, waited, extra=ids)
        self.observer.turn_ended(record, parts)
        self.note(ev.TurnCompleted, turn_id=record.turn_id, record=record)

    def set_words(self, turn_id: str, words: str, *, is_edited: bool) -> None:
        """Take the words that the user's message of a turn has now. Its record has them in place of earlier ones.

        Args:
            is_edited: Whether the application or the guard has written them: no part of the turn keeps other ones.
        """
        for place in reversed(range(len(self.turns))):
            if self.turns[place].turn_id == turn_id:
                if self.turns[place].user_text:
                    kept = () if is_edited else self.turns[place].user_words
                    self.turns[place] = replace(self.turns[place], user_text=words, user_words=kept)
                return
        if turn_id:
            self._words[turn_id] = words, is_edited

    def take_words(self, turn_id: str) -> tuple[str, bool] | None:
        """Return the words of `set_words()` for the record of the turn, and whether they are an edit; None without."""
        return self._words.pop(turn_id, None)

    def note_dropped_turn(self, parts: TurnParts, reason: DropReason) -> None:
        """Keep that a turn will not be answered."""
        self.observer.turn_dropped(parts, reason)
        if len(self._beside) < MAX_BESIDE:
            at = parts.began_at - self.started_at
            self._beside.append(DroppedTurnRecord(turn_id=parts.turn_id, reason=reason, at=at))

    def add_usage(self, used: UsageRecord) -> None:
        """Add to the usage of the session."""
        self.usage = add_usage(self.usage, used)

    def flush(self) -> None:
        """Hand the noted events to their handlers, in order."""
        while self._pending:
            self.emitter.emit(self._pending.popleft())

    async def hand_out(self) -> None:
        """Hand out the noted events, in a task that goes on although a handler cancels it."""
        self.flush()
        await drop_stray_cancellation()

    def _keep_error(self, at: float, fields: dict[str, Any]) -> None:
        if len(self._errors) >= MAX_ERRORS:
            self._errors_left_out += 1
            return
        error, source = describe(fields["error"]), fields["source"]
        is_recovered, successor = fields["is_recovered"], fields["successor"]
        self._errors.append(
            ErrorRecord(at=at, source=source, error=error, is_recovered=is_recovered, successor=successor)
        )

    def _mark(self, name: str, at: float, detail: str = "") -> None:
        if len(self._beside) < MAX_BESIDE:
            self._beside.append(MarkRecord(at=at, name=name, detail=detail))

    def reports_budget(self, read: Callable[[], BudgetRecord]) -> None:
        """Have reports show the budget that `read` returns."""
        self._budget = read

    def report(
        self,
        close: CloseReport | None,
        *,
        pipeline: Pipeline,
        agent_id: str,
        recordings: tuple[RecordingRecord, ...],
    ) -> SessionReport:
        """Return everything kept so far."""
        ends = [state.at for state in self._states if state.state == "closed"]
        return SessionReport(
            seconds=ends[-1] if ends else max(0.0, self._clock.now() - self.started_at) if self.started_wall else 0.0,
            job_id=self.job_id,
            agent_id=agent_id,
            pipeline=pipeline.name,
            components=tuple(ComponentRecord(kind, *which) for kind, *which in pipeline.capabilities.components),
            errors=tuple(self._errors),
            errors_left_out=self._errors_left_out,
            marks=tuple(each for each in self._beside if isinstance(each, MarkRecord)),
            recordings=recordings,
            session_id=self.session_id,
            started_at=self.started_wall,
            room=self.room,
            turns=tuple(self.turns),
            dropped_turns=tuple(each for each in self._beside if isinstance(each, DroppedTurnRecord)),
            states=tuple(self._states),
            usage=self.usage,
            close=close,
            budget=self._budget(),
        )


_KEPT: dict[type[SessionEvent], Callable[[SessionLog, float, dict[str, Any]], None]] = {
    ev.ErrorOccurred: SessionLog._keep_error,
    ev.WakeUpFired: lambda log, at, fields: log._mark("wake_up", at, f"level {fields['level']}"),
    ev.TranscriptMissing: lambda log, at, fields: log._mark("transcript_missing", at),
    ev.AgentChanged: lambda log, at, fields: log._mark("agent_changed", at, f"{fields['old']} to {fields['agent']}"),
    ev.GraphMoved: lambda log, at, fields: log._mark("graph_moved", at, f"{fields['old']} to {fields['state']}"),
    ev.PipelineChanged: lambda log, at, fields: log._mark(
        "pipeline_changed", at, f"{fields['old']} to {fields['pipeline']}"
    ),
    ev.UserTurnLimitReached: lambda log, at, fields: log._mark("user_turn_limit_reached", at, fields["limit"]),
    ev.BudgetWarning: lambda log, at, fields: log._mark("budget_warning", at, fields["kind"]),
    ev.BudgetExceeded: lambda log, at, fields: log._mark("budget_exceeded", at, fields["kind"]),
    ev.ConnectionReplaced: lambda log, at, fields: log._mark(
        "connection_replaced", at, f"{fields['component']}, {fields['reason']}, gap of {fields['gap']:.3f} s"
    ),
}
"""The events that the report keeps, with or without handlers."""
