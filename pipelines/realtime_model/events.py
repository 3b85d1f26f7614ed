"""The events of a realtime connection beside its answers: frozen values."""

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
    """The user's turn is over, by a remote turn detection that does not answer on its own (`starts_replies` False).

    Args:
        item_id: The user's item; empty if the server has no name for it.
    """

    item_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeTranscript:
    """The server's transcript of an item of the remote conversation; it may come after the answer to the item.

    Args:
        text: The whole item so far, not only the new part; an empty final one means that there were no words.
        item_id: The same for all transcripts of an item.
        is_final: Whether it is the last one.
        role: Whose words. The words of an answer belong into its stream as `TextDelta`; transcripts are only for an
            answer whose stream was closed before its words were known.
    """

    text: str = field(repr=False)
    item_id: str
    is_final: bool
    role: Literal["user", "assistant"] = "user"


@dataclass(frozen=True, slots=True)
class RealtimeReplyStarted:
    """The server began an answer on its own: it will be taken with `accept()` or cancelled with `refuse()`.

    Args:
        reply_id: For `accept()` and `refuse()`; unique within the connection.
        item_id: The user's item that it answers; empty if the server does not name it.
    """

    reply_id: str
    item_id: str = ""


@dataclass(frozen=True, slots=True)
class RealtimeReplyCancelled:
    """The server cut an answer on its own, because it heard the user: the rest of it must not be played.

    The answer's stream ends with `Done("cancelled")`. The connection must not report an answer that `refuse()` or the
    closing of its stream cancelled.

    Args:
        reply_id: As in `RealtimeReplyStarted`; empty for an answer of `generate()`.
    """

    reply_id: str = ""


@dataclass(frozen=True, slots=True)
class RealtimeResumable:
    """`RealtimeSetup.resume` takes up the conversation with this `handle`; a newer handle replaces it."""

    handle: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class RealtimeEnding:
    """The server will end the connection in `seconds_left`: it is replaced in the next pause before that."""

    seconds_left: float


@dataclass(frozen=True, slots=True)
class RealtimeProblem:
    """A failure after which the connection continues: the server refused a message, an item could not be cut."""

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
"""`Usage` here belongs to no answer's stream: transcription, answers that were refused or cut."""
