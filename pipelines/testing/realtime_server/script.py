"""A test's script for the scripted server: answers, tool calls, transcripts, faults."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from vivavoce.pipelines.core.native_threads import numpy as np

RATE = 24000
"""Hz; the protocol has no other rate for PCM."""

SAMPLE_BYTES = 2


class AnswerFault(Enum):
    """The faults of an answer, after its first pieces."""

    CLOSE = "the connection is lost"
    STALL = "nothing more comes, of this answer or of anything else"
    MALFORMED = "a frame that is no JSON, then the rest"
    OUT_OF_ORDER = "each delta comes before the event that announces its item"
    RATE_LIMIT = "the answer ends as failed: rate_limit_exceeded"
    FAIL = "the answer ends as failed: server_error"
    EXPIRE = "the session is over its maximum duration: an error event, then the connection is closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedCall:
    """A tool call of the model. `arguments` is JSON text, or an invalid text that stands for it."""

    name: str
    arguments: str = field(default="{}", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedAnswer:
    """An answer of the model."""

    text: str = ""
    """Spoken, with its transcript; or written, in a session of text."""
    calls: tuple[ScriptedCall, ...] = ()
    """Called after the words."""
    delay: float = 0.05
    """Seconds before its first piece."""
    seconds_per_word: float = 0.2
    """Length of a word's audio, if the server has no voice."""
    speed: float = math.inf
    """Speed at which the audio is sent, in times of its length; the real service sends some four times as fast."""
    fault: AnswerFault | None = None
    fault_after: int = 1
    """Words that are sent before the fault."""

    def __post_init__(self) -> None:
        if not (self.speed > 0 and self.seconds_per_word > 0):
            raise ValueError(f"need speed and seconds_per_word > 0, got {self.speed!r}, {self.seconds_per_word!r}")
        if min(self.delay, self.fault_after) < 0:
            raise ValueError(f"need delay (s) and fault_after >= 0, got {self.delay!r}, {self.fault_after!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedWords:
    """The transcript of a piece of the user's audio."""

    text: str
    delay: float = 0.02
    """Seconds from the commit to the transcript; long ones come after the answer, as they may in the real service."""
    failure: str = ""
    """An error code, such as `"audio_unintelligible"`, in place of a transcript."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedFor:
    """The context of a request, at that moment."""

    instructions: str
    items: tuple[Mapping[str, Any], ...]
    """The conversation, oldest first, as items of the protocol; audio is left out."""
    tools: tuple[Mapping[str, Any], ...]
    tool_choice: Any
    modality: str
    metadata: Mapping[str, str]


Mind: TypeAlias = Callable[[AskedFor], ScriptedAnswer | str]
Voice: TypeAlias = Callable[[str], bytes]
"""Turns words into PCM: 24 kHz, mono, 16 bit, little endian."""


class Script:
    """The answers and transcripts still to come, shared by a server's connections.

    Args:
        mind: Called when no answer is queued.
        voice: Makes the audio; else it is a tone.
    """

    def __init__(self, mind: Mind | None, voice: Voice | None) -> None:
        self.answers: deque[ScriptedAnswer] = deque()
        self.words: deque[ScriptedWords] = deque()
        self.asked: list[AskedFor] = []
        self._mind = mind
        self._voice = voice

    def answer(self, asked: AskedFor) -> ScriptedAnswer | None:
        """Return the answer to this, or None if the script is over."""
        self.asked.append(asked)
        if self.answers:
            return self.answers.popleft()
        if self._mind is None:
            return None
        answer = self._mind(asked)
        return ScriptedAnswer(text=answer) if isinstance(answer, str) else answer

    def hear(self) -> ScriptedWords:
        """Return the next transcript; without a script it is empty, as for noise."""
        return self.words.popleft() if self.words else ScriptedWords(text="")

    def speech(self, words: str, answer: ScriptedAnswer) -> bytes:
        """Return the audio of some words."""
        if self._voice is not None:
            return self._voice(words)
        return tone(answer.seconds_per_word * len(words.split()))


def tone(seconds: float, *, hertz: float = 440.0, level: float = 0.2) -> bytes:
    """Return a sine as the protocol's PCM."""
    times = np.arange(round(seconds * RATE)) / RATE
    return (level * 32767 * np.sin(2 * math.pi * hertz * times)).astype("<i2").tobytes()
