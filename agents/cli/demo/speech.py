"""Speech: the voice and the ears of both sides of the demo's call, chosen from the offline parts of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import anyio

from vivavoce.agents.cli.offline import CALLER_ESPEAK, best, is_here
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from vivavoce.pipelines.stt.base import STT
    from vivavoce.pipelines.tts.base import TTS

Side = Literal["host", "caller"]

GRAMMARS: Mapping[Side, Path] = {
    "host": Path(__file__).with_name("caller_says.gram"),
    "caller": Path(__file__).with_name("host_says.gram"),
}
"""The sentences that pocketsphinx understands, by the side that hears them."""


HOST_INTERIMS, CALLER_INTERIMS = 0.3, 0.5
"""Seconds between two interims of moonshine: the host is interrupted by them, the caller only follows long answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """How a side sounds.

    Args:
        speed: Of the voice.
        pitch: Factor of pitch and pace when it is played.
        gain: Factor of its loudness.
    """

    speed: float = 1.0
    pitch: float = 1.0
    gain: float = 1.0


HIBARI: Mapping[Side, Sound] = {
    "host": Sound(),
    "caller": Sound(speed=1.15, pitch=0.88, gain=2.2),
}
"""hibari has one voice, and the caller a lower one than the host; which makes it slower, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """The parts that speak and hear, the same for host and caller.

    Args:
        voice: `hibari` or `espeak`.
        ears: `moonshine`, or `pocketsphinx`, which understands the sentences of a grammar only.
        missing: Better parts that are not installed here.
    """

    voice: str
    ears: str
    missing: tuple[str, ...] = ()

    @property
    def is_free(self) -> bool:
        """Whether the ears understand any sentence."""
        return self.ears == "moonshine"

    def stt(self, side: Side, *, is_open: bool = False) -> STT:
        """Return the ears of a side.

        Args:
            is_open: Whether they take free English, also where they are made for a grammar.
        Raises:
            ConfigurationError: Their packages are missing.
        """
        if self.is_free:
            from vivavoce.plugins import moonshine

            interval = HOST_INTERIMS if side == "host" else CALLER_INTERIMS
            return moonshine.STT(options=moonshine.STTOptions(interim_interval=interval))
        from vivavoce.plugins import pocketsphinx

        return pocketsphinx.STT(grammar=None if is_open else GRAMMARS[side])

    def tts(self, side: Side) -> TTS:
        """Return the voice of a side.

        Raises:
            ConfigurationError: Its packages are missing.
        """
        if self.voice == "hibari":
            from vivavoce.plugins import hibari

            return hibari.TTS(speed=HIBARI[side].speed)
        from vivavoce.plugins import espeak

        return espeak.TTS(**CALLER_ESPEAK) if side == "caller" else espeak.TTS(voice="en-us+f5", rate=160)

    async def load(self) -> None:
        """Load the weights of this process, so that the first answer does not wait for them.

        Raises:
            ConfigurationError: They are damaged.
        """
        async with anyio.create_task_group() as tasks:
            if self.is_free:
                from vivavoce.plugins import moonshine

                tasks.start_soon(anyio.to_thread.run_sync, moonshine.STT().load)
            if self.voice == "hibari":
                from vivavoce.plugins import hibari

                tasks.start_soon(anyio.to_thread.run_sync, hibari.TTS().load)

    def sound(self, side: Side) -> Sound:
        """Return how the voice of a side is played."""
        return HIBARI[side] if self.voice == "hibari" else Sound()


def choose(voice: str | None, ears: str | None, *, has_call: bool) -> Speech:
    """Return the parts that are wanted, or the best that are installed.

    Args:
        voice, ears: None: the best one.
        has_call: Whether the simulated caller speaks: the ears must understand the voice then.
    Raises:
        ConfigurationError: They are not installed, or do not go together.
    """
    if has_call and voice == "espeak":
        if ears == "moonshine":
            raise ConfigurationError(
                "moonshine does not understand the robot's voice of espeak: give --voice hibari, or --ears pocketsphinx"
            )
        ears = "pocketsphinx"
    missing = [name for name, given in (("hibari", voice), ("moonshine", ears)) if given is None and not is_here(name)]
    voice = voice or best("tts")
    ears = ears or ("pocketsphinx" if has_call and voice == "espeak" else best("stt"))
    speech = Speech(voice=voice, ears=ears, missing=tuple(missing))
    speech.tts("host")  # each raises where a package is missing, with what helps
    speech.stt("host")
    return speech
