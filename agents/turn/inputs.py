"""The inputs of the turn machine. Events of a pipeline are inputs as they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from vivavoce.agents.turn.options import EndpointingOptions, InterruptionOptions, WakeUp
from vivavoce.agents.turn.pipeline_inputs import (
    FIRST_PIPELINE,
    FallbackAtStart,
    PipelineChangeDue,
    PipelineChangeFailed,
    PipelineChangeRequested,
    PipelineChangesClosed,
    PipelineLost,
    PipelineReady,
)
from vivavoce.pipelines.core.characters import make_whole
from vivavoce.pipelines.events import (
    RecogniserBack,
    RecogniserLost,
    RecogniserReplaced,
    RemoteReplyCancelled,
    RemoteReplyStarted,
    UserAudioCommitted,
    UserFinal,
    UserInterim,
    UserSpeechEnded,
    UserSpeechStarted,
    UserTurnEnded,
    UserTurnEndedEagerly,
    UserTurnPredicted,
    UserTurnResumed,
    UserVoicePaused,
    UserVoiceResumed,
)

__all__ = [
    "FIRST_PIPELINE",
    "AnswerOwed",
    "CallerHeld",
    "EndedAs",
    "FloorYielded",
    "HandoffEnded",
    "HandoffReady",
    "HandoffRequested",
    "InterruptRequested",
    "KeyPressed",
    "ParticipantLeft",
    "ParticipantLinked",
    "PipelineChangeDue",
    "PipelineChangeFailed",
    "PipelineChangeRequested",
    "PipelineChangesClosed",
    "PipelineLost",
    "PipelineReady",
    "FallbackAtStart",
    "PlayoutFinished",
    "PlayoutStarted",
    "RecogniserBack",
    "RecogniserLost",
    "RecogniserReplaced",
    "RemoteReplyCancelled",
    "RemoteReplyStarted",
    "ResultsCarried",
    "SessionClosed",
    "SessionClosing",
    "SessionStarted",
    "SessionStarting",
    "SpeechEnded",
    "SpeechKind",
    "SpeechProtected",
    "SpeechWithheld",
    "SpeechRequested",
    "TextReceived",
    "Tick",
    "ToolCallSettled",
    "ToolsAwaited",
    "ToolsFinished",
    "ToolsRunning",
    "ToolsStarted",
    "TurnClearRequested",
    "TurnCommitRequested",
    "TurnInput",
    "TurnOptionsChanged",
    "UserAudioCommitted",
    "UserAudioStopped",
    "UserFinal",
    "UserInterim",
    "UserSpeechEnded",
    "UserSpeechStarted",
    "UserTurnEnded",
    "UserTurnEndedEagerly",
    "UserTurnPredicted",
    "UserTurnResumed",
    "UserVoicePaused",
    "UserVoiceResumed",
    "WakeUpChanged",
    "WakeUpPaused",
    "WakeUpReset",
    "WakeUpResumed",
    "WhenBusy",
]

SpeechKind = Literal["say", "reply", "turn"]
WhenBusy = Literal["queue", "discard", "interrupt"]
EndedAs = Literal["completed", "interrupted", "failed", "cancelled", "discarded"]


@dataclass(frozen=True, slots=True)
class Tick:
    """A deadline has come; nothing else has."""


@dataclass(frozen=True, slots=True)
class SessionStarting:
    """`start()` was called.

    Args:
        turns_before: User turns of the conversation that the session continues; its own are numbered from there.
        run: The end of the ids of its turns, behind the number.
    """

    turns_before: int = 0
    run: str = ""


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """`start()` is done."""


@dataclass(frozen=True, slots=True)
class SessionClosing:
    """Closing has begun: input off, current speech cut, all timers off.

    Args:
        hears_out: Whether the close waits for words that the recogniser still owes, at most `transcript_timeout`;
            `HeardOut` ends the wait.
    """

    hears_out: bool = False


@dataclass(frozen=True, slots=True)
class SessionClosed:
    """Closing is done."""


@dataclass(frozen=True, slots=True)
class UserAudioStopped:
    """The user's audio stops for now, perhaps in mid-speech: no VAD will report the end."""


