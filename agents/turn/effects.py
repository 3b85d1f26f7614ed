"""The effects of the turn machine, which the session carries out in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from vivavoce.agents.states import AgentState, UserState
from vivavoce.agents.turn.inputs import EndedAs


@dataclass(frozen=True, slots=True)
class SetAgentState:
    """The agent's state changed at `at`."""

    old: AgentState
    state: AgentState
    at: float


@dataclass(frozen=True, slots=True)
class SetUserState:
    """The user's state changed at `at`."""

    old: UserState
    state: UserState
    at: float


StoppedAs = Literal["interrupted", "cancelled", "discarded"]

EndedBy = Literal[
    "pause",
    "transcript_timeout",
    "recogniser",
    "request",
    "text",
    "remote_reply",
    "max_turn_words",
    "max_turn_duration",
    "no_words",
    "late_final",
    "close",
]
"""The end of a user turn: silence, silence without the final that was due, a request, a limit, sound without words that
goes on, or a final that changed words which were answered already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTiming:
    """When the parts of an end of turn became known (session clock); None for parts that did not happen.

    Args:
        speech_ended_at: The true end of the user's speech; where there was none (text), the arrival.
        end_reported_at: When the VAD reported it.
        final_at: When the last words arrived.
        predicted_at: When the turn detector's verdict arrived.
        committed_at: When the turn was committed.
        delay: The seconds of silence, from `speech_ended_at`, that ended the turn; None where something else did.
    """

    speech_ended_at: float
    end_reported_at: float | None
    final_at: float | None
    predicted_at: float | None
    committed_at: float
    ended_by: EndedBy = "pause"
    delay: float | None = None


InterruptedBy = Literal["voice", "text", "request", "speech", "caller_left", "close"]
"""The cause that holds or cuts the agent: the caller's voice or typed text, a call of `interrupt()`, another speech,
the caller's leaving, the close."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a speech is held or cut.

    Args:
        candidate_at: The true onset of the user's newest speech (session clock), where the cause is a voice; None where
            the user has not spoken.
    """

    by: InterruptedBy
    candidate_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitUserTurn:
    """The user's turn is over: `text` goes into the history and a speech of this id answers it.

    Args:
        speech_started_at: The true onset of the turn's speech; without a VAD, when its first words came. None where the
            user did not speak.
        merged: The turn was committed before and went on: its item is replaced by one with this (joined) text.
        amends: The turn whose answer was heard before a late final changed its words: its item becomes this turn's.
        is_heard: A model that hears the caller has all of it from its audio.
        settles_audio: The audio heard so far is of this turn: the recogniser is to settle it. Not where only typed
            text is committed, nor in the middle of speech without a request to end it, nor where a remote model did.
        remote_reply_id: The answer that a remote model began by itself, if it did.
        attempt_id: The answer begun on the same words before the turn was over, if there is one.
    """

    turn_id: str
    speech_id: str
    text: str = field(repr=False)
    timing: TurnTiming
    speech_started_at: float | None = None
    merged: bool = False
    amends: str = ""
    is_heard: bool = False
    settles_audio: bool = False
    remote_reply_id: str = ""
    attempt_id: str = ""


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """Begin to answer the open turn, whose words are probably `text`; it must stay invisible before the commit."""

    attempt_id: str
    turn_id: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class DropAttempt:
    """That attempt will not be committed."""

    attempt_id: str


@dataclass(frozen=True, slots=True)
class UserTurnLimitReached:
    """The user's turn is committed next, though the user may talk on: it has reached a limit.

    Args:
        words, seconds: How long it is by now.
    """

    turn_id: str
    limit: Literal["max_turn_words", "max_turn_duration"]
    words: int
    seconds: float


@dataclass(frozen=True, slots=True)
class AmendUserTurn:
    """A late final settles words that were committed as an interim: the turn's item gets this text, without an answer.

    Args:
        speech_id: The speech that answers the turn.
        text: All words of the turn.
    """

    turn_id: str
    speech_id: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AddBackchannel:
    """The user's "mhm": kept in the history, and not answered."""

    turn_id: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class DropUserTurn:
    """The user's turn came to nothing."""

    turn_id: str
    reason: Literal["noise", "transcript_missing", "cleared", "closed"]


@dataclass(frozen=True, slots=True)
class GrantFloor:
    """That speech may generate and play now."""

    speech_id: str


@dataclass(frozen=True, slots=True)
class PrepareSpeech:
    """That answer may generate now; it waits for the floor to play, behind speech whose words are known."""

    speech_id: str


@dataclass(frozen=True, slots=True)
class TakeFloorBack:
    """That speech loses the floor for now: it neither generates nor plays until it is granted again."""

    speech_id: str


@dataclass(frozen=True, slots=True)
class CancelSpeech:
    """Stop that speech: fade, silence, end with `outcome`.

    Args:
        is_withdrawn: The turn that it answers continues under the same id, so that this was not the turn's outcome.
        cause: None if the speech never had the floor, since it was refused or is out of date.
    """

    speech_id: str
    outcome: StoppedAs
    is_withdrawn: bool = False
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class ForgetSpeech:
    """The speech is over; exactly one such effect for each speech. A speech that never began is over with its cancel.

    Args:
        outcome: The outcome of its handle and of its turn.
        is_withdrawn: The turn that it answers continues under the same id: `outcome` is not the turn's.
    """

    speech_id: str
    outcome: EndedAs
    is_withdrawn: bool = False
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class AnswerHistory:
    """Have the model answer the present history, by a `reply` of this id.

    Args:
        turn_id: The turn, or the speech, that the reply answers late.
    """

    speech_id: str
    turn_id: str


