"""Effects of the turn machine, carried out: one function for each kind of effect."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from vivavoce.agents import events as ev
from vivavoce.agents.agent import EmptyReply
from vivavoce.agents.session.parts import SessionParts
from vivavoce.agents.states import AgentState, CloseReason
from vivavoce.agents.turn import effects as fx
from vivavoce.pipelines.core.errors import SessionError

logger = logging.getLogger(__name__)


def apply(parts: SessionParts, effect: fx.Effect) -> None:
    """Carry out one effect. Synchronous: an effect that has to wait begins a task, which reports by an input."""
    _APPLY[type(effect)](parts, effect)


# --- states


def _set_agent_state(parts: SessionParts, effect: fx.SetAgentState) -> None:
    log = parts.context.log
    log.note(ev.AgentStateChanged, at=effect.at, old=effect.old, state=effect.state)
    log.note_state("agent", effect.state, effect.at)
    parts.background.set_agent_state(effect.state)
    if (transport := parts.context.live.transport) is not None:  # a start may fail before it has one
        transport.send_agent_state(effect.state)


def _set_user_state(parts: SessionParts, effect: fx.SetUserState) -> None:
    log = parts.context.log
    log.note(ev.UserStateChanged, at=effect.at, old=effect.old, state=effect.state)
    log.note_state("user", effect.state, effect.at)


# --- turns of the user


def _commit_user_turn(parts: SessionParts, effect: fx.CommitUserTurn) -> None:
    connection, history = parts.context.live.connection, parts.history
    if effect.settles_audio:
        connection.commit_audio()
    connection.conversation.bind_turn(effect.turn_id, effect.remote_reply_id)
    item = history.user_item(effect.amends or effect.turn_id) if effect.merged or effect.amends else None
    if item is not None:
        item = history.hear(item, effect.text, turn_id=effect.turn_id)
    else:
        item = history.add_message("user", effect.text, turn_id=effect.turn_id, in_model=effect.is_heard, is_heard=True)
    parts.caller.seeing.commit(item.id)
    parts.speeches.answer_turn(effect, item)
    parts.handoffs.turn_committed()
    parts.keeping.checkpoints.turn_committed(effect.turn_id)
    parts.context.log.note(ev.SpeechCreated, turn_id=effect.turn_id, speech_id=effect.speech_id, kind="turn")


def _amend_user_turn(parts: SessionParts, effect: fx.AmendUserTurn) -> None:
    item = parts.history.user_item(effect.turn_id)
    if item is not None:
        parts.history.amend(item, effect.text)
        parts.keeping.checkpoints.changed()


def _add_backchannel(parts: SessionParts, effect: fx.AddBackchannel) -> None:
    parts.context.live.connection.drop_audio()
    parts.history.add_message("user", effect.text, turn_id=effect.turn_id, backchannel=True, is_heard=True)


def _drop_user_turn(parts: SessionParts, effect: fx.DropUserTurn) -> None:
    parts.context.live.connection.drop_audio()
    if effect.reason == "transcript_missing":
        parts.context.log.note(ev.TranscriptMissing, turn_id=effect.turn_id)


def _turn_limit_reached(parts: SessionParts, effect: fx.UserTurnLimitReached) -> None:
    parts.context.log.note(
        ev.UserTurnLimitReached,
        turn_id=effect.turn_id,
        limit=effect.limit,
        words=effect.words,
        seconds=effect.seconds,
    )


def _predict_end_of_turn(parts: SessionParts, effect: fx.PredictEndOfTurn) -> None:
    spoken = parts.history.messages("assistant")
    parts.context.live.connection.predict_end_of_turn(effect.text, spoken[-1].content if spoken else "")


# --- speeches


def _forget_speech(parts: SessionParts, effect: fx.ForgetSpeech) -> None:
    forgotten = parts.speeches.forget(effect)
    if forgotten is None:
        return
    reply, record = forgotten
    if effect.outcome == "failed":
        parts.silence.last_words.speech_failed(reply.failure.error)
    if record is None:
        return
    parts.transcripts.turn(record)
    parts.tools.answer_over(record.turn_id, record.answers_turn_id)
    if effect.outcome != "cancelled" or not parts.machine.open_turn_id:  # else the turn that is open answers both
        parts.keeping.checkpoints.turn_over(record.turn_id, record.answers_turn_id)
    if reply.handle.kind == "turn":
        parts.tasks.answered(record.turn_id)
    if record.is_empty and parts.machine.agent_state is not AgentState.CLOSING:
        tools = tuple(tool.name for tool in record.tools)
        empty = EmptyReply(record.turn_id, reply.record.user_text, tools)
        parts.silence.last_words.reply_was_empty(parts.context.live.agent, empty)


# --- the session


def _wake_user(parts: SessionParts, effect: fx.WakeUser) -> None:
    parts.context.log.note(ev.WakeUpFired, level=effect.level)
    parts.silence.wake_up.make(effect.level)


def _close_session(parts: SessionParts, effect: fx.CloseSession) -> None:
    if effect.reason == "error":
        parts.silence.last_words.gave_up(effect.component)
    if effect.reason == "pipeline_lost":
        parts.silence.last_words.pipeline_lost(parts.context.live.capabilities)
        parts.context.closing.request(CloseReason.ERROR, parts.pipelines.switch.failure)
    else:
        parts.context.closing.request(CloseReason(effect.reason))


def _policy_failed(parts: SessionParts, effect: fx.PolicyFailed) -> None:
    logger.debug("InterruptionOptions.%s failed:\n%s", effect.option, effect.details)
    message = f"InterruptionOptions.{effect.option}: {effect.problem}; the default was taken"
    parts.context.report_error(SessionError(message), "policy")


def _deadline_dropped(parts: SessionParts, effect: fx.DeadlineDropped) -> None:
    message = (
        f"{effect.due} was due at {effect.at:.3f} s of the session's clock and changed nothing; it was passed over. "
        "Report this as a fault of vivavoce, with a trace (VIVAVOCE_TRACE)"
    )
    logger.error("The turn machine: %s", message)
    parts.context.report_error(SessionError(message), "turn", is_recovered=True)


_APPLY: dict[type, Callable[[SessionParts, Any], None]] = {
    fx.SetAgentState: _set_agent_state,
    fx.SetUserState: _set_user_state,
    fx.CommitUserTurn: _commit_user_turn,
    fx.AmendUserTurn: _amend_user_turn,
    fx.AddBackchannel: _add_backchannel,
    fx.DropUserTurn: _drop_user_turn,
    fx.UserTurnLimitReached: _turn_limit_reached,
    fx.PredictEndOfTurn: _predict_end_of_turn,
    fx.SettleAudio: lambda parts, effect: parts.context.live.connection.commit_audio(),
    fx.ClearAudio: lambda parts, effect: parts.context.live.connection.clear_audio(),
    fx.RefuseRemoteReply: lambda parts, effect: parts.context.live.connection.refuse(effect.remote_reply_id),
    fx.StartAttempt: lambda parts, effect: parts.speeches.attempts.start(effect),
    fx.DropAttempt: lambda parts, effect: parts.speeches.attempts.drop(effect),
    fx.AnswerHistory: lambda parts, effect: parts.speeches.answer_history(effect),
    fx.GrantFloor: lambda parts, effect: parts.speeches.grant(effect),
    fx.PrepareSpeech: lambda parts, effect: parts.speeches.prepare(effect),
    fx.TakeFloorBack: lambda parts, effect: parts.speeches.take_floor_back(effect),
    fx.InterruptCalls: lambda parts, effect: parts.speeches.interrupt_calls(effect),
    fx.PauseSpeech: lambda parts, effect: parts.speeches.pause(effect),
    fx.ResumeSpeech: lambda parts, effect: parts.speeches.resume(effect),
    fx.CancelSpeech: lambda parts, effect: parts.speeches.cancel(effect),
    fx.ForgetSpeech: _forget_speech,
    fx.BeginHandoff: lambda parts, effect: parts.handoffs.begin(effect.handoff_id),
    fx.DropHandoff: lambda parts, effect: parts.handoffs.drop(effect.handoff_id),
    fx.OpenPipeline: lambda parts, effect: parts.pipelines.switch.begin(effect),
    fx.ReportLoss: lambda parts, effect: parts.pipelines.switch.report_loss(effect),
    fx.TakePipeline: lambda parts, effect: parts.pipelines.switch.take(effect),
    fx.DropPipeline: lambda parts, effect: parts.pipelines.switch.drop(effect),
    fx.WakeUser: _wake_user,
    fx.HangUp: lambda parts, effect: parts.silence.hang_ups.after_silence(),
    fx.HeardOut: lambda parts, effect: parts.context.closing.heard_out.set(),
    fx.CloseSession: _close_session,
    fx.PolicyFailed: _policy_failed,
    fx.DeadlineDropped: _deadline_dropped,
}
