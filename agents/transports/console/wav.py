"""WavEnds: one WAV file instead of the microphone, another instead of the speakers, in real time."""

from __future__ import annotations

import wave
from contextlib import ExitStack
from pathlib import Path

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.agents.transports.console.transport import BLOCK, RATE, AudioEnds, Exchange
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.private_file import open_private
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame
from vivavoce.pipelines.media.resample import Resampler
from vivavoce.pipelines.media.wav import read_wav


class WavEnds(AudioEnds):
    """Plays `source` into the conversation once, then silence, and records the answers.

    Args:
        source: The caller's audio; 16-bit PCM of any rate, mono or stereo (its left side is used).
        target: The agent's audio: 48 kHz mono, as long as the conversation. None: not recorded.
        clock: Paces the audio.
    Raises:
        ConfigurationError: One of the files cannot be read or written.
    """

    def __init__(self, source: Path, target: Path | None, clock: Clock) -> None:
        self._said = _read(source)
        self._target = target
        self._clock = clock
        self.is_over = anyio.Event()
        """Set when all of `source` has been played."""
        if target is not None and not target.parent.is_dir():
            raise ConfigurationError(f"cannot write '{target}': there is no folder '{target.parent}'")

    @property
    def echoes(self) -> bool:
        return False

    async def run(self, exchange: Exchange, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        size = BYTES_PER_SAMPLE * BLOCK
        with ExitStack() as stack:
            file = None if self._target is None else _writer(self._target, stack)
            task_status.started()
            began, at = self._clock.now(), 0
            while True:
                played = exchange.take(BLOCK)
                exchange.played(played)
                if file is not None:
                    file.writeframesraw(played)
                exchange.heard(self._said[at : at + size].ljust(size, b"\0"))
                at += size
                if at >= len(self._said):
                    self.is_over.set()
                await anyio.sleep(max(0.0, began + at / size * BLOCK / RATE - self._clock.now()))


def _read(path: Path) -> bytes:
    try:
        frame = read_wav(path)
    except OSError as error:
        raise ConfigurationError(f"cannot read '{path}': {error.strerror}") from error
    except (ValueError, wave.Error, EOFError) as error:
        reason = str(error) or "it is cut short, or no WAV file"
        raise ConfigurationError(f"cannot read '{path}': {reason}; needed a WAV file of 16-bit PCM") from error
    samples = frame.to_numpy()
    mono = AudioFrame((samples if samples.ndim == 1 else samples[:, 0]).tobytes(), frame.sample_rate)
    resampler = Resampler(frame.sample_rate, RATE)
    return resampler.push(mono).data + resampler.flush().data


def _writer(path: Path, stack: ExitStack) -> wave.Wave_write:
    try:
        opened = stack.enter_context(open_private(path))
    except OSError as error:
        raise ConfigurationError(f"cannot write '{path}': {error.strerror}") from error
    file = stack.enter_context(wave.open(opened, "wb"))
    file.setnchannels(1)
    file.setsampwidth(BYTES_PER_SAMPLE)
    file.setframerate(RATE)
    return file
