"""Resampler: the whole band of the lower rate, one delay, no sample lost."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.resample import Resampler

RATES = (8000, 16000, 22050, 24000, 44100, 48000)
PAIRS = [(here, there) for here in RATES for there in RATES if here != there]
LEVEL = 8000


def sine(hertz: float, rate: int, seconds: float = 1.0) -> AudioFrame:
    times = np.arange(round(seconds * rate)) / rate
    return AudioFrame(np.round(LEVEL * np.sin(2 * np.pi * hertz * times)).astype(np.int16).tobytes(), rate)


def level(hertz: float, here: int, there: int) -> float:
    """Return the decibels by which a sine changes, without its first and last 0.2 s."""
    changed = Resampler(here, there).push(sine(hertz, here)).to_numpy().astype(float)
    middle = changed[there // 5 : -there // 5]
    return float(20 * np.log10(np.sqrt(2 * np.mean(middle**2)) / LEVEL + 1e-9))


@pytest.mark.parametrize(("here", "there"), PAIRS)
def test_speech_keeps_its_band(here: int, there: int) -> None:
    """Of a telephone more than its 3.4 kHz."""
    for part in (0.1, 0.5, 0.9):
        assert level(part * min(here, there) / 2, here, there) == pytest.approx(0, abs=0.1)


@pytest.mark.parametrize(("here", "there"), [(here, there) for here, there in PAIRS if here > there])
def test_sound_beyond_the_band_does_not_come_back_as_another_tone(here: int, there: int) -> None:
    hertz = min(1.1 * there, (there + here) / 2) / 2
    assert level(hertz, here, there) < -60


@pytest.mark.parametrize(("here", "there"), [(here, there) for here, there in PAIRS if here < there])
def test_a_higher_rate_has_no_mirror_image_of_the_sound(here: int, there: int) -> None:
    changed = Resampler(here, there).push(sine(0.4 * here, here)).to_numpy().astype(float)
    spectrum = np.abs(np.fft.rfft(changed * np.hanning(len(changed))))
    hertz = np.fft.rfftfreq(len(changed), 1 / there)
    assert 20 * np.log10(spectrum[hertz > 0.5 * here].max() / spectrum.max()) < -60


@pytest.mark.parametrize(("here", "there"), PAIRS)
def test_audio_is_late_by_the_same_time_always(here: int, there: int) -> None:
    """A stream that comes in jerks makes reports of speech late by chance."""
    resampler, held = Resampler(here, there), []
    frames = sine(440, here, 4.0).to_numpy()
    for start, end in pairwise(range(0, len(frames), here // 50)):
        resampler.push(AudioFrame(frames[start:end].tobytes(), here))
        held.append(resampler.held)
    settled = held[5:]
    assert max(settled) - min(settled) < 1.5 / min(here, there)  # a sample that is not whole yet
    assert max(settled) <= 0.031


@pytest.mark.parametrize(("here", "there"), PAIRS)
def test_the_whole_audio_is_there_after_the_flush_and_in_its_place(here: int, there: int) -> None:
    samples = np.zeros(here, np.int16)
    samples[here // 2] = 20000
    resampler = Resampler(here, there)
    changed = resampler.push(AudioFrame(samples.tobytes(), here)).data + resampler.flush().data
    heard = np.abs(np.frombuffer(changed, np.int16).astype(int))
    assert len(heard) == pytest.approx(there, abs=1)
    assert heard.argmax() / there == pytest.approx((here // 2) / here, abs=0.0005)
    assert resampler.held == 0


def test_equal_rates_change_nothing() -> None:
    frame = sine(440, 16000)
    assert Resampler(16000, 16000).push(frame) is frame


def test_a_frame_of_another_rate_is_refused() -> None:
    with pytest.raises(ValueError, match="needed a mono frame of 16000 Hz, got 8000 Hz with 1 channel"):
        Resampler(16000, 8000).push(sine(440, 8000))
