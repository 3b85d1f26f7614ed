"""What a pipeline tells its session: plain values without asyncio, so that the pure turn machine can take them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class UserSpeechStarted:
    """The user began to speak at `at` (session clock, the true time)."""

    at: float


@dataclass(frozen=True, slots=True)
class UserSpeechEnded:
    """The user stopped speaking at `at` (session clock, the true time)."""

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
class UserTurnPredicted:
    """A turn detector's verdict on the pause going on."""

    complete: bool
    probability: float = 1.0


@dataclass(frozen=True, slots=True)
class UserTurnEnded:
    """The recogniser or the model's server says that the user's turn is over."""


@dataclass(frozen=True, slots=True)
class RemoteReplyStarted:
    """A remote model began an answer by itself; take it with `accept()` or turn it down with `refuse()`."""

    remote_reply_id: str


@dataclass(frozen=True, slots=True)
class PipelineFailed:
    """Something broke beneath the connection. `recovered` tells whether it goes on (a stream was opened again)."""

    error: Exception
    recovered: bool
    component: str = ""


PipelineEvent = (
    UserSpeechStarted
    | UserSpeechEnded
    | UserInterim
    | UserFinal
    | UserTurnPredicted
    | UserTurnEnded
    | RemoteReplyStarted
    | PipelineFailed
)
