"""The sentence of the callers, as the Ogg Opus file that their program sends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import av

from kit.speech import spoken

SPEECH = "a table for four on friday at seven please"


def make_speech(path: Path) -> None:
    """Write the caller's sentence as Ogg Opus, one packet of 20 ms a page."""
    (frame,) = asyncio.run(spoken(SPEECH))
    with av.open(str(path), "w", format="ogg", options={"page_duration": "20000"}) as file:
        stream = file.add_stream("libopus", rate=48000, layout="mono", options={"frame_duration": "20"})
        sound = av.AudioFrame(format="s16", layout="mono", samples=frame.samples)
        sound.sample_rate = frame.sample_rate
        sound.planes[0].update(frame.data)
        resampler = av.AudioResampler("s16", "mono", 48000, frame_size=960)
        for piece in [*resampler.resample(sound), *resampler.resample(None)]:
            file.mux(stream.encode(piece))
        file.mux(stream.encode(None))