@dataclass(frozen=True, slots=True)
class InterruptCalls:
    """The caller took the floor while that speech waits for its tools: cancel its calls with `cancel_on_interrupt`."""

    speech_id: str


@dataclass(frozen=True, slots=True)
class PauseSpeech:
    """Hold that speech's playout where it is, or before it begins."""

    speech_id: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class ResumeSpeech:
    """Let that speech's playout go on. `is_false_interruption` if it had been paused in the middle, for nothing."""

    speech_id: str
    is_false_interruption: bool


@dataclass(frozen=True, slots=True)
class BeginHandoff:
    """The floor is free: let the old agent leave and the new one enter. Until it is over only their hooks speak."""

    handoff_id: str


@dataclass(frozen=True, slots=True)
class DropHandoff:
    """The session closes: nothing more comes of that handoff, whether it has begun or not."""

    handoff_id: str


@dataclass(frozen=True, slots=True)
class OpenPipeline:
    """Open that pipeline beside the one in use, and report `PipelineReady` or `PipelineChangeFailed`.

    Args:
        change_id: The change that asked for it; `fallback_1` and so on where a lost pipeline falls back to it.
        pipeline: Its name.
    """

    change_id: str
    pipeline: str


@dataclass(frozen=True, slots=True)
class ReportLoss:
    """Report the error by which that pipeline was lost.

    Args:
        goes_on: Another pipeline replaces it, or it was not in use.
        keeps_audio: Nothing hears the caller any more: keep the audio for the next pipeline.
        loss_id: The loss, as `PipelineLost` named it.
    """

    pipeline: str
    goes_on: bool
    keeps_audio: bool
    loss_id: str


@dataclass(frozen=True, slots=True)
class TakePipeline:
    """From here on that pipeline hears, thinks and speaks."""

    change_id: str


@dataclass(frozen=True, slots=True)
class DropPipeline:
    """Nothing comes of that change.

    Args:
        reason: The session closes; the pipeline could not be opened, is lost, or is wanted no more; the floor was never
            free in time; or the pipeline is in use already.
    """

    change_id: str
    reason: Literal["closed", "failed", "no_moment", "in_use"]


@dataclass(frozen=True, slots=True)
class PredictEndOfTurn:
    """Ask the turn detector about the pause going on."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class PolicyFailed:
    """A policy of the application raised, or answered nonsense; the default was taken.

    Args:
        option: Which of `InterruptionOptions` it is.
        problem: Its mistake, without content.
        details: The traceback, for its author.
    """

    option: Literal["mode", "backchannels"]
    problem: str
    details: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class DeadlineDropped:
    """A deadline was due again and again and changed nothing, by a fault of the turn machine; it is passed over.

    Args:
        due: The rule that set it, by its name in the code.
        at: When it was due; session clock, seconds.
    """

    due: str
    at: float


@dataclass(frozen=True, slots=True)
class SettleAudio:
    """The turn is over by request: have the recogniser settle the audio that it has heard."""


@dataclass(frozen=True, slots=True)
class HeardOut:
    """The session closes, and the user's last words have come or are waited for no more."""


@dataclass(frozen=True, slots=True)
class ClearAudio:
    """The pipeline forgets the audio of the open turn."""


@dataclass(frozen=True, slots=True)
class RefuseRemoteReply:
    """Turn down the answer that the remote model began."""

    remote_reply_id: str


@dataclass(frozen=True, slots=True)
class WakeUser:
    """The user has been silent for long; `level` counts the wake-ups of this silence, from 1."""

    level: int


@dataclass(frozen=True, slots=True)
class HangUp:
    """The user has answered no wake-up: disconnect them."""


@dataclass(frozen=True, slots=True)
class CloseSession:
    """The conversation cannot or need not go on.

    Args:
        component: The component that failed again and again, for the reason `error`.
    """

    reason: Literal["participant_left", "user_away", "error", "pipeline_lost"]
    component: str = ""


Effect = (
    SetAgentState
    | SetUserState
    | CommitUserTurn
    | StartAttempt
    | DropAttempt
    | AmendUserTurn
    | AddBackchannel
    | DropUserTurn
    | GrantFloor
    | PrepareSpeech
    | TakeFloorBack
    | CancelSpeech
    | ForgetSpeech
    | AnswerHistory
    | InterruptCalls
    | PauseSpeech
    | ResumeSpeech
    | BeginHandoff
    | DropHandoff
    | OpenPipeline
    | ReportLoss
    | TakePipeline
    | DropPipeline
    | PredictEndOfTurn
    | SettleAudio
    | HeardOut
    | UserTurnLimitReached
    | PolicyFailed
    | DeadlineDropped
    | ClearAudio
    | RefuseRemoteReply
    | WakeUser
    | HangUp
    | CloseSession
)