@dataclass(frozen=True, slots=True)
class TextReceived:
    """The user typed: a whole turn at once."""

    text: str = field(repr=False)

    def __post_init__(self) -> None:
        make_whole(self, "text")


@dataclass(frozen=True, slots=True)
class KeyPressed:
    """The user pressed a key of a telephone, submitted a form or sent a file: a sign of life, and no words."""


@dataclass(frozen=True, slots=True)
class TurnCommitRequested:
    """The application says that the user's turn is over."""


@dataclass(frozen=True, slots=True)
class TurnClearRequested:
    """The application drops the user's open turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechRequested:
    """`say()` or `reply()` was called.

    Args:
        when_busy: The rule for a floor that is taken; None to wait, except for a `reply` beside another one, which is
            discarded.
        by_hook: Whether a hook of an agent that comes or goes called; it speaks while a handoff holds the floor.
        by_wake_up: Whether `on_wake_up` called.
        hook_of: The speech whose turn's hook or flow called; "" otherwise.
        by_body: Whether the body of a graph's state called, outside of turns; the answers to the caller wait for it.
        is_whole: Whether all of its words are known at the request.
        from_tool_of: The speech whose tool called; "" otherwise.
        from_call: The tool call that called; "" otherwise.
    """

    speech_id: str
    kind: SpeechKind
    interruptible: bool = True
    priority: int = 0
    when_busy: WhenBusy | None = "queue"
    by_hook: bool = False
    by_wake_up: bool = False
    hook_of: str = ""
    by_body: bool = False
    is_whole: bool = True
    from_tool_of: str = ""
    from_call: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptRequested:
    """`interrupt()` was called, on the session or on one speech.

    Args:
        speech_id: The speech to interrupt; "" for the session.
        from_tool_of: The speech whose tool called. Other audio stops, but not the answer that waits for the tool.
        hook_of: The speech whose turn's hook called. Other audio stops, but not that answer.
    """

    force: bool = False
    speech_id: str = ""
    from_tool_of: str = ""
    hook_of: str = ""


@dataclass(frozen=True, slots=True)
class SpeechProtected:
    """That speech must not be cut from now on, neither by the user's voice nor by `interrupt()` without force."""

    speech_id: str


@dataclass(frozen=True, slots=True)
class SpeechWithheld:
    """No speech begins from now on, or each may begin again; a speech that has begun goes on."""

    is_withheld: bool


@dataclass(frozen=True, slots=True)
class PlayoutStarted:
    """The first frame of a step of that speech is being played."""

    speech_id: str
    at: float


@dataclass(frozen=True, slots=True)
class PlayoutFinished:
    """The last frame of a step of that speech has been played; `is_last` when no other step follows."""

    speech_id: str
    at: float
    is_last: bool


@dataclass(frozen=True, slots=True)
class ToolsStarted:
    """Tools of that speech run: from now on new words are a new turn."""

    speech_id: str


@dataclass(frozen=True, slots=True)
class FloorYielded:
    """That answer has nothing to play before the speech that its hook asked for: it waits for the floor behind that."""

    speech_id: str


@dataclass(frozen=True, slots=True)
class ToolsAwaited:
    """That speech has nothing left to play and waits for its tools: it gives up the floor."""

    speech_id: str


@dataclass(frozen=True, slots=True)
class ToolsFinished:
    """All tools of that speech's step are settled: it wants the floor again."""

    speech_id: str


@dataclass(frozen=True, slots=True)
class ToolCallSettled:
    """That tool call is over: speech that it asked for and that has not begun is out of date."""

    call_id: str


@dataclass(frozen=True, slots=True)
class ToolsRunning:
    """Whether any call, of any speech, is still unsettled: a cut speech lets its tools continue."""

    is_any: bool


@dataclass(frozen=True, slots=True)
class AnswerOwed:
    """The results of tools are in the history, and no model answers them: their speech was cut or has failed.

    Args:
        results_id: The id of the results.
        turn_id: The turn, or the speech, of these tools.
    """

    results_id: str
    turn_id: str


@dataclass(frozen=True, slots=True)
class ResultsCarried:
    """The request of another answer has these results, so that no answer is owed for them any more."""

    results_id: str


