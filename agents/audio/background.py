"""BackgroundAudioConfig and BackgroundPlayer: one file that plays under the conversation, read ahead in a thread."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

import anyio

from vivavoce.agents.core.threads import ThreadPool
from vivavoce.pipelines.core.checks import check_flag, check_number, is_number, shown
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import AudioFileError, ConfigurationError
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame
from vivavoce.pipelines.media.gain import Gain
from vivavoce.pipelines.media.loop import LoopedFile

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

AHEAD_SECONDS = 2.0
"""Seconds of the file that are read ahead."""
DUCK_RAMP = 0.2
"""Seconds in which the volume changes when the agent begins or ends to speak."""
READ_LIMIT = 5.0
"""Seconds for one read of the file."""


@dataclass(frozen=True, slots=True)
class BackgroundAudioConfig:
    """A file that plays under the agent's speech for the whole session.

    It begins with the agent's own audio, when the caller can hear, and is quieter while the agent speaks. While the
    caller is away it pauses, as speech does. It does not change the agent's state: only speech counts as speaking. ::

        session = AgentSession(
            Host(),
            pipeline,
            background_audio=[
                BackgroundAudioConfig("office.wav", volume=0.2),
                BackgroundAudioConfig("typing.wav", thinking_only=True),
            ],
        )
        ...
        session.play_background_audio("music_on_hold.mp3")  # replaces the office
        session.stop_background_audio()

    Args:
        file_path: A WAV file of PCM; with the extra `audio` any kind. A long file is read piece by piece.
        enabled: Whether it plays at all.
        volume: Factor of the file's own level, 0 to 1.
        looping: Whether it starts again at its end, to the very sample; ends that do not fit are faded.
        thinking_only: Whether it plays only while the agent thinks, from its beginning each time.
        hold_only: Whether it plays only while the caller is on hold (`session.telephony.hold()`), in place of all else.
        duck_volume: The volume while the agent speaks, if less than `volume`.
        fade: Seconds of fade at its start and its stop.
    Raises:
        ConfigurationError: A volume is not from 0 to 1, `fade` is negative, or both times of playing are given.
    """

    file_path: str | os.PathLike[str]
    _: KW_ONLY
    enabled: bool = True
    volume: float = 0.3
    looping: bool = True
    thinking_only: bool = False
    hold_only: bool = False
    duck_volume: float = 0.1
    fade: float = 0.1

    def __post_init__(self) -> None:
        if not isinstance(self.file_path, str | os.PathLike):
            raise ConfigurationError(f"need file_path as the path of an audio file, got {shown(self.file_path)}")
        for name in ("enabled", "looping", "thinking_only", "hold_only"):
            check_flag(name, getattr(self, name))
        if not all(is_number(volume) and 0 <= volume <= 1 for volume in (self.volume, self.duck_volume)):
            raise ConfigurationError(
                f"need volume and duck_volume from 0 to 1, got {shown(self.volume)} and {shown(self.duck_volume)}"
            )
        check_number("fade", self.fade, at_least=0, unit="s")
        if self.thinking_only and self.hold_only:
            raise ConfigurationError("need thinking_only or hold_only, got both; give the file twice, once for each")


class BackgroundPlayer:
    """Plays one file into the mix of one session.

    `run` reads ahead in a task; all other calls are synchronous and on the audio path.

    Args:
        rate: Hz of the mix.
        on_audio: Called when there is audio again after none.
    """

    def __init__(self, config: BackgroundAudioConfig, rate: int, clock: Clock, on_audio: Callable[[], None]) -> None:
        self.config = config
        self._rate = rate
        self._clock = clock
        self._on_audio = on_audio
        self._gain = Gain()
        self._data = bytearray()
        self._is_on = False
        self._is_ducked = False
        self._is_ended = False
        self._is_read = False
        self._is_new = True
        self._work = anyio.Event()

    @property
    def is_over(self) -> bool:
        """Whether it plays no more: `end()` was called, or the file has been played to its end."""
        if self._is_read and not self._data and not self.config.thinking_only:
            return True
        return self._is_ended and not self._sounds

    @property
    def _sounds(self) -> bool:
        return bool(self._data) and (self._is_on or self._gain.value > 0)

    def turn(self, is_on: bool) -> None:
        """Fade in, or fade out."""
        if is_on != self._is_on and not (is_on and self._is_ended):
            self._is_on = is_on
            self._go(self.config.fade)
            if is_on:
                self._on_audio()
            else:
                self._note_silence()

    def duck(self, is_ducked: bool) -> None:
        """Change to the volume under speech, or back."""
        if is_ducked != self._is_ducked:
            self._is_ducked = is_ducked
            self._go(DUCK_RAMP)

    def end(self) -> None:
        """Fade out and play no more."""
        self.turn(False)
        self._is_ended = True
        self._work.set()

    def render(self, samples: int) -> npt.NDArray[np.float32] | None:
        """Return its next samples, float32 in the scale of 16-bit PCM; None while it is silent."""
        if not self._sounds:
            return None
        from vivavoce.pipelines.core.native_threads import numpy as np

        size = samples * BYTES_PER_SAMPLE
        data = bytes(self._data[:size])
        del self._data[:size]
        sound = np.frombuffer(data.ljust(size, b"\0"), dtype=np.int16).astype(np.float32)
        sound *= self._gain.take(samples)
        self._note_silence()
        if len(self._data) < AHEAD_SECONDS / 2 * self._rate * BYTES_PER_SAMPLE:
            self._work.set()
        return sound

    async def run(self) -> None:
        """Read ahead until it ends.

        Raises:
            AudioFileError: The file is gone, broken, empty, or takes too long.
            ConfigurationError: It needs the extra `audio`, which is not installed.
        """
        threads, file = ThreadPool(1, name="audio file"), None
        try:
            while not self._is_ended and not (self._is_read and not self.config.thinking_only):
                if self._is_new:
                    self._is_new = self._is_read = False
                    if file is not None:
                        file.close()
                    file = LoopedFile(os.fspath(self.config.file_path), self._rate, is_looping=self.config.looping)
                assert file is not None, "a player begins as new"
                if self._is_read or len(self._data) >= AHEAD_SECONDS * self._rate * BYTES_PER_SAMPLE:
                    self._work = anyio.Event()
                    await self._work.wait()
                    continue
                piece = await self._read(threads, file)
                if not self._is_new:
                    self._append(piece)
        finally:
            if file is not None:
                file.close()

    async def _read(self, threads: ThreadPool, file: LoopedFile) -> AudioFrame | None:
        try:
            with anyio.fail_after(READ_LIMIT), self._clock.hold():
                return await threads.run(file.read)
        except TimeoutError as error:
            raise AudioFileError(
                f"reading the audio file {os.fspath(self.config.file_path)!r} took more than {READ_LIMIT:g} s"
            ) from error

    def _append(self, piece: AudioFrame | None) -> None:
        if piece is None:
            self._is_read = True
            return
        was_empty = not self._data
        self._data += piece.data
        if was_empty and self._is_on:
            self._on_audio()

    def _note_silence(self) -> None:
        """Start a file of `thinking_only` again from its beginning next time."""
        if not self._is_on and self._gain.value <= 0 and self.config.thinking_only:
            self._data.clear()
            self._is_new = True
            self._work.set()

    def _go(self, seconds: float) -> None:
        config = self.config
        volume = min(config.volume, config.duck_volume) if self._is_ducked else config.volume
        if not (self._sounds or self._is_on):  # silent: the volume changes at once
            self._gain = Gain()
        self._gain.move_to(volume if self._is_on else 0.0, round(seconds * self._rate))
