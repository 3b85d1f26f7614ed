"""plugins/apm keeps the promises of a denoiser."""

from __future__ import annotations

import pytest

from kit.speech import mixed, spoken, white_noise
from vivavoce.pipelines.testing import check_denoiser
from vivavoce.plugins import apm


@pytest.mark.parametrize("rate", [16000, 32000, 48000])
async def test_apm_keeps_the_promises_of_a_denoiser(rate: int) -> None:
    (speech,) = await spoken("no thank you that is all for today")
    options = apm.DenoiseOptions(sample_rate=rate, gain_control=True)
    await check_denoiser(lambda: apm.Denoiser(options=options), mixed(speech, white_noise(speech.duration, -40)))
