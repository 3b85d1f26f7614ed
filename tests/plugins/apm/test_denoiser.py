"""plugins/apm: its effect on noise and speech, in the figures of its documentation, and the bookkeeping of blocks."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from kit.speech import RATE, brown_noise, frames, spoken, white_noise
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.plugins import apm

Samples = npt.NDArray[np.float64]

SENTENCES = (
    "could I have a table by the window please",
    "tomorrow evening at half past six",
    "no thank you that is all for today",
)
OPTIONS = {
    "default": apm.DenoiseOptions(),
    "high-pass only": apm.DenoiseOptions(noise_suppression=False),
    "gain control": apm.DenoiseOptions(gain_control=True),
}
ROW = re.compile(
    r"^\s+(-\d+)\s+(white|brown|hum) (-\d+)\s+([a-z -]+?)\s+(-[\d.]+) -> (-[\d.]+)\s+(-[\d.]+) -> (-[\d.]+)$",
    re.MULTILINE,
)
ROWS = ROW.findall(apm.__doc__ or "")
EXACT = 1.0
"""dB by which the figures may differ with the builds of espeak-ng and WebRTC that they were measured with."""
ROUGH = 6.0
"""dB by which they may differ with any build; without suppression they would differ by 12."""


@dataclass(frozen=True)
class Talk:
    """Sentences with pauses, and where they sound (`speech`) or where it is quiet for long (`pause`)."""

    clean: Samples
    speech: npt.NDArray[np.bool_]
    pause: npt.NDArray[np.bool_]


def level(samples: Samples) -> float:
    """Return dB below full scale (RMS)."""
    return float(20 * np.log10(np.sqrt(np.mean(samples**2)) / 32768))


async def talk() -> Talk:
    gap = np.zeros(2 * RATE)
    parts = [gap]
    for frame in await spoken(*SENTENCES):
        parts += [frame.to_numpy().astype(float), gap]
    clean = np.concatenate(parts)
    power = np.convolve(clean**2, np.ones(RATE // 50) / (RATE // 50), "same")
    speech = power > power.max() * 10**-2.5
    pause = ~(np.convolve(speech, np.ones(RATE // 2), "same") > 0)
    pause[:RATE] = False
    return Talk(clean, speech, pause)


def noise(kind: str, samples: int, decibels: float) -> Samples:
    if kind == "hum":
        tones = sum(np.sin(2 * np.pi * 50 * k * np.arange(samples) / RATE) / k for k in (1, 2, 3))
        return np.asarray(tones) * 10 ** ((decibels - level(np.asarray(tones))) / 20)
    make = {"white": white_noise, "brown": brown_noise}[kind]
    return make(samples / RATE, decibels).to_numpy().astype(float)


def denoised(audio: npt.NDArray[np.int16], options: apm.DenoiseOptions) -> Samples:
    stream = apm.Denoiser(options=options).open()
    return np.concatenate([stream.push(frame).to_numpy() for frame in frames(AudioFrame(audio.tobytes(), RATE))]) * 1.0


def test_the_documentation_gives_figures_for_every_kind_of_noise_and_option() -> None:
    assert {row[1] for row in ROWS} == {"white", "brown", "hum"}
    assert {row[3] for row in ROWS} == set(OPTIONS)


each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: "_".join(row[:4]))


async def levels(row: tuple[str, ...]) -> list[float]:
    """Measure a row anew: the pauses before and after, then the speech before and after."""
    wanted, kind, level_of_noise, name, *_ = row
    said = await talk()
    speech = said.clean * 10 ** ((float(wanted) - level(said.clean[said.speech])) / 20)
    noisy = np.clip(speech + noise(kind, len(speech), float(level_of_noise)), -32768, 32767).astype(np.int16)
    options = OPTIONS[name]
    lag = round(apm.Denoiser(options=options).capabilities.delay * RATE)
    clean = (await asyncio.to_thread(denoised, noisy, options))[lag:]
    return [
        level(audio[mask[: len(clean)]])
        for mask in (said.pause, said.speech)
        for audio in (noisy[: len(clean)].astype(float), clean)
    ]


@each_row
async def test_noise_is_lowered_and_speech_is_left_about_as_documented(row: tuple[str, ...]) -> None:
    assert await levels(row) == pytest.approx([float(figure) for figure in row[4:]], abs=ROUGH)


@pytest.mark.test_all("the figures are those of one build of espeak-ng and WebRTC")
@each_row
async def test_silence_and_speech_come_out_at_the_documented_levels(row: tuple[str, ...]) -> None:
    assert await levels(row) == pytest.approx([float(figure) for figure in row[4:]], abs=EXACT)


@pytest.mark.parametrize(
    "options",
    [
        apm.DenoiseOptions(sample_rate=rate, noise_suppression=suppresses)
        for rate in (16000, 32000, 48000)
        for suppresses in (True, False)
    ],
)
def test_the_output_lags_by_the_delay_of_the_capabilities(options: apm.DenoiseOptions) -> None:
    denoiser = apm.Denoiser(options=options)
    rate = options.sample_rate
    given = np.random.default_rng(0).normal(size=2 * rate) * 3000
    stream = denoiser.open()
    block = rate // 50
    came = np.concatenate(
        [
            stream.push(AudioFrame(given[at : at + block].astype(np.int16).tobytes(), rate)).to_numpy()
            for at in range(0, len(given), block)
        ]
    )
    alike = np.fft.irfft(np.fft.rfft(came) * np.conj(np.fft.rfft(given)))
    assert int(np.argmax(alike)) / rate == pytest.approx(denoiser.capabilities.delay, abs=0.0002)


@pytest.mark.parametrize("sizes", [(320,), (160,), (300, 300, 600), (1,), (7, 1000)])
def test_frames_of_any_length_come_back_as_long_and_in_order(sizes: tuple[int, ...]) -> None:
    gain = apm.DenoiseOptions(noise_suppression=False, high_pass_filter=True)
    whole = white_noise(1.0, -30).data
    reference = apm.Denoiser(options=gain).open().push(AudioFrame(whole, RATE)).to_numpy()
    stream = apm.Denoiser(options=gain).open()
    rest, pieces, turn = whole, [], 0
    while rest:
        size = 2 * sizes[turn % len(sizes)]
        piece, rest, turn = rest[:size], rest[size:], turn + 1
        clean = stream.push(AudioFrame(piece, RATE))
        assert clean.samples == len(piece) // 2
        pieces.append(clean.to_numpy())
    came = np.concatenate(pieces)
    lag = 159 if any(size % 160 for size in sizes) else 0
    assert np.array_equal(came[2000:], reference[2000 - lag : len(reference) - lag])


def test_two_streams_do_not_share_what_they_learn() -> None:
    denoiser = apm.Denoiser()
    audio = white_noise(2.0, -40)
    first, second, alone = denoiser.open(), denoiser.open(), denoiser.open()
    came = []
    for frame in frames(audio):
        first.push(frame)
        came.append(second.push(AudioFrame.silence(0.02, RATE)).data)
    assert not np.frombuffer(b"".join(came), np.int16).any()
    fresh = [first.push(frame).data for frame in frames(audio)]
    assert fresh != [alone.push(frame).data for frame in frames(audio)]


def test_a_frame_of_another_rate_or_of_two_channels_is_refused() -> None:
    stream = apm.Denoiser().open()
    with pytest.raises(ValueError, match="mono frames of 16000 Hz, got 48000 Hz"):
        stream.push(AudioFrame.silence(0.02, 48000))
    with pytest.raises(ValueError, match="with 2 channel"):
        stream.push(AudioFrame(bytes(1280), RATE, 2))


def test_a_closed_stream_says_so() -> None:
    stream = apm.Denoiser().open()
    stream.close()
    stream.close()
    with pytest.raises(ConfigurationError, match="needed an open stream"):
        stream.push(AudioFrame.silence(0.02, RATE))


def test_options_that_cannot_work_are_refused() -> None:
    with pytest.raises(ValueError, match=r"sample_rate must be one of \(16000, 32000, 48000\) Hz, got 8000"):
        apm.DenoiseOptions(sample_rate=8000)
    with pytest.raises(ValueError, match="at least one stage"):
        apm.DenoiseOptions(noise_suppression=False, high_pass_filter=False)
