"""Overlap: where live audio continues audio that was recorded of the same microphone. Pure; numpy loads on first use.

A client records until it knows that the agent receives its track, so the end of the recording is live audio too. The
two differ by their coding, not by their content: the live audio begins where it is most alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SEARCHED_SECONDS = 3.0
"""The end of the recording in which the live audio is looked for."""
COMPARED_SECONDS = 0.2
"""Live audio that is compared in one piece: over more, the stretching of a jitter buffer would show."""
STEP_SECONDS = 0.1
"""From one piece to the next: the first ones of a call may be damaged."""
LEAST_SECONDS = 0.06
"""Least overlap that can be found."""
SHORT_SECONDS = 0.15
"""A shorter overlap must be more alike: two vowels of one voice are alike too."""
ALIKE, ALIKE_SHORT = 0.6, 0.8
"""Correlation, 0 to 1, from which on two pieces count as the same audio."""
QUIET = 100.0
"""Sample value (root mean square) below which a piece has nothing in it to compare: -50 dB."""
LOUD_SAMPLE = 300
"""Sample value with which live audio begins to count: a jitter buffer begins with silence."""


def is_quiet(recorded: bytes, rate: int) -> bool:
    """Return whether the end of a recording, 16-bit mono PCM, has no sound that could be found in live audio."""
    from vivavoce.pipelines.core.native_threads import numpy as np

    tail = np.frombuffer(recorded, dtype=np.int16)[-round(SEARCHED_SECONDS * rate) :]
    step = round(LEAST_SECONDS * rate)
    pieces = tail[: len(tail) // step * step].reshape(-1, step).astype(np.float64)
    return not len(pieces) or float(np.sqrt((pieces**2).mean(axis=1)).max()) < QUIET


def is_silent(live: bytes) -> bool:
    """Return whether live audio, 16-bit mono PCM, has no sound so far."""
    from vivavoce.pipelines.core.native_threads import numpy as np

    samples = np.frombuffer(live, dtype=np.int16)
    return not (samples > LOUD_SAMPLE).any()


def live_begin(recorded: bytes, live: bytes, rate: int) -> int | None:
    """Return the sample of the recording at which the live audio begins; None: it is not found in it.

    Args:
        recorded, live: 16-bit mono PCM at `rate` Hz.
    """
    from vivavoce.pipelines.core.native_threads import numpy as np

    whole = np.frombuffer(recorded, dtype=np.int16)
    skipped = max(0, len(whole) - round(SEARCHED_SECONDS * rate))
    tail = whole[skipped:].astype(np.float64)
    samples = np.frombuffer(live, dtype=np.int16).astype(np.float64)
    sounding = np.flatnonzero(np.abs(samples) > LOUD_SAMPLE)
    least = round(LEAST_SECONDS * rate)
    if not len(sounding) or len(tail) < least:
        return None
    found, alike_most = None, 0.0
    for at in range(int(sounding[0]), len(samples) - least, round(STEP_SECONDS * rate)):
        alike, lengths = _correlation(tail, samples[at : at + round(COMPARED_SECONDS * rate)])
        needed = np.where(lengths >= round(SHORT_SECONDS * rate), ALIKE, ALIKE_SHORT)
        alike[(lengths < least) | (alike < needed)] = 0.0
        best = int(np.argmax(alike))
        if alike[best] > alike_most:
            found, alike_most = max(0, skipped + best - at), alike[best]
    return found


def _correlation(
    tail: npt.NDArray[np.float64], head: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return for each position of `tail` how alike `head` is to the audio from there on, and the samples compared.

    Near the end of `tail` only the begin of `head` is compared. Quiet pieces are alike to none.
    """
    from vivavoce.pipelines.core.native_threads import numpy as np

    size, width = len(tail), len(head)
    points = 1 << (size + width - 1).bit_length()
    spectrum = np.fft.rfft(tail, points) * np.conj(np.fft.rfft(head, points))
    products = np.fft.irfft(spectrum, points)[:size]
    lengths = np.minimum(width, size - np.arange(size))
    energy = np.concatenate(([0.0], np.cumsum(tail**2)))
    of_tail = energy[np.arange(size) + lengths] - energy[:size]
    of_head = np.concatenate(([0.0], np.cumsum(head**2)))[lengths]
    quiet = QUIET**2 * lengths
    sounds = (of_tail >= quiet) & (of_head >= quiet)
    alike = np.zeros(size)
    alike[sounds] = products[sounds] / np.sqrt(of_tail[sounds] * of_head[sounds])
    return alike, lengths
