"""LoopedFile: loops exact to the sample, seams and ends that do not click, long files read again, rates changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from vivavoce.pipelines.core.errors import AudioFileError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.loop import KEPT_SECONDS, SEAM_SECONDS, LoopedFile
from vivavoce.pipelines.media.wav import write_wav

RATE = 8000


def sine(hertz: float, samples: int, rate: int = RATE) -> npt.NDArray[np.int16]:
    return np.round(10000 * np.sin(2 * np.pi * hertz * np.arange(samples) / rate)).astype(np.int16)


def looped(path: Path, samples: npt.NDArray[np.int16], rate: int = RATE, *, is_looping: bool = True) -> LoopedFile:
    write_wav(path / "loop.wav", AudioFrame(samples.tobytes(), rate))
    return LoopedFile(str(path / "loop.wav"), RATE, is_looping=is_looping)


def read(loop: LoopedFile, samples: int) -> npt.NDArray[np.int16]:
    data = b""
    while len(data) < 2 * samples and (frame := loop.read()) is not None:
        data += frame.data
    loop.close()
    return np.frombuffer(data, np.int16)[:samples]


@pytest.mark.parametrize("seconds", [0.001, 0.01, 0.3, 1.0, 2.5, KEPT_SECONDS + 1.25])
def test_a_loop_whose_ends_meet_is_exact_to_the_sample(tmp_path: Path, seconds: float) -> None:
    samples = sine(1000, round(seconds * RATE))  # 8 samples a period
    heard = read(looped(tmp_path, samples), 3 * len(samples) + 5)
    assert heard.tolist() == np.tile(samples, 4)[: len(heard)].tolist()
    assert len(heard) == 3 * len(samples) + 5


@pytest.mark.parametrize("seconds", [0.3, KEPT_SECONDS + 1.25])
def test_a_seam_whose_ends_do_not_meet_does_not_click(tmp_path: Path, seconds: float) -> None:
    samples = sine(100, round(seconds * RATE) + 20)  # ends on a peak, begins at 0
    heard = read(looped(tmp_path, samples), 3 * len(samples)).astype(int)
    own = np.abs(np.diff(samples.astype(int))).max()
    assert abs(int(samples[-1]) - int(samples[0])) > 9000
    assert np.abs(np.diff(heard)).max() <= own + 10000 / (SEAM_SECONDS * RATE) + 2
    seam = round(SEAM_SECONDS * RATE)
    assert (heard[: len(samples) - seam] == samples[:-seam]).all()  # the first time around, it begins unchanged
    assert (heard[len(samples) + seam : 2 * len(samples) - seam] == samples[seam:-seam]).all()


def test_a_file_that_is_played_once_ends_without_a_click(tmp_path: Path) -> None:
    samples = sine(100, 2 * RATE + 20)
    heard = read(looped(tmp_path, samples, is_looping=False), 10**6).astype(int)
    assert len(heard) == len(samples)
    assert abs(heard[-1]) <= 1
    assert (heard[: -round(SEAM_SECONDS * RATE)] == samples[: -round(SEAM_SECONDS * RATE)]).all()


@pytest.mark.parametrize("is_looping", [True, False])
def test_another_rate_is_changed_without_a_trace_of_the_seam(tmp_path: Path, is_looping: bool) -> None:
    samples = sine(441, 11025, 44100)  # 110.25 periods would click; 100 samples are one
    samples = samples[:11000]
    heard = read(looped(tmp_path, samples, 44100, is_looping=is_looping), 4 * RATE if is_looping else 10**6)
    if not is_looping:
        assert len(heard) == pytest.approx(11000 * RATE / 44100, abs=2)
        return
    middle = heard[RATE // 10 : -RATE // 10].astype(float)
    n = np.arange(len(middle))
    basis = np.stack([np.sin(2 * np.pi * 441 * n / RATE), np.cos(2 * np.pi * 441 * n / RATE)], axis=1)
    rest = middle - basis @ np.linalg.lstsq(basis, middle, rcond=None)[0]
    assert np.abs(rest).max() < 150  # -36 dB: soxr's own passband ripple and rounding, at every sample alike


@pytest.mark.parametrize("is_looping", [True, False])
def test_a_file_without_a_sample_is_refused(tmp_path: Path, is_looping: bool) -> None:
    with pytest.raises(AudioFileError, match="no audio"):
        looped(tmp_path, sine(100, 0), is_looping=is_looping).read()


def test_a_loop_that_was_closed_does_not_go_on_for_ever(tmp_path: Path) -> None:
    loop = looped(tmp_path, sine(100, 10 * RATE))
    loop.read()
    loop.close()
    with pytest.raises(AudioFileError):
        read(loop, 20 * RATE)


def test_a_file_that_breaks_while_it_loops_is_told(tmp_path: Path) -> None:
    loop = looped(tmp_path, sine(100, 10 * RATE))
    loop.read()
    (tmp_path / "loop.wav").unlink()
    with pytest.raises(AudioFileError, match=r"loop\.wav"):
        read(loop, 20 * RATE)
    loop.close()
