"""SoundDevices: a microphone and speakers, through PortAudio (`sounddevice`, the extra `console`)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.agents.transports.console.transport import BLOCK, RATE, AudioEnds, Exchange
from vivavoce.pipelines.core.errors import ConfigurationError, RoomError

logger = logging.getLogger(__name__)

STALLED = 1.0
"""Seconds without a block after which a device is opened again: ALSA's connection to PulseAudio may stop for good after
an underrun, which a busy machine causes.
"""
REOPEN_LIMIT = 10.0
"""Seconds that opening again may take."""
MAX_WAITING = 200
"""Blocks of either direction that may wait for a busy loop, 2 s; beyond that the oldest is lost."""

Device = int | str | None
"""A number, a part of a name, or None for the system's default."""


def sound_library() -> Any:
    """Return the module `sounddevice`.

    Raises:
        ConfigurationError: It or PortAudio is missing.
    """
    try:
        import sounddevice
    except ImportError as error:
        raise ConfigurationError(
            "microphone and speakers need sounddevice, which is not installed: run pip install 'vivavoce[console]'"
        ) from error
    except OSError as error:
        raise ConfigurationError(
            f"microphone and speakers need PortAudio ({error}): on Debian and Ubuntu, apt install libportaudio2"
        ) from error
    return sounddevice


class SoundDevices(AudioEnds):
    """Microphone and speakers of this machine.

    Args:
        input: The microphone.
        output: The speakers.
    """

    def __init__(self, input: Device = None, output: Device = None) -> None:
        self._input = input
        self._output = output

    async def run(self, exchange: Exchange, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        sounddevice = sound_library()
        pump = _Pump(exchange)
        output = _Stream("speakers", sounddevice.RawOutputStream, self._output, pump.out)
        source = _Stream("microphone", sounddevice.RawInputStream, self._input, pump.into)
        try:
            try:
                # One at a time and in a thread: opening a device takes a while.
                await anyio.to_thread.run_sync(output.open)
                await anyio.to_thread.run_sync(source.open)
            except (sounddevice.PortAudioError, ValueError) as error:
                raise RoomError(
                    f"microphone {_named(self._input)} and speakers {_named(self._output)} cannot be opened: {error}; "
                    "see the list with vivavoce console --devices, and choose with --input and --output; "
                    "without devices, type with --text or let a file speak with --wav"
                ) from error
            exchange.delay(output.latency + source.latency)
            task_status.started()
            await _keep_going(output, source, exchange, sounddevice.PortAudioError)
            exchange.gone("an audio device is gone")
            await anyio.sleep_forever()
        finally:
            output.end()
            source.end()


class _Stream:
    """One device, open and running or not.

    Args:
        name: The name shown to people.
        kind: `RawOutputStream` or `RawInputStream`.
        callback: Called by PortAudio's thread for each block.
    """

    def __init__(self, name: str, kind: Callable[..., Any], device: Device, callback: Callable[..., None]) -> None:
        self.name = name
        self._kind = kind
        self._device = device
        self._callback = callback
        self._stream: Any = None
        self._blocks = 0
        self._seen = -1
        self._is_over = False

    @property
    def latency(self) -> float:
        """Seconds that the device delays a sound."""
        latency: float = self._stream.latency
        return latency

    def open(self) -> None:
        """Open and start it; raises the errors of `sounddevice`."""
        self._stream = self._kind(
            samplerate=RATE,
            blocksize=BLOCK,
            device=self._device,
            channels=1,
            dtype="int16",
            latency="low",
            callback=self._on_block,
        )
        self._stream.start()
        if self._is_over:  # another thread has ended it meanwhile
            self.close()

    def open_anew(self) -> None:
        """Close and open it; raises the errors of `sounddevice`."""
        self.close()
        self.open()

    def close(self) -> None:
        """Close it, if it is open."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.abort()
            stream.close()

    def end(self) -> None:
        """Close it for good."""
        self._is_over = True
        self.close()

    def has_stalled(self) -> bool:
        """Whether no block has passed since the previous call."""
        before, self._seen = self._seen, self._blocks
        return before == self._seen

    def _on_block(self, data: Any, frames: int, time: Any, status: Any) -> None:
        self._blocks += 1
        self._callback(data, frames, time, status)


async def _keep_going(output: _Stream, source: _Stream, exchange: Exchange, error_kind: type[Exception]) -> None:
    """Open each stalled device again, until that fails."""
    while True:
        await anyio.sleep(STALLED)
        for stream in [stream for stream in (output, source) if stream.has_stalled()]:
            logger.warning("the %s stopped for %g s; opening them again", stream.name, STALLED)
            try:
                with anyio.fail_after(REOPEN_LIMIT):
                    await anyio.to_thread.run_sync(stream.open_anew, abandon_on_cancel=True)
            except (error_kind, ValueError, TimeoutError) as error:
                logger.warning("the %s cannot be opened again: %s", stream.name, error or "too slow")
                return
            exchange.delay(output.latency + source.latency)


class _Pump:
    """Moves blocks between PortAudio's threads and the loop."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._loop = asyncio.get_running_loop()
        self._blocks: deque[tuple[Callable[[bytes], None], bytes]] = deque(maxlen=MAX_WAITING)

    def out(self, data: Any, frames: int, time: Any, status: Any) -> None:
        """Fill a block for the speakers; called by PortAudio."""
        block = self._exchange.take(frames)
        data[:] = block
        self._post(self._exchange.played, block)

    def into(self, data: Any, frames: int, time: Any, status: Any) -> None:
        """Take a block of the microphone; called by PortAudio."""
        self._post(self._exchange.heard, bytes(data))

    def _post(self, receiver: Callable[[bytes], None], block: bytes) -> None:
        self._blocks.append((receiver, block))
        self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        while self._blocks:
            receiver, block = self._blocks.popleft()
            receiver(block)


def _named(device: Device) -> str:
    return "(the default)" if device is None else repr(device)
