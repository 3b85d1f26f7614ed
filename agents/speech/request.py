"""SpeechRequest: the content of one speech, and the checks of the arguments that make one."""

from __future__ import annotations

import operator
import os
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, get_args

from vivavoce.agents.audio.given_audio import GivenAudio
from vivavoce.agents.core.speech_handle import MAX_PRIORITY
from vivavoce.agents.turn.inputs import SpeechKind, WhenBusy
from vivavoce.pipelines.core.characters import make_whole
from vivavoce.pipelines.core.checks import check_choice, check_flag, check_items, check_text, check_whole, shown
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError
from vivavoce.pipelines.llm.chat_context import ChatMessage
from vivavoce.pipelines.llm.tools import ToolChoice
from vivavoce.pipelines.media.audio_file import check_audio_file
from vivavoce.pipelines.media.frame import AudioFrame, VideoFrame
from vivavoce.pipelines.pipeline import PipelineCapabilities

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
        instructions: Instructions for this generation only (`reply`).
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

    def __post_init__(self) -> None:
        make_whole(self, "text", "instructions")

    def with_text(self, text: str | None) -> Self:
        """Return a request to speak `text` in the model's place, or this request if `text` is None."""
        return self if text is None else replace(self, text=text)

    def check_for(self, capabilities: PipelineCapabilities, pipeline: str) -> None:
        """Refuse a `say` or `reply` that can never work.

        Args:
            pipeline: The name of the pipeline with those capabilities.
        Raises:
            CapabilityError: The pipeline lacks the capability.
            ConfigurationError: As of `_check_audio`.
        """
        if self.audio is not None:
            self._check_audio()
        if self.text is not None:
            if not capabilities.can_say and self.audio is None:
                raise CapabilityError(pipeline, "can_say", "give the pipeline a tts, or say(text, audio=...)")
            return
        if not capabilities.can_reply:
            raise CapabilityError(
                pipeline, "can_reply", "give the pipeline an llm, such as CascadingPipeline(llm=...), or use say()"
            )
        if self.frames and not capabilities.supports_images:
            raise CapabilityError(pipeline, "supports_images", "use a model that sees, or reply() without frames")

    def _check_audio(self) -> None:
        """Check the ready audio of a `say`.

        Raises:
            ConfigurationError: It cannot be used, is a missing file, or comes with a text that is still to come.
        """
        if isinstance(self.audio, str | os.PathLike):
            check_audio_file(self.audio)
        elif not isinstance(self.audio, AudioFrame | AsyncIterator):
            raise ConfigurationError(
                "say(text, audio=...) needs an AudioFrame, an async iterator of them or the path of a file, "
                f"got {type(self.audio).__name__}"
            )
        if not isinstance(self.text, str):
            raise ConfigurationError(
                f"say(text, audio=...) needs the whole text as str, got {type(self.text).__name__}; join it first"
            )


def say_request(text: str | AsyncIterator[str], audio: GivenAudio | None, add_to_history: bool) -> SpeechRequest:
    """Return the request of `say()`; `SpeechRequest.check_for` checks `audio`.

    Raises:
        ConfigurationError: `text` is neither a str nor an async iterator, or `add_to_history` is not a bool.
    """
    check_flag("add_to_history", add_to_history)
    if isinstance(text, str):
        text = check_text("text", text)
    elif not isinstance(text, AsyncIterable):
        raise ConfigurationError(
            f"need say(text) as a str or an async iterator of str, got {shown(text)}; join a list, call a function"
        )
    return SpeechRequest(text=text, audio=audio, add_to_history=add_to_history)


def reply_request(
    instructions: str,
    wait_for_playback: bool,
    frames: Sequence[VideoFrame] | None,
    tool_choice: ToolChoice | None,
) -> SpeechRequest:
    """Return the request of `reply()`.

    Raises:
        ConfigurationError: An argument is of another kind.
    """
    check_flag("wait_for_playback", wait_for_playback)
    if tool_choice is not None and not isinstance(tool_choice, ToolChoice):
        raise ConfigurationError(
            f"need tool_choice as a ToolChoice or None, got {shown(tool_choice)}; such as ToolChoice(mode='required')"
        )
    remedy = "encode a picture: VideoFrame(data, 'image/jpeg')"
    return SpeechRequest(
        instructions=check_text("reply(instructions)", instructions),
        wait_for_playback=wait_for_playback,
        frames=() if frames is None else check_items("frames", frames, VideoFrame, remedy=remedy),
        tool_choice=ToolChoice() if tool_choice is None else tool_choice,
    )


def checked_priority(priority: int) -> int:
    """Return the priority as a plain int.

    Raises:
        ConfigurationError: It is no whole number, or beyond `MAX_PRIORITY`.
    """
    check_whole("priority", priority, at_least=-MAX_PRIORITY)
    if priority > MAX_PRIORITY:
        raise ConfigurationError(f"need priority <= {MAX_PRIORITY}, a whole number, got {shown(priority)}")
    return operator.index(priority)


def checked_when_busy(kind: SpeechKind, when_busy: WhenBusy | None) -> WhenBusy | None:
    """Return the choice for a floor that is taken; for a `reply`, None is the default.

    Raises:
        ConfigurationError: There is no such choice.
    """
    if kind != "reply" or when_busy is not None:
        check_choice("when_busy", when_busy, get_args(WhenBusy))
    return when_busy
