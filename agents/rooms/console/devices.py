"""SoundDevices: a microphone and speakers, through PortAudio (`sounddevice`, the extra `console`)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.agents.rooms.console.transport import BLOCK, RATE, AudioEnds, Exchange
from vivavoce.pipelines.core.errors import ConfigurationError, RoomError

MAX_WAITING = 200
"""Blocks of either direction that may wait for a busy loop, 2 s; then the oldest is lost."""

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
    """Two devices of this machine.

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
        with ExitStack() as stack:
            try:
                # One at a time and in a thread: opening a device takes a while.
                output = await anyio.to_thread.run_sync(self._open, sounddevice.RawOutputStream, self._output, pump.out)
                stack.callback(_close, output)
                source = await anyio.to_thread.run_sync(self._open, sounddevice.RawInputStream, self._input, pump.into)
                stack.callback(_close, source)
                exchange.delay(output.latency + source.latency)
                await anyio.to_thread.run_sync(output.start)
                await anyio.to_thread.run_sync(source.start)
            except (sounddevice.PortAudioError, ValueError) as error:
                raise RoomError(
                    f"microphone {_named(self._input)} and speakers {_named(self._output)} cannot be opened: {error}; "
                    "see the list with vivavoce console --devices, and choose with --input and --output; "
                    "without devices, type with --text or let a file speak with --wav"
                ) from error
            task_status.started()
            await pump.gone.wait()
            exchange.gone("an audio device is gone")
            await anyio.sleep_forever()

    def _open(self, kind: Callable[..., Any], device: Device, callback: Callable[..., None]) -> Any:
        return kind(
            samplerate=RATE, blocksize=BLOCK, device=device, channels=1, dtype="int16", latency="low", callback=callback
        )


class _Pump:
    """Moves blocks between PortAudio's threads and the loop."""

    def __init__(self, exchange: Exchange) -> None:
        self.gone = asyncio.Event()
        self._exchange = exchange
        self._loop = asyncio.get_running_loop()
        self._blocks: deque[tuple[Callable[[bytes], None], bytes]] = deque(maxlen=MAX_WAITING)

    def out(self, data: Any, frames: int, time: Any, status: Any) -> None:
        """PortAudio wants a block for the speakers."""
        block = self._exchange.take(frames)
        data[:] = block
        self._post(self._exchange.played, block)

    def into(self, data: Any, frames: int, time: Any, status: Any) -> None:
        """PortAudio has a block of the microphone."""
        self._post(self._exchange.heard, bytes(data))

    def _post(self, receiver: Callable[[bytes], None], block: bytes) -> None:
        self._blocks.append((receiver, block))
        self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        while self._blocks:
            receiver, block = self._blocks.popleft()
            receiver(block)


def _close(stream: Any) -> None:
    stream.abort()
    stream.close()


def _named(device: Device) -> str:
    return "(the default)" if device is None else repr(device)
