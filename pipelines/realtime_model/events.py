"""What a realtime connection reports beside its answers: frozen values, each with the one moment at which it is due."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.llm.base import Usage


@dataclass(frozen=True, slots=True)
class RealtimeSpeechStarted:
    """The server heard the user begin, `ago` seconds before the newest frame pushed."""

    ago: float = 0.0


@dataclass(frozen=True, slots=True)
class RealtimeSpeechEnded:
    """The server heard the user stop, `ago` seconds before the newest frame pushed."""

    ago: float = 0.0


@dataclass(frozen=True, slots=True)
class RealtimeInputCommitted:
    """The audio heard so far became a user's item of the remote conversation: by `commit()` or by the server's turn
    detection. One for each `commit()`, in their order; its transcripts carry the same `item_id`."""

    item_id: str


@dataclass(frozen=True, slots=True)
class RealtimeTurnEnded:
    """Remote turn detection that does not answer by itself (`starts_replies` False): the user's turn is over.

    Args:
        item_id: The user's item; empty where the server has no name for it.
    """

    item_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeTranscript:
    """What an item of the remote conversation says, as transcribed by the server; it may come after the answer to it.

    Args:
        text: All of the item so far, not only what is new; an empty final says that it was nothing.
        item_id: The same for all transcripts of an item.
        is_final: Whether it is the last one.
        role: Whose words. An answer's own words belong into its stream as `TextDelta`; here come only those of an
            answer whose stream was closed before its words were known.
    """

    text: str = field(repr=False)
    item_id: str
    is_final: bool
    role: Literal["user", "assistant"] = "user"


@dataclass(frozen=True, slots=True)
class RealtimeReplyStarted:
    """The server began an answer by itself: it will be taken with `accept()` or turned down with `refuse()`.

    Args:
        reply_id: For these two; unique within the connection.
        item_id: The user's item that it answers; empty where the server does not say.
    """

    reply_id: str
    item_id: str = ""


@dataclass(frozen=True, slots=True)
class RealtimeReplyCancelled:
    """The server cut an answer by itself, because it heard the user: what was not played is not to be played.

    The answer's stream ends with `Done("cancelled")`. The connection must not report an answer that `refuse()` or the
    closing of its stream cancelled.

    Args:
        reply_id: As in `RealtimeReplyStarted`; empty for one that `generate()` asked for.
    """

    reply_id: str = ""


@dataclass(frozen=True, slots=True)
class RealtimeResumable:
    """With `handle`, in `RealtimeSetup.resume`, the conversation can be taken up; a newer one replaces it."""

    handle: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class RealtimeEnding:
    """The server will end the connection in `seconds_left`: it is replaced in the next pause before that."""

    seconds_left: float


@dataclass(frozen=True, slots=True)
class RealtimeProblem:
    """Something went wrong and the connection goes on: the server refused a message, an item could not be cut."""

    error: ProviderError


RealtimeEvent = (
    RealtimeSpeechStarted
    | RealtimeSpeechEnded
    | RealtimeInputCommitted
    | RealtimeTurnEnded
    | RealtimeTranscript
    | RealtimeReplyStarted
    | RealtimeReplyCancelled
    | RealtimeResumable
    | RealtimeEnding
    | RealtimeProblem
    | Usage
)
"""`Usage` here is what belongs to no answer's stream: transcribing, answers refused or cut."""
