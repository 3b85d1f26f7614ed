"""Measurements on a call's own recording (caller left, agent right): waits for answers, and silencing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from vivavoce.pipelines.media.frame import AudioFrame

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_WINDOW = 0.01
_AUDIBLE = 0.01
"""RMS, of full scale, from which a window of synthetic speech counts as sound (-40 dB)."""
_QUIET = 0.3
"""Seconds without sound that count as silence and not as a pause between words."""
_CUT_OFF = 0.25
"""Seconds without sound that show, after a line that interrupts, that the agent was cut; it may answer after 0.3."""
_BETWEEN_LINES = 0.5
"""Seconds without sound that end a line of the caller; a comma on a stretching jitter buffer is shorter."""
_LEAST_LINE = 0.1
"""Seconds of sound that make a line; a click is shorter."""


@dataclass(frozen=True, slots=True)
class Check:
    """One requirement and its measured value."""

    name: str
    is_met: bool
    found: str


class SpokenLine(Protocol):
    """A line of the caller: the samples of a recording between which it lies, with or without silent edges."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...


@dataclass(frozen=True, slots=True)
class LineSpan:
    """A line of which only the position is known."""

    start: int
    end: int


def heard_lines(recording: AudioFrame) -> list[LineSpan]:
    """Return the caller's lines, found in a recording of the agent's side, which has no list of them.

    Each from its first sound to its last.
    """
    from vivavoce.pipelines.core.native_threads import numpy as np

    sounding = np.flatnonzero(_audible(_channels(recording)[0], recording.sample_rate))
    pauses = np.flatnonzero(np.diff(sounding) > round(_BETWEEN_LINES / _WINDOW))
    size = round(recording.sample_rate * _WINDOW)
    lines = [line for line in np.split(sounding, pauses + 1) if len(line) >= _LEAST_LINE / _WINDOW]
    return [LineSpan(int(line[0]) * size, (int(line[-1]) + 1) * size) for line in lines]


def gaps(recording: AudioFrame, turns: Sequence[SpokenLine]) -> list[float | None]:
    """Return for each turn the seconds from the caller's last sound to the agent's first one after it.

    None if the agent stays silent until the caller's next turn. The rest of the agent's speech after a barge-in is not
    an answer: only sound after a silence counts.
    """
    caller, agent = (_audible(channel, recording.sample_rate) for channel in _channels(recording))
    found: list[float | None] = []
    for index, turn in enumerate(turns):
        own = _between(caller, turn.start, turn.end, recording.sample_rate)
        after = turns[index + 1].start if index + 1 < len(turns) else recording.samples
        last = own[-1] + 1 if len(own) else None
        first = None if last is None else _first_after(agent, last, round(after / recording.sample_rate / _WINDOW))
        found.append(None if last is None or first is None else round(float(first - last) * _WINDOW, 2))
    return found


def silencing(recording: AudioFrame, line: SpokenLine) -> float | None:
    """Return the seconds from the onset of a line that interrupts until the agent is silent.

    None if the agent was not speaking, so that nothing was cut. All its sound during the line counts: a pause between
    two of its sentences is no silence, also where the line begins in it.
    """
    caller, agent = (_audible(channel, recording.sample_rate) for channel in _channels(recording))
    own = _between(caller, line.start, line.end, recording.sample_rate)
    if not len(own) or not agent[max(0, own[0] - round(_QUIET / _WINDOW)) : own[-1] + 1].any():
        return None
    silent_from = own[0]
    for window in range(own[0], len(agent)):
        if agent[window]:
            silent_from = window + 1
        elif window >= own[-1] and window - max(silent_from, own[-1]) >= _CUT_OFF / _WINDOW:
            break
    return round(float(silent_from - own[0]) * _WINDOW, 2)


def first_sound(recording: AudioFrame) -> float | None:
    """Return the seconds until the agent's first sound; None if there is none."""
    heard = _audible(_channels(recording)[1], recording.sample_rate).nonzero()[0]
    return round(float(heard[0]) * _WINDOW, 2) if len(heard) else None


def silence_after(recording: AudioFrame, line: SpokenLine, until: int) -> float:
    """Return the seconds of the agent's silence from the caller's last sound of a line to sample `until`."""
    agent = _audible(_channels(recording)[1], recording.sample_rate)
    start = _end_of(recording, line)
    end = round(until / recording.sample_rate / _WINDOW)
    heard = agent[start:end].nonzero()[0]
    return round(float(heard[0] if len(heard) else max(0, end - start)) * _WINDOW, 2)


def left_after(recording: AudioFrame, line: SpokenLine, left_at: int | None) -> float | None:
    """Return the seconds from the caller's last sound of a line until the agent left at a sample; None: it stayed."""
    if left_at is None:
        return None
    return round(max(0.0, left_at / recording.sample_rate - _end_of(recording, line) * _WINDOW), 2)


def _end_of(recording: AudioFrame, line: SpokenLine) -> int:
    """Return the window after the caller's last sound of a line."""
    caller = _audible(_channels(recording)[0], recording.sample_rate)
    own = _between(caller, line.start, line.end, recording.sample_rate)
    return int(own[-1]) + 1 if len(own) else round(line.end / recording.sample_rate / _WINDOW)


def _channels(recording: AudioFrame) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int16]]:
    if recording.num_channels != 2:
        raise ValueError(f"needed a stereo recording (caller left, agent right), got {recording.num_channels} channel")
    both = recording.to_numpy()
    return both[:, 0], both[:, 1]


def _audible(samples: npt.NDArray[np.int16], sample_rate: int) -> npt.NDArray[np.bool_]:
    """Return for each window of 10 ms whether it holds sound."""
    from vivavoce.pipelines.core.native_threads import numpy as np

    size = round(sample_rate * _WINDOW)
    whole = samples[: len(samples) // size * size].astype(np.float32).reshape(-1, size) / 32768
    return np.asarray(np.sqrt(np.mean(np.square(whole), axis=1)) >= _AUDIBLE)


def _between(audible: npt.NDArray[np.bool_], start: int, end: int, sample_rate: int) -> npt.NDArray[np.intp]:
    """Return the windows with sound between two samples."""
    from vivavoce.pipelines.core.native_threads import numpy as np

    first, last = (round(position / sample_rate / _WINDOW) for position in (start, end))
    return np.flatnonzero(audible[first:last]) + first


def _first_after(audible: npt.NDArray[np.bool_], start: int, end: int) -> int | None:
    """Return the first window with sound from `start` on, without sound that began before `start`."""
    window = start
    if audible[max(0, start - round(_QUIET / _WINDOW)) : start].any():  # it was still speaking: wait for its silence
        silent = 0
        while window < end and silent < round(_CUT_OFF / _WINDOW):
            silent = 0 if audible[window] else silent + 1
            window += 1
    while window < end:
        if audible[window]:
            return window
        window += 1
    return None