@dataclass(frozen=True, slots=True)
class SpeechEnded:
    """That speech is over and everything it started is played out or dropped.

    Args:
        component: The component that failed ("llm", "tts" …), for the outcome `failed`.
    """

    speech_id: str
    outcome: EndedAs
    component: str = ""


@dataclass(frozen=True, slots=True)
class HandoffRequested:
    """Another agent is to take the conversation over, after all speech that was asked for before.

    Args:
        begins_task: Whether the agent takes it for a sub-dialogue; speech at work waits until the task is over.
        ends_task: The handoff that began a sub-dialogue, which now gives the conversation back; "" for none.
        opens: Whether components of that agent are being opened; the handoff then begins after `HandoffReady`.
    """

    handoff_id: str
    begins_task: bool = False
    ends_task: str = ""
    opens: bool = False


@dataclass(frozen=True, slots=True)
class HandoffReady:
    """The components for that handoff are open, or cannot be opened."""

    handoff_id: str


@dataclass(frozen=True, slots=True)
class HandoffEnded:
    """That handoff is over: the new agent has entered, well or not.

    Args:
        ends_task: The handoff that began a sub-dialogue, which is now over; "" for none.
    """

    handoff_id: str
    ends_task: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOptionsChanged:
    """The agent that has the conversation from now on takes turns by these options, from this input on.

    Deadlines are computed anew from what has happened: a pause that is long enough by now ends the turn at once. An
    open turn ends by the new options too; only mode `manual` begins with the next turn.
    """

    endpointing: EndpointingOptions
    interruption: InterruptionOptions


@dataclass(frozen=True, slots=True)
class WakeUpChanged:
    """The application wants the user woken up in another way, or, with None, not at all."""

    wake_up: WakeUp | None


@dataclass(frozen=True, slots=True)
class WakeUpPaused:
    """The application wants no wake-ups until `WakeUpResumed`."""


@dataclass(frozen=True, slots=True)
class WakeUpResumed:
    """The application allows wake-ups again."""


@dataclass(frozen=True, slots=True)
class WakeUpReset:
    """The application restarts the wake-up from its first level."""


@dataclass(frozen=True, slots=True)
class CallerHeld:
    """The caller is on hold from now on, or no more: a silence is then not the caller's."""

    is_held: bool


@dataclass(frozen=True, slots=True)
class ParticipantLinked:
    """The participant that the session talks to is there."""


@dataclass(frozen=True, slots=True)
class ParticipantLeft:
    """The linked participant is gone; the session closes when it is not back within `grace` seconds.

    Until then the speech that has the floor is held. With None the conversation goes on without the participant.
    """

    grace: float | None


TurnInput = (
    Tick
    | SessionStarting
    | SessionStarted
    | SessionClosing
    | SessionClosed
    | UserAudioStopped
    | TextReceived
    | KeyPressed
    | TurnCommitRequested
    | TurnClearRequested
    | SpeechRequested
    | SpeechProtected
    | SpeechWithheld
    | InterruptRequested
    | PlayoutStarted
    | PlayoutFinished
    | FloorYielded
    | ToolsStarted
    | ToolsAwaited
    | ToolsFinished
    | ToolCallSettled
    | ToolsRunning
    | AnswerOwed
    | ResultsCarried
    | SpeechEnded
    | HandoffRequested
    | HandoffReady
    | HandoffEnded
    | TurnOptionsChanged
    | PipelineChangeDue
    | PipelineChangeRequested
    | PipelineChangeFailed
    | PipelineChangesClosed
    | PipelineReady
    | PipelineLost
    | FallbackAtStart
    | WakeUpChanged
    | WakeUpPaused
    | WakeUpResumed
    | WakeUpReset
    | CallerHeld
    | ParticipantLinked
    | ParticipantLeft
    | UserSpeechStarted
    | UserSpeechEnded
    | UserVoicePaused
    | UserVoiceResumed
    | UserInterim
    | UserFinal
    | RecogniserLost
    | RecogniserBack
    | RecogniserReplaced
    | UserTurnPredicted
    | UserTurnEndedEagerly
    | UserTurnResumed
    | UserTurnEnded
    | UserAudioCommitted
    | RemoteReplyStarted
    | RemoteReplyCancelled
)
