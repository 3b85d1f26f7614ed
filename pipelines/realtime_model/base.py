"""RealtimeModel and RealtimeConnection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.core.errors import CapabilityError
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.pipelines.llm.tools import Tool
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.tts.base import AudioChunk


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeCapabilities:
    """What a realtime model takes, makes and decides.

    Args:
        input_rate, output_rate: Hz of the audio in and out.
        turn_detection: Whether the model's server judges the end of a turn (`remote`) or is told (`local`).
        generates_audio: Whether its answers are speech; else text, for a TTS.
        can_say: Whether it speaks given text word for word.
        truncates: Whether it takes `truncate()`.
        sends_transcripts: Whether it transcribes the user.
        supports_tools: Whether it calls tools.
    """

    input_rate: int = 24000
    output_rate: int = 24000
    turn_detection: Literal["local", "remote"] = "remote"
    generates_audio: bool = True
    can_say: bool = False
    truncates: bool = True
    sends_transcripts: bool = True
    supports_tools: bool = True


@dataclass(frozen=True, slots=True)
class RealtimeSpeechStarted:
    """The server heard the user begin, `ago` seconds before the newest frame pushed."""

    ago: float = 0.0


@dataclass(frozen=True, slots=True)
class RealtimeSpeechEnded:
    """The server heard the user stop, `ago` seconds before the newest frame pushed."""

    ago: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeTranscript:
    """The server's transcript of a user item; it may come after the answer to it."""

    text: str = field(repr=False)
    item_id: str
    is_final: bool


@dataclass(frozen=True, slots=True)
class RealtimeReplyStarted:
    """The server began an answer by itself."""

    reply_id: str


RealtimeEvent = RealtimeSpeechStarted | RealtimeSpeechEnded | RealtimeTranscript | RealtimeReplyStarted


class RealtimeConnection(ABC):
    """One session with a realtime model."""

    @abstractmethod
    def push(self, frame: AudioFrame) -> None:
        """Take one mono frame at the capability's `input_rate`. Must not block."""

    @abstractmethod
    def events(self) -> AsyncIterator[RealtimeEvent]:
        """Yield what the server reports until the connection is closed.

        Raises:
            ProviderError: The connection is lost.
        """

    @abstractmethod
    def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Ask for one answer and stream it. Closing the generator cancels the answer.

        Raises:
            ProviderError: While iterating.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """End the connection. Calling it twice is fine."""

    def commit(self) -> None:
        """The user's turn is over (local turn detection)."""

    def clear(self) -> None:
        """Forget the user's audio since the last commit."""

    def accept(self, reply_id: str) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Return the stream of an answer that the server began."""
        raise KeyError(f"no remote answer {reply_id!r}")

    def refuse(self, reply_id: str) -> None:
        """Cancel an answer that the server began."""

    def say(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        """Speak text word for word. Only with the capability `can_say`."""
        raise CapabilityError("realtime model", "can_say", "give the RealtimePipeline a tts")

    def truncate(self, item_id: str, played_seconds: float, heard_text: str) -> None:
        """Cut an answer in the server's history to what was heard."""

    def update(self, instructions: str, tools: Sequence[Tool[..., object]]) -> None:
        """The instructions or the tools changed."""


class RealtimeModel(Component, ABC):
    """A speech-to-speech model."""

    @property
    @abstractmethod
    def capabilities(self) -> RealtimeCapabilities:
        """Read before connecting."""

    @abstractmethod
    async def open(self, instructions: str, tools: Sequence[Tool[..., object]]) -> RealtimeConnection:
        """Connect and return a conversation that takes audio now.

        Raises:
            ProviderError: It cannot be had.
        """
