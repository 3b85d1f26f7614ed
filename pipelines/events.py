"""The events of a pipeline: plain values without asyncio, so that the pure turn machine can take them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from vivavoce.pipelines.core.characters import make_whole
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.recognised import Recognised

LATE_WORDS = 5.0
"""Seconds for which a recogniser, or a whole pipeline, that was replaced may still settle what it has heard."""


@dataclass(frozen=True, slots=True)
class UserSpeechStarted:
    """The user began to speak at `at` (session clock, the true time)."""

    at: float


@dataclass(frozen=True, slots=True)
class UserSpeechEnded:
    """The user stopped speaking at `at` (session clock, the true time)."""

    at: float


@dataclass(frozen=True, slots=True)
class UserVoicePaused:
    """Within the user's speech, the last voiced audio ended at `at` (session clock, the true time)."""

    at: float


@dataclass(frozen=True, slots=True)
class UserVoiceResumed:
    """Within the user's speech, the voice is heard again from `at` on (session clock, the true time)."""

    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UserInterim(Recognised):
    """The user's utterance, as recognised so far. The times of its words are the session clock's."""

    item_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFinal(Recognised):
    """Settled words of the user. The times of the words are the session clock's.

    Args:
        audio_seconds: Seconds of audio that the recogniser took for it, for usage.
        is_past: A recogniser that was replaced settles what it has heard: the words are older than those of its
            successor.
        held: Seconds for which the agent's `stt_stage` has kept it.
    """

    item_id: str = ""
    audio_seconds: float = 0.0
    is_past: bool = False
    held: float = 0.0


@dataclass(frozen=True, slots=True)
class RecogniserLost:
    """The recogniser's connection was lost: no words come until `RecogniserBack`."""


@dataclass(frozen=True, slots=True)
class RecogniserBack:
    """The recogniser is connected again and has received the audio that it missed."""


@dataclass(frozen=True, slots=True)
class RecogniserReplaced:
    """Words from here on are of another recogniser. The one before may still settle older ones, by past finals,
    for `LATE_WORDS`."""


@dataclass(frozen=True, slots=True)
class UserTurnPredicted:
    """A turn detector's verdict on the present pause."""

    complete: bool
    probability: float = 1.0


@dataclass(frozen=True, slots=True)
class UserTurnEndedEagerly:
    """The recogniser judges that the words shown so far are perhaps the whole turn."""


@dataclass(frozen=True, slots=True)
class UserTurnResumed:
    """The recogniser takes an eager end of the turn back: the user goes on."""


@dataclass(frozen=True, slots=True)
class UserTurnEnded:
    """The recogniser or the model's server judges that the user's turn is over.

    Args:
        item_id: The server's name for the turn's audio; empty if it has no name, or for a recogniser.
    """

    item_id: str = ""


@dataclass(frozen=True, slots=True)
class UserAudioCommitted:
    """The model has the turn's audio, and its transcripts will carry this `item_id`, however late they come.

    Empty: the model was lost, and gives no name. One for each commit of the session, in their order.
    """

    item_id: str


@dataclass(frozen=True, slots=True)
class RemoteReplyStarted:
    """A remote model began an answer on its own; take it with `accept()` or cancel it with `refuse()`.

    Args:
        item_id: The server's name for the audio that it answers; empty if unknown.
    """

    remote_reply_id: str
    item_id: str = ""


@dataclass(frozen=True, slots=True)
class RemoteReplyCancelled:
    """A remote model cut its answer because it heard the user: the rest of it must not be played.

    Args:
        remote_reply_id: As in `RemoteReplyStarted`; empty for an answer that the session requested.
    """

    remote_reply_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTranscript:
    """The transcript of a remote model's answer, which comes after the answer was cut."""

    item_id: str
    text: str = field(repr=False)

    def __post_init__(self) -> None:
        make_whole(self, "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineUsage:
    """Tokens that belong to no answer: the transcription of a remote model, answers that were refused."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    input_audio_tokens: int = 0
    output_audio_tokens: int = 0
    cached_audio_tokens: int = 0
    made_by: str = ""


@dataclass(frozen=True, slots=True)
class PipelineReplaced:
    """A connection was replaced by a new one that knows the conversation.

    Args:
        gap: Seconds without a connection, in which the caller's audio waited: from the end of the old one, or from when
            its loss was noticed, until the new one took audio.
        reason: It reached its `limit`, was `lost`, or could not take new instructions or tools (`update`).
    """

    component: str
    gap: float
    reason: Literal["limit", "lost", "update"]


@dataclass(frozen=True, slots=True)
class PipelineFailed:
    """A part of the pipeline failed. `recovered`: the pipeline goes on (for example, a stream was opened again).

    Args:
        unheard: The caller's audio that was not understood, at the context's `input_rate`, oldest first: for the
            pipeline that takes the place of one that does not go on.
    """

    error: Exception
    recovered: bool
    component: str = ""
    unheard: tuple[AudioFrame, ...] = field(default=(), repr=False)


RecogniserJudgement = UserTurnEndedEagerly | UserTurnResumed | UserTurnEnded
"""The judgements of a recogniser on the user's turn."""

PipelineEvent = (
    UserSpeechStarted
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
    | AgentTranscript
    | PipelineUsage
    | PipelineReplaced
    | PipelineFailed
)
