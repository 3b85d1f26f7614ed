"""Messages of dialogues on their way: their JSON, their envelopes, and the limit of a call of the channel."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

import anyio

from vivavoce.agents.core.message_channel import Envelope
from vivavoce.agents.dialogues.conversations import Kept
from vivavoce.agents.dialogues.structure import DialogueStructure
from vivavoce.pipelines.core.errors import ConfigurationError, SessionError, VoiceError, describe

if TYPE_CHECKING:
    from pydantic import BaseModel

T = TypeVar("T")

CHANNEL_LIMIT = 10.0
"""Seconds for one call of the channel."""
MAX_MESSAGE = 1_000_000
"""Bytes of one message as JSON: with its envelope, a frame between processes has at most 1 MiB."""


def too_long(size: int) -> str:
    """Return why a message of so many bytes is refused."""
    return f"a message may have {MAX_MESSAGE:,} bytes as JSON, got {size:,}"


def text_of(content: BaseModel) -> str:
    """Return a message as JSON.

    Raises:
        ConfigurationError: It is too long.
    """
    text = content.model_dump_json(by_alias=False, round_trip=True)
    if (size := len(text.encode())) > MAX_MESSAGE:
        raise ConfigurationError(f"{too_long(size)}; send a reference to it")
    return text


def envelope_of(structure: DialogueStructure, session_id: str, kept: Kept) -> Envelope:
    """Return the envelope of an own message."""
    return Envelope(
        kind="message",
        dialogue=structure.digest,
        session_id=session_id,
        sender=kept.message.sender,
        receiver=kept.message.receiver,
        model=kept.model,
        content=kept.text,
        position=kept.position,
    )


async def within_limit(call: Awaitable[T]) -> T:
    """Return the result of a call of the channel, which is foreign code.

    Raises:
        VoiceError: The call raised that.
        SessionError: It raised another error, or took longer than `CHANNEL_LIMIT`.
    """
    try:
        with anyio.fail_after(CHANNEL_LIMIT):
            return await call
    except VoiceError:
        raise
    except TimeoutError as error:
        raise SessionError(f"the channel of the dialogues did not answer within {CHANNEL_LIMIT:g} s") from error
    except Exception as error:  # noqa: BLE001 - foreign code
        raise SessionError(f"the channel of the dialogues failed: {describe(error)}") from error
