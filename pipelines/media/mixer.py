"""Sums of 16-bit PCM that saturate: channels into one, background under speech; numpy is loaded on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.media.frame import AudioFrame

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def downmix(frame: AudioFrame) -> AudioFrame:
    """Return the mean of a frame's channels; a mono frame unchanged."""
    if frame.num_channels == 1:
        return frame
    from vivavoce.pipelines.core.native_threads import numpy as np

    mean = np.rint(frame.to_numpy().mean(axis=1)).astype(np.int16)
    return AudioFrame(mean.tobytes(), frame.sample_rate)


def mix(speech: bytes, background: npt.NDArray[np.float32]) -> bytes:
    """Return mono 16-bit PCM with `background`, in the same scale and as long, added; peaks are clipped."""
    from vivavoce.pipelines.core.native_threads import numpy as np

    return to_pcm(np.frombuffer(speech, dtype=np.int16) + background)


def to_pcm(samples: npt.NDArray[np.float32]) -> bytes:
    """Return 16-bit PCM, rounded and clipped."""
    from vivavoce.pipelines.core.native_threads import numpy as np

    data: bytes = np.clip(np.rint(samples), -32768, 32767).astype(np.int16).tobytes()
    return data
