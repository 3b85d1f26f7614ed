"""The facts about the WebRTC audio processing."""

from __future__ import annotations

from vivavoce.pipelines.about import Part, Provider
from vivavoce.plugins.apm.denoiser import Denoiser

PROVIDERS = (
    Provider(
        name="apm",
        title="WebRTC audio processing",
        parts=(
            Part(
                kind="denoise",
                make=Denoiser,
                note="Steady noise falls by 12 dB and more. Voices behind the caller stay.",
            ),
        ),
    ),
)
