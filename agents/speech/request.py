"""SpeechRequest: the content of one speech."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Self

from vivavoce.agents.audio.given_audio import GivenAudio
from vivavoce.pipelines.llm.chat_context import ChatMessage
from vivavoce.pipelines.llm.tools import ToolChoice
from vivavoce.pipelines.media.frame import VideoFrame

AMENDED = (
    "The last message of the user was transcribed wrongly at first, and your answer after it was to the wrong words. "
    "The message is corrected now. Answer it as it is now, without repeating what you have said already."
)
"""Instructions for the answer to a message that a late final has changed after its first answer was heard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeechRequest:
    """The content of one speech: words to speak, or instructions for the model's answer.

    Args:
        text: Spoken unchanged (`say`); None if the model answers.
        audio: Spoken instead of a synthesis of `text`.
        instructions: For this generation only (`reply`).
        user_item: The user's message that the speech answers.
        remote_reply_id: The answer that a remote model began by itself.
        by_hook: Whether `on_enter` or `on_exit` of an agent requested it.
    """

    text: str | AsyncIterator[str] | None = field(default=None, repr=False)
    audio: GivenAudio | None = field(default=None, repr=False)
    add_to_history: bool = True
    instructions: str = field(default="", repr=False)
    frames: tuple[VideoFrame, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    wait_for_playback: bool = True
    user_item: ChatMessage | None = None
    remote_reply_id: str = ""
    by_hook: bool = False

    def with_text(self, text: str | None) -> Self:
        """Return the request to speak `text` in the model's place, or the request as it is if that is None."""
        return self if text is None else replace(self, text=text)
