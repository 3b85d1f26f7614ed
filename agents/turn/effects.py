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
        speech_ended_at: The true end of the user's speech; for text, its arrival.
        end_reported_at: When the VAD reported it.
        final_at: When the last words arrived.
        predicted_at: When the turn detector's verdict arrived.
        committed_at: When the turn was committed.
        delay: The seconds of silence, from `speech_ended_at`, that ended the turn; None if it was not silence.
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
        candidate_at: The true onset of the user's newest speech (session clock), if the cause is a voice; None if the
            user has not spoken.
    """

    by: InterruptedBy
    candidate_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitUserTurn:
    """The user's turn is over: `text` goes into the history and a speech of this id answers it.

    Args:
        speech_started_at: The true onset of the turn's speech; without a VAD, when its first words came. None if the
            user did not speak.
        merged: Whether the turn was committed before and went on: its item gets this (joined) text.
        amends: The turn whose answer was heard before a late final changed its words: its item becomes this turn's.
        is_heard: Whether a model that hears the caller has all of the turn from its audio.
        settles_audio: Whether the audio heard so far belongs to this turn, so that the recogniser must settle it. False
            if only typed text is committed, in the middle of speech without a request to end it, and if a remote model
            ended it.
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
    """Drop that attempt, which will not be committed."""

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
    """Give the turn's item this text, without an answer: a late final settles words that were committed as an interim.

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
    """Drop the user's turn, which has no words or was cleared."""

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
    """Take the floor from that speech: it neither generates nor plays until it is granted again."""

    speech_id: str


@dataclass(frozen=True, slots=True)
class CancelSpeech:
    """Stop that speech: fade, silence, end with `outcome`.

    Args:
        is_withdrawn: Whether the turn that it answers continues under the same id, so that this was not the turn's
            outcome.
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
        is_withdrawn: Whether the turn that it answers continues under the same id; `outcome` is then not the turn's.
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
    """Cancel the calls with `cancel_on_interrupt` of that speech, which waits for its tools: the caller took the
    floor."""

    speech_id: str


@dataclass(frozen=True, slots=True)
class PauseSpeech:
    """Hold that speech's playout where it is, or before it begins."""

    speech_id: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class ResumeSpeech:
    """Let that speech's playout go on; `is_false_interruption` if a sound without meaning had paused it in the
    middle."""

    speech_id: str
    is_false_interruption: bool


@dataclass(frozen=True, slots=True)
class BeginHandoff:
    """Let the old agent leave and the new one enter: the floor is free. Until the end of the handoff only their hooks
    speak."""

    handoff_id: str


@dataclass(frozen=True, slots=True)
class DropHandoff:
    """Drop that handoff, whether it has begun or not: the session closes."""

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
        goes_on: Whether another pipeline replaces it, or it was not in use.
        keeps_audio: Whether to keep the audio for the next pipeline, since no component hears the caller any more.
        loss_id: The loss, as `PipelineLost` named it.
    """

    pipeline: str
    goes_on: bool
    keeps_audio: bool
    loss_id: str


@dataclass(frozen=True, slots=True)
class TakePipeline:
    """Let that pipeline hear, think and speak from now on."""

    change_id: str


@dataclass(frozen=True, slots=True)
class DropPipeline:
    """Drop that change of the pipeline.

    Args:
        reason: The session closes; the pipeline could not be opened, is lost, or is wanted no more; the floor was never
            free in time; or the pipeline is in use already.
    """

    change_id: str
    reason: Literal["closed", "failed", "no_moment", "in_use"]


@dataclass(frozen=True, slots=True)
class PredictEndOfTurn:
    """Ask the turn detector about the present pause."""

    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class PolicyFailed:
    """Report that a policy of the application raised, or returned something else than a decision; the default was
    taken.

    Args:
        option: The name of the option among `InterruptionOptions`.
        problem: Its mistake, without content.
        details: The traceback, for its author.
    """

    option: Literal["mode", "backchannels"]
    problem: str
    details: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class DeadlineDropped:
    """Report that a deadline was due again and again without effect, by a fault of the turn machine; it is passed over.

    Args:
        due: The rule that set it, by its name in the code.
        at: When it was due; session clock, seconds.
    """

    due: str
    at: float


@dataclass(frozen=True, slots=True)
class SettleAudio:
    """Have the recogniser settle the audio that it has heard: the turn is over by request."""


@dataclass(frozen=True, slots=True)
class HeardOut:
    """Report that the user's last words have come, or are not waited for any more: the session closes."""


@dataclass(frozen=True, slots=True)
class ClearAudio:
    """Have the pipeline forget the audio of the open turn."""


@dataclass(frozen=True, slots=True)
class RefuseRemoteReply:
    """Turn down the answer that the remote model began."""

    remote_reply_id: str


@dataclass(frozen=True, slots=True)
class WakeUser:
    """Wake the user, who has been silent for long; `level` counts the wake-ups of this silence, from 1."""

    level: int


@dataclass(frozen=True, slots=True)
class HangUp:
    """Disconnect the user, who has answered no wake-up."""


@dataclass(frozen=True, slots=True)
class CloseSession:
    """Close the session: the conversation cannot or need not continue.

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
