"""Real speech and noise for tests: sentences spoken by espeak-ng and hibari, at 16 kHz, and noise of a given level."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vivavoce.pipelines.media.buffer import FrameChunker
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.resample import Resampler
from vivavoce.pipelines.tts.base import TTS
from vivavoce.plugins import espeak, hibari

RATE = 16000
VOICE = "en-us+f2"
"""The espeak voice that pocketsphinx understands best."""
WORDS_PER_MINUTE = 150
PATIENT = espeak.TTSOptions(start_timeout=60.0, chunk_timeout=60.0, close_timeout=60.0)
"""Limits for a busy machine."""

BOOKING = """#JSGF V1.0;
grammar booking;
<n> = one | two | three | four | five | six | seven | eight | nine | ten;
<clock> = [half past | quarter past | quarter to] <n> | noon;
<day> = [next] (monday | tuesday | wednesday | thursday | friday | saturday | sunday) | today | tomorrow | tonight;
<time> = at <clock>;
<party> = [a table] for <n> [people] | <n> people;
public <booking> = [no | yes] [<party>] [on] [<day> [morning | evening]] [<time>] [please];
public <other> = no thank you | yes please | that is right | goodbye | half past <n> | could we make it <n> | yes | no;
"""

PHRASES = (
    "a table for four",
    "friday at seven",
    "no, at eight",
    "tomorrow evening at half past six",
    "for two people",
    "yes please",
    "a table for two on saturday",
    "next monday at noon",
    "at eight",
    "for six people please",
    "no thank you",
    "sunday evening",
    "half past seven",
    "could we make it nine",
    "that is right",
    "tonight at nine",
    "wednesday at quarter past eight",
    "seven people",
    "at five",
    "goodbye",
)


async def spoken(*texts: str, voice: str = VOICE, rate: int = WORDS_PER_MINUTE) -> list[AudioFrame]:
    """Return each text as one mono frame of 16 kHz."""
    async with espeak.TTS(voice=voice, rate=rate, options=PATIENT) as tts:
        return [await _speak(tts, text) for text in texts]


async def spoken_naturally(*texts: str) -> list[AudioFrame]:
    """Return each text as one mono frame of 16 kHz, spoken by hibari."""
    tts = hibari.TTS()
    return [await _speak(tts, text) for text in texts]


async def _speak(tts: TTS, text: str) -> AudioFrame:
    resampler = Resampler(tts.capabilities.sample_rate, RATE)
    data = b"".join([resampler.push(chunk.frame).data async for chunk in tts.synthesize(text)])
    return AudioFrame(data + resampler.flush().data, RATE)


def padded(speech: AudioFrame, *, before: float = 1.0, after: float = 0.7) -> AudioFrame:
    """Return `speech` with silence around it."""
    silence = [AudioFrame.silence(seconds, RATE).data for seconds in (before, after)]
    return AudioFrame(silence[0] + speech.data + silence[1], RATE)


def frames(audio: AudioFrame) -> Iterator[AudioFrame]:
    """Cut into frames of 20 ms."""
    return FrameChunker(RATE).push(audio.data)


def white_noise(seconds: float, level: float, *, seed: int = 0) -> AudioFrame:
    """Return noise of `level` dB below full scale (RMS)."""
    return _scaled(np.random.default_rng(seed).normal(size=round(seconds * RATE)), level)


def brown_noise(seconds: float, level: float, *, seed: int = 0) -> AudioFrame:
    """Return noise that falls by 6 dB an octave, its slow drift taken out."""
    walk = np.cumsum(np.random.default_rng(seed).normal(size=round(seconds * RATE)))
    size = RATE // 20
    return _scaled(walk - np.convolve(walk, np.ones(size) / size, mode="same"), level)


def mixed(one: AudioFrame, other: AudioFrame) -> AudioFrame:
    """Return the sum, as long as the first."""
    total = one.to_numpy().astype(np.int32) + other.to_numpy()[: one.samples]
    return AudioFrame(np.clip(total, -32768, 32767).astype(np.int16).tobytes(), RATE)


def sounding(audio: AudioFrame, *, depth: float = 35.0) -> tuple[float, float]:
    """Return when sound begins and ends, in seconds: where 10 ms are within `depth` dB of the loudest."""
    size = RATE // 100
    samples = audio.to_numpy().astype(float)
    levels = np.sqrt((samples[: len(samples) // size * size].reshape(-1, size) ** 2).mean(axis=1))
    loud = np.flatnonzero(levels > levels.max() * 10 ** (-depth / 20))
    return float(loud[0]) / 100, float(loud[-1] + 1) / 100


def _scaled(samples: np.ndarray, level: float) -> AudioFrame:
    scale = 32768 * 10 ** (level / 20) / np.sqrt((samples**2).mean())
    return AudioFrame(np.clip(samples * scale, -32768, 32767).astype(np.int16).tobytes(), RATE)
