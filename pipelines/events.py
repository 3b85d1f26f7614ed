"""What a pipeline tells its session: plain values without asyncio, so that the pure turn machine can take them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from vivavoce.pipelines.media.frame import AudioFrame


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
class UserInterim:
    """What the user's utterance sounds like so far."""

    text: str = field(repr=False)
    item_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFinal:
    """Settled words of the user.

    Args:
        audio_seconds: Seconds that the recogniser took for it, for usage.
    """

    text: str = field(repr=False)
    item_id: str = ""
    audio_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class RecogniserLost:
    """The recogniser's connection was lost: no words come until `RecogniserBack`."""


@dataclass(frozen=True, slots=True)
class RecogniserBack:
    """The recogniser is connected again and has taken the audio that was missed."""


@dataclass(frozen=True, slots=True)
class UserTurnPredicted:
    """A turn detector's verdict on the pause going on."""

    complete: bool
    probability: float = 1.0


@dataclass(frozen=True, slots=True)
class UserTurnEnded:
    """The recogniser or the model's server says that the user's turn is over.

    Args:
        item_id: What the server calls the turn's audio; empty where it has no name, or a recogniser says so.
    """

    item_id: str = ""


@dataclass(frozen=True, slots=True)
class UserAudioCommitted:
    """The model has taken the turn's audio, and transcripts of it will bear this `item_id`, however late they come."""

    item_id: str


@dataclass(frozen=True, slots=True)
class RemoteReplyStarted:
    """A remote model began an answer by itself; take it with `accept()` or turn it down with `refuse()`.

    Args:
        item_id: What the server calls the audio that it answers; empty where it does not say.
    """

    remote_reply_id: str
    item_id: str = ""


@dataclass(frozen=True, slots=True)
class RemoteReplyCancelled:
    """A remote model cut its answer because it heard the user: the rest of it is not to be played.

    Args:
        remote_reply_id: As in `RemoteReplyStarted`; empty for an answer that it was asked for.
    """

    remote_reply_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTranscript:
    """What an answer of a remote model says, told after it was cut."""

    item_id: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineUsage:
    """Tokens that belong to no answer: the transcribing of a remote model, answers that were refused."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class PipelineReplaced:
    """A connection was replaced by a new one that knows the conversation.

    Args:
        gap: Seconds in which nobody listened, and the caller's audio waited for the new one: from when the old one was
            left, or its loss was noticed, until the new one took audio.
        reason: It had come to its `limit`, was `lost`, or could not take new instructions or tools (`update`).
    """

    component: str
    gap: float
    reason: Literal["limit", "lost", "update"]


@dataclass(frozen=True, slots=True)
class PipelineFailed:
    """Something broke beneath the connection. `recovered` tells whether it goes on (a stream was opened again).

    Args:
        unheard: The caller's audio that nobody has understood, at the context's `input_rate`, oldest first: for what
            takes the place of a pipeline that does not go on.
    """

    error: Exception
    recovered: bool
    component: str = ""
    unheard: tuple[AudioFrame, ...] = field(default=(), repr=False)


PipelineEvent = (
    UserSpeechStarted
    | UserSpeechEnded
    | UserVoicePaused
    | UserVoiceResumed
    | UserInterim
    | UserFinal
    | RecogniserLost
    | RecogniserBack
    | UserTurnPredicted
    | UserTurnEnded
    | UserAudioCommitted
    | RemoteReplyStarted
    | RemoteReplyCancelled
    | AgentTranscript
    | PipelineUsage
    | PipelineReplaced
    | PipelineFailed
)
