"""Whisper's log-mel features of 8 s of audio, in numpy.

Source: transformers, `WhisperFeatureExtractor(chunk_length=8)(…, do_normalize=True)`: periodic Hann window of 400 at a
hop of 160 with reflected edges, power, 80 Slaney mel bands, log10, 8 decades of range, scaled to about -1 … 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SAMPLE_RATE = 16000
SECONDS = 8
SAMPLES = SAMPLE_RATE * SECONDS
WINDOW = 400
HOP = 160
BANDS = 80
FRAMES = SAMPLES // HOP

LINEAR_MEL_HZ = 200 / 3
"""Hz per mel below the knee of Slaney's scale."""
KNEE_HZ = 1000.0
KNEE_MEL = KNEE_HZ / LINEAR_MEL_HZ
OCTAVE_STEP = 27.0
"""Mels above the knee for each factor of 6.4."""


def log_mel(pcm: bytes, filters: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return the features of the last 8 s of `pcm`, with zeros in front of shorter audio.

    Args:
        pcm: Mono 16-bit PCM of 16 kHz.
        filters: The result of `mel_filters()`; made once.
    Returns:
        Shape `(BANDS, FRAMES)`.
    """
    from vivavoce.pipelines.core.native_threads import numpy as np

    samples = np.frombuffer(pcm, dtype=np.int16)[-SAMPLES:].astype(np.float32) / np.float32(32768)
    audio = np.zeros(SAMPLES, dtype=np.float32)
    if len(samples):
        audio[-len(samples) :] = samples
    audio = (audio - audio.mean()) / np.sqrt(audio.var() + np.float32(1e-7))
    padded = np.pad(audio.astype(np.float64), WINDOW // 2, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP][:FRAMES]
    power = np.abs(np.fft.rfft(windows * np.hanning(WINDOW + 1)[:-1], axis=-1)) ** 2
    logs = np.log10(np.maximum(filters @ power.T, 1e-10))
    return np.asarray((np.maximum(logs, logs.max() - 8.0) + 4.0) / 4.0, dtype=np.float32)


def mel_filters() -> npt.NDArray[np.float64]:
    """Return triangles of equal area, evenly spaced on Slaney's mel scale; shape `(BANDS, WINDOW // 2 + 1)`."""
    from vivavoce.pipelines.core.native_threads import numpy as np

    top = KNEE_MEL + np.log(SAMPLE_RATE / 2 / KNEE_HZ) * OCTAVE_STEP / np.log(6.4)
    mels = np.linspace(0.0, top, BANDS + 2)
    bent = KNEE_HZ * np.exp((mels - KNEE_MEL) * np.log(6.4) / OCTAVE_STEP)
    edges = np.where(mels < KNEE_MEL, mels * LINEAR_MEL_HZ, bent)[:, None]
    bins = np.linspace(0.0, SAMPLE_RATE / 2, WINDOW // 2 + 1)[None, :]
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    return np.asarray(np.maximum(0.0, np.minimum(rising, falling)) * 2.0 / (edges[2:] - edges[:-2]))
