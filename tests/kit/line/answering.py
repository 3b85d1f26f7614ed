"""An agent that a telephone calls: it greets with a tone, answers one question, and what became of it is recorded."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kit.e2e.sdk_client import Watched, loud, pitch, tone
from kit.line.baresip import RATE
from vivavoce.agents import Agent, AgentSession, RecordingOptions, SessionOptions, events
from vivavoce.agents.telephony import TelephonyOptions
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedVAD
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.wav import read_wav
from vivavoce.pipelines.tts.base import TTS, AudioChunk, TTSCapabilities

GREETING = 1.0
GREETING_HERTZ = 440.0
QUESTION_HERTZ = 620.0
ANSWER_HERTZ = 1000.0
"""Tones by which each side's audio is known."""
ANSWER = "one two three four five six seven eight nine ten"
LOUD = 500
"""Sample value from which audio is sound, behind G.711 and Opus."""


def question(*, after: float, seconds: float = 0.8) -> npt.NDArray[np.int16]:
    """Return the caller's speech: a tone on a constant, so that each of its frames is speech to a scripted VAD."""
    times = np.arange(round(seconds * RATE)) / RATE
    speech = 6000 + 4000 * np.sin(2 * np.pi * QUESTION_HERTZ * times)
    return np.concatenate([np.zeros(round(after * RATE)), speech]).astype(np.int16)


def seconds_of_sound(samples: npt.NDArray[np.int16], rate: int = RATE) -> float:
    """Return the seconds of the pieces of 10 ms with sound in them."""
    step = rate // 100
    pieces = np.abs(samples[: len(samples) // step * step].astype(int)).reshape(-1, step)
    return float(np.count_nonzero(pieces.max(axis=1) > LOUD)) / 100


class Answering(Watched):
    """One session with its listeners.

    Args:
        folder: For the recording of the call.
        answer: What the model says to the caller's question.
    """

    def __init__(self, folder: Path, *, answer: str = ANSWER) -> None:
        super().__init__()
        self.keys = ""
        self.errors: list[str] = []
        self.is_entered = False
        """Whether the agent has the conversation; it greets then."""
        self.closed: str | None = None
        """Why it has closed, once it has."""
        stt, llm = ScriptedSTT(["a table please"]), ScriptedLLM(answer)
        pipeline = CascadingPipeline(vad=ScriptedVAD(), stt=stt, llm=llm, tts=ToneVoice())
        recording = RecordingOptions(path=folder / "call.wav", sample_rate=RATE)
        options = SessionOptions(telephony=TelephonyOptions(trunk="ST_1"), recording=recording)
        self.session: AgentSession[Any] = AgentSession(Greeter(self._enter), pipeline, options=options)
        self.session.on(events.KeyPressed, self._take_key)
        self.session.on(events.ErrorOccurred, lambda event: self.errors.append(str(event.error)))
        self.session.on(events.AgentStateChanged, lambda _: self.changed())
        self.session.on(events.Closed, self._close)

    @property
    def seconds_played(self) -> float:
        """The agent's audio that the caller has heard, as the session knows it."""
        return sum(turn.played_seconds for turn in self.session.turns)

    def history(self) -> list[tuple[str, str]]:
        return [(message.role, message.content) for message in self.session.history.messages()]

    def question(self) -> npt.NDArray[np.int16]:
        """The caller's speech as it came: the left side of the recording, without what is silent."""
        (record,) = self.session.report().recordings
        assert record.error == ""
        return loud(read_wav(Path(record.path)).to_numpy()[:, 0])

    def _enter(self) -> None:
        self.is_entered = True
        self.changed()

    def _take_key(self, event: events.KeyPressed) -> None:
        self.keys += event.key
        self.changed()

    def _close(self, event: events.Closed) -> None:
        self.closed = event.report.reason
        self.changed()


def pitch_of(samples: npt.NDArray[np.int16]) -> float:
    """Return the strongest frequency that is no constant."""
    return pitch((samples - np.mean(samples)).astype(np.int16), RATE)


class ToneVoice(TTS):
    """Speaks a tone of 0.2 s for each word: rooms let a constant, as scripted voices have it, not pass."""

    provider = "tones"

    @property
    def capabilities(self) -> TTSCapabilities:
        """Whole texts, without the times of words."""
        return TTSCapabilities(sample_rate=24000)

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        """Speak."""
        for frame in tone(ANSWER_HERTZ, 0.2 * len(text.split()), 24000):
            yield AudioChunk(frame)
        yield AudioChunk(AudioFrame(b"", 24000), is_end=True)


class Greeter(Agent):
    """Greets with a tone.

    Args:
        on_entered: Called before it does.
    """

    def __init__(self, on_entered: Callable[[], None] = lambda: None) -> None:
        super().__init__("Help.")
        self._on_entered = on_entered

    async def on_enter(self) -> None:
        self._on_entered()
        await self.session.say("Hello.", audio=_frames(tone(GREETING_HERTZ, GREETING, RATE)))


async def _frames(frames: list[AudioFrame]) -> AsyncIterator[AudioFrame]:
    for frame in frames:
        yield frame
