"""Denoising by the WebRTC audio processing of livekit: noise suppression, high-pass filter, gain control.

It needs no installation: `livekit` is a dependency of vivavoce. Give it to a pipeline, cascading or realtime:

    CascadingPipeline(..., denoise=apm.Denoiser())

Measured on three English sentences of espeak-ng, each 2 s apart, of -26 or -46 dB below full scale (RMS where they
sound), in constant noise; "pause" is the noise between them after the first second, "speech" the RMS of speech and
noise together where the sentences sound. In dB below full scale, before and after; a test repeats the measurement.

    speech  noise      options         pause            speech
    -26     white -50  default         -50.0 -> -62.3   -26.0 -> -26.3
    -26     white -40  default         -40.0 -> -52.4   -25.8 -> -26.4
    -26     brown -50  default         -50.5 -> -71.2   -26.0 -> -26.3
    -26     hum -50    default         -50.0 -> -68.8   -26.0 -> -26.3
    -26     hum -50    high-pass only  -50.0 -> -56.2   -26.0 -> -26.3
    -46     white -60  default         -60.1 -> -72.5   -45.8 -> -46.4
    -46     white -50  default         -50.0 -> -61.8   -44.6 -> -47.0
    -46     white -60  gain control    -60.1 -> -49.3   -45.8 -> -23.3
    -26     white -50  gain control    -50.0 -> -55.5   -26.0 -> -20.5

So steady noise falls by 12 dB and more, and speech 20 dB above it keeps its level; speech near the noise loses some dB.
WebRTC switches the high-pass filter on when noise is suppressed, so the option alone matters only without noise
suppression. Gain control lifts quiet speech to about -20 dB, and the pauses with it. Voices and clatter behind the
caller are not steady noise: they stay. A given recogniser need not improve by it: several are trained on noisy speech.
Measure yours.

It costs 0.04 ms of CPU for each 10 ms and has a delay of 6 ms, which the pipeline takes into account.
"""

from __future__ import annotations

from vivavoce.plugins.apm.denoiser import Denoiser
from vivavoce.plugins.apm.options import DenoiseOptions

__all__ = ["DenoiseOptions", "Denoiser"]
