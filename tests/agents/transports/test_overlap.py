"""Where live audio continues a recording of the same microphone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from kit.recordings import RATE, babble, coded, part
from vivavoce.agents.transports.livekit.overlap import is_quiet, live_begin


@pytest.mark.parametrize("overlap", [0.08, 0.2, 0.45, 1.2])
@pytest.mark.parametrize("silence", [0.0, 0.05])
def test_live_audio_is_found_in_the_recording_whatever_the_codec_has_done_to_it(overlap: float, silence: float) -> None:
    live = np.concatenate([np.zeros(round(silence * RATE), np.int16), coded(part(3.0 - overlap, 4.0))])
    begin = live_begin(part(0.0, 3.0).tobytes(), live.tobytes(), RATE)
    assert begin == pytest.approx((3.0 - overlap - silence) * RATE, abs=0.002 * RATE)


@pytest.mark.parametrize("live", [part(3.0, 4.0), babble(1.0, seed=5), np.zeros(RATE, np.int16), np.zeros(0, np.int16)])
def test_live_audio_that_is_not_in_the_recording_is_not_found(live: npt.NDArray[np.int16]) -> None:
    assert live_begin(part(0.0, 3.0).tobytes(), live.tobytes(), RATE) is None


def test_a_recording_without_a_sound_is_quiet() -> None:
    assert is_quiet(bytes(2 * RATE), RATE)
    assert is_quiet(b"", RATE)
    assert not is_quiet(part(0.0, 1.0).tobytes() + bytes(RATE), RATE)
