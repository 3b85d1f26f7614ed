"""Sounds of a telephone line for tests: tones, keys, signals, music, and what its codecs make of them."""

from __future__ import annotations

from collections.abc import Sequence

import av
import numpy as np
import numpy.typing as npt

from vivavoce.agents.telephony.detection.line_tones import LineTone, line_tone
from vivavoce.pipelines.media import g711
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.resample import Resampler
from vivavoce.pipelines.media.tone_detector import ToneDetector

Samples = npt.NDArray[np.float64]
CODECS = ("mulaw", "alaw", "16 kHz", "opus")
RATE = 16000


def tone(*frequencies: float, seconds: float, level: float = -12.0) -> Samples:
    """Return sines together, each of `level` dB below full scale, at 16 kHz."""
    times = np.arange(round(seconds * RATE)) / RATE
    peak = 32767 * 10 ** (level / 20)
    total: Samples = peak * np.sum([np.sin(2 * np.pi * frequency * times) for frequency in frequencies], axis=0)
    return total


def hiss(seconds: float, *, level: float = -70.0, seed: int = 0) -> Samples:
    """Return the noise of a line."""
    return np.random.default_rng(seed).normal(0, 32767 * 10 ** (level / 20), round(seconds * RATE))


def joined(*pieces: Samples) -> Samples:
    """Return the sounds one after the other."""
    return np.concatenate(pieces)


def music(seconds: float, *, seed: int = 0) -> Samples:
    """Return chords of plucked strings with a tune above them, all with harmonics."""
    random, total = np.random.default_rng(seed), np.zeros(round(seconds * RATE))
    for at in np.arange(0.0, seconds - 1.0, 0.25):
        begin = round(at * RATE)
        times = np.arange(round(0.9 * RATE)) / RATE
        root = 110.0 * 2 ** (random.integers(0, 36) / 12)
        notes = [root * 2 ** (step / 12) for step in ((0, 4, 7) if at % 1.0 == 0 else (12,))]
        for note in notes:
            for harmonic in range(1, 7):
                wave = np.sin(2 * np.pi * note * harmonic * times) * np.exp(-3 * times) / harmonic
                total[begin : begin + len(times)] += 3000 * wave[: len(total) - begin]
    return total


def over(codec: str, sound: Samples) -> AudioFrame:
    """Return the sound as that codec brings it: G.711 at 8 kHz, the rest at 16 kHz."""
    pcm = AudioFrame(np.clip(sound, -32768, 32767).astype(np.int16).tobytes(), RATE)
    if codec == "16 kHz":
        return pcm
    if codec == "opus":
        return _opus(pcm)
    resampler = Resampler(RATE, g711.SAMPLE_RATE)
    narrow = resampler.push(pcm).data + resampler.flush().data
    law: g711.Law = "mulaw" if codec == "mulaw" else "alaw"
    return AudioFrame(g711.decode(g711.encode(narrow, law), law), g711.SAMPLE_RATE)


def signals(audio: AudioFrame) -> list[LineTone]:
    """Return what the line says in that sound, heard in frames of 20 ms."""
    detector, size = ToneDetector(), 2 * (audio.sample_rate // 50)
    pieces = (audio.data[at : at + size] for at in range(0, len(audio.data), size))
    rows = [row for piece in pieces for row in detector.push(AudioFrame(piece, audio.sample_rate))]
    return [found for row in rows if (found := line_tone(row)) is not None]


def signals_of(sound: Samples, codecs: Sequence[str] = CODECS) -> list[list[LineTone]]:
    """Return what the line says by each codec, with its hiss around the sound."""
    whole = joined(hiss(0.3), sound + hiss(len(sound) / RATE, seed=1), hiss(0.3, seed=2))
    return [signals(over(codec, whole)) for codec in codecs]


def _opus(pcm: AudioFrame) -> AudioFrame:
    encoder = av.AudioCodecContext.create("libopus", "w")
    encoder.sample_rate, encoder.layout, encoder.format = RATE, "mono", "s16"
    encoder.open()
    decoder = av.AudioCodecContext.create("libopus", "r")
    decoder.sample_rate, decoder.layout, decoder.format = RATE, "mono", "s16"
    size, data = 2 * (RATE // 50), b""
    narrower = Resampler(48000, RATE)
    packets = []
    for at in range(0, len(pcm.data) - size + 1, size):
        frame = av.AudioFrame(format="s16", layout="mono", samples=RATE // 50)
        frame.sample_rate = RATE
        frame.planes[0].update(pcm.data[at : at + size])
        packets += encoder.encode(frame)
    for packet in packets:
        for heard in decoder.decode(packet):
            samples = heard.to_ndarray()[0]
            if samples.dtype != np.int16:
                samples = np.clip(samples * 32767, -32768, 32767).astype(np.int16)
            rate = heard.sample_rate
            given = AudioFrame(samples.tobytes(), rate)
            data += given.data if rate == RATE else narrower.push(given).data
    return AudioFrame(data, RATE)
