"""TTS, its audio chunks and word times."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from vivavoce.pipelines.core.boundary import Expected
from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.core.errors import CapabilityError, UnvoicedError
from vivavoce.pipelines.media.frame import AudioFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class TTSCapabilities:
    """The audio of a voice.

    Args:
        sample_rate: Hz of the audio.
        emits_words: Whether chunks carry word times.
        streams_text: Whether `stream()` takes text as it comes; else the pipeline sends sentences.
    """

    sample_rate: int
    emits_words: bool = False
    streams_text: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """One spoken word.

    Args:
        text: As in the input, with its punctuation. Other forms of it (another case, digits, pieces) are matched by
            their letters, a word in the place of another one by its length.
        start: Seconds from the start of the stream's audio.
        end: Likewise.
    """

    text: str = field(repr=False)
    start: float
    end: float


Heard = Callable[[float], Awaitable[str | None]]
"""Called at most once, when speech is cut, with the seconds of it that were played, perhaps after its close.

It returns the text that was heard by then, or None if it cannot tell, and raises nothing.
"""


@dataclass(frozen=True, slots=True)
class AudioChunk:
    """A piece of speech.

    Args:
        frame: Mono audio of any length.
        words: Word times that became known with this piece; all words of a stream come before its audio is over.
        text: The part of the input whose audio begins with this chunk: a sentence on its first chunk, else empty.
        requested_at: When that part was sent to the voice (session clock), set by the pipeline; None where unknown.
        said: The text that the voice received for `text` if text filters changed it, set by the pipeline; else empty.
        is_end: It has no audio, and marks that the audio of every text so far is complete; set by the pipeline, and by
            a voice that knows it, in the last chunk of a `synthesize()` with audio.
        item_id: A realtime model's name for the item that the audio belongs to; empty elsewhere.
        unvoiced: It has no audio, and tells that the voice yields none of a text; set by the pipeline.
        heard: Of a voice that itself knows what was heard of a `stream()` that is cut, with its first audio.
    """

    frame: AudioFrame
    words: tuple[Word, ...] = ()
    text: str = field(default="", repr=False)
    requested_at: float | None = None
    said: str = field(default="", repr=False)
    item_id: str = field(default="", compare=False)
    is_end: bool = False
    unvoiced: UnvoicedError | None = None
    heard: Heard | None = field(default=None, compare=False, repr=False)


AUDIO_CHUNKS = Expected(AudioChunk, frame=AudioFrame, text=str, words=tuple)
"""The chunks that a voice may yield."""


class TTS(Component, ABC):
    """Text to speech."""

    @property
    @abstractmethod
    def capabilities(self) -> TTSCapabilities:
        """Read before speaking."""

    def warm(self) -> None:
        """Connect ahead of the first speech. A pipeline calls it in its event loop; by default it does nothing."""

    @abstractmethod
    def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        """Speak one sentence or more. Closing the generator stops the synthesis.

        A `FallbackTTS` says no word again if the voice fails behind a chunk with `is_end`.

        Text without audio is no error here: the pipeline asks for it once more, and reports it as not heard.

        Raises:
            ProviderError: While iterating. A retryable one that comes before any audio is tried again. Any other
                exception, or an item of another kind, fails the turn like a ProviderError that is not retryable; the
                call goes on.
        """

    def stream(self, text: AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        """Speak text as it comes, piece by piece. Only with the capability `streams_text`.

        Text may stop coming for a while. White space behind a full stop means that the sentence is over: a voice that
        collects text must speak it then, and not wait for the next letter.

        Raises:
            CapabilityError: This voice takes whole sentences only.
            ProviderError: As `synthesize()`.
        """
        raise CapabilityError(self.provider, "streams_text", "use synthesize() with whole sentences")
