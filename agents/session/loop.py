"""SessionLoop: the one loop of a session. Inputs and deadlines go to the turn machine, its effects to `apply`."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from anyio.lowlevel import checkpoint

from vivavoce.agents.core.application_code import repeat
from vivavoce.agents.core.inbox import Barrier, Entry
from vivavoce.agents.session.apply import apply
from vivavoce.agents.session.parts import SessionParts
from vivavoce.agents.states import CloseReason
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.core.errors import located
from vivavoce.pipelines.events import UserFinal, UserInterim

logger = logging.getLogger(__name__)

MAX_FAILED_STEPS = 5
"""Steps in a row that may raise; the session closes with reason `error` at the next one."""

SOURCE = "decision loop"

# Tuples, where a step of the machine passes: `A | B` would make a new type each time.
_WORDS = (UserFinal, UserInterim)
_SILENCES = (i.UserAudioStopped, i.ParticipantLeft)
_OF_SPEECHES = (fx.CommitUserTurn, fx.AnswerHistory, fx.GrantFloor, fx.PrepareSpeech, fx.CancelSpeech)
"""Effects that raise end their speech, or the turn machine would wait for it."""


class SessionLoop:
    """Runs a conversation from its first input to its last, on the session's event loop.

    An input that raises is dropped, and so is an effect; the other effects of the step are carried out. Each is an
    `error` event of the source `decision loop`. When more than `MAX_FAILED_STEPS` steps in a row have raised, the
    session closes.
    """

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._context = parts.context
        self._inbox = parts.context.inbox
        self._machine = parts.machine
        self._failed_steps = 0
        """The steps in a row that have raised."""
        self._error: Exception | None = None
        """The error of the present step."""
        self._has_given_up = False
        """Whether the loop asks for no more deadlines, since each of them may raise."""

    async def run(self) -> None:
        """Take inputs and deadlines until cancelled."""
        await repeat(self._round, lambda: self._context.report_cancelled(SOURCE))

    async def _round(self) -> None:
        machine, inbox = self._machine, self._inbox
        while inbox:
            self._step(inbox.take())
        deadline = None if self._has_given_up else machine.next_deadline()
        if machine.is_change_due and not self._has_given_up:
            self._step(i.PipelineChangeDue())
        elif deadline is None or deadline > self._context.clock.now():
            self._context.log.flush()
            await inbox.wait(deadline)
        else:
            await checkpoint()  # an input that arrives at this very moment goes first
            if not inbox:
                self._step(i.Tick())

    def step(self, event: i.TurnInput) -> None:
        """Take one input at once, before the inbox; for the lifecycle, in start and close."""
        self._step(event)
        self._inbox.wake()  # the loop may be waiting for a deadline that this has changed

    def end(self) -> None:
        """Drop all inputs and all audio, and forget the speeches that are left."""
        self._inbox.close()
        self._parts.playout.close()
        self.end_speeches()

    def end_speeches(self) -> None:
        """Forget the speeches that are left; their handles resolve."""
        for effect in self._parts.speeches.left_behind():
            apply(self._parts, effect)

    def _step(self, entry: Entry) -> None:
        try:
            if isinstance(entry, Barrier):
                entry.reach()
            else:
                self._take(entry)
        except Exception as error:  # noqa: BLE001 - one input must not end the conversation
            self._failed(error, entry)
            if isinstance(entry, i.SpeechEnded):
                apply(self._parts, fx.ForgetSpeech(entry.speech_id, entry.outcome))
        raised, self._error = self._error, None
        self._failed_steps = 0 if raised is None else self._failed_steps + 1
        if self._failed_steps > MAX_FAILED_STEPS and not self._has_given_up:
            self._has_given_up = True
            self._context.closing.request(CloseReason.ERROR, raised)

    def _failed(self, error: Exception, at: object) -> None:
        """Log and report the error of an input or an effect."""
        logger.error("The decision loop goes on without %s, which raised %s", type(at).__name__, located(error))
        logger.debug("It raised here", exc_info=error)
        self._context.report_error(error, SOURCE)
        self._error = error

    def _take(self, event: i.TurnInput) -> None:
        parts, machine, observer = self._parts, self._machine, self._context.observer
        if isinstance(event, i.PlayoutStarted) and parts.playout.has_taken_back(event.speech_id, event.at):
            return  # it was paused at this very moment
        if isinstance(event, _SILENCES):
            self._context.live.connection.audio_stopped()
        open_before = machine.open_turn_id
        effects = machine.handle(event, now=self._context.clock.now())
        parts.records.step(event, effects, machine.open_turn_id)
        if observer.is_on:
            observer.step(event, effects)
        if isinstance(event, _WORDS):
            turn_id = _turn_of(effects, fx.AmendUserTurn) or open_before or machine.open_turn_id
            turn_id = turn_id or _turn_of(effects, fx.CommitUserTurn)
            parts.transcripts.user(event, turn_id)
        elif isinstance(event, i.TextReceived):
            parts.transcripts.typed(event.text)
        for effect in effects:
            try:
                apply(parts, effect)
            except Exception as error:  # noqa: BLE001 - one effect must not end the conversation
                self._failed(error, effect)
                if isinstance(effect, _OF_SPEECHES):
                    parts.speeches.fail(effect.speech_id, error)
        self._context.hooks.agent_is(busy=bool(parts.speeches))


def _turn_of(effects: Sequence[fx.Effect], kind: type[fx.CommitUserTurn | fx.AmendUserTurn]) -> str:
    """Return the turn of the first effect of a kind; empty if there is none."""
    return next((effect.turn_id for effect in effects if isinstance(effect, kind)), "")
