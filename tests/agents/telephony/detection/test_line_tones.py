"""The beep of a voicemail and the tones of the network, through the codecs of a line, and all that is neither."""

from __future__ import annotations

import time

import numpy as np
import pytest

from kit.line_sounds import CODECS, RATE, Samples, hiss, joined, music, over, signals, signals_of, tone
from kit.speech import spoken
from vivavoce.agents.telephony.tones import key_tones
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.tone_detector import ToneDetector

FREQUENCIES = (440.0, 620.0, 800.0, 1000.0, 1250.0, 1400.0, 1700.0, 2000.0)
MORE = pytest.mark.test_all("further lengths, codecs and voices")
SECONDS = (0.1, pytest.param(0.25, marks=MORE), pytest.param(0.55, marks=MORE), 1.2)
SPEECH = (
    "You have reached the voicemail of the Robinson family. We are not at home at the moment, so please leave your "
    "name, your number and a short message, and we will call you back as soon as we can. Thank you. Have a good day.",
    "Oh no, who would do such a foolish thing so early in the morning? Ooh, I really do not know. Mmm. Hello? Hello!",
    "For sales, press one. For support, press two. To hear these options again, press the star key, or stay here.",
)
VOICES = ("en-us+f2", "en-gb", "de", "fr", "es", "it", "pt", "nl")


@pytest.mark.parametrize("seconds", SECONDS)
@pytest.mark.parametrize("frequency", FREQUENCIES)
def test_a_tone_is_a_beep_by_each_codec(frequency: float, seconds: float) -> None:
    assert signals_of(tone(frequency, seconds=seconds)) == [["beep"]] * len(CODECS)


@pytest.mark.parametrize("level", [-36.0, -3.0])
def test_quiet_and_loud_beeps_are_beeps(level: float) -> None:
    assert signals_of(tone(1000.0, seconds=0.3, level=level)) == [["beep"]] * len(CODECS)


def test_a_beep_behind_speech_is_found() -> None:
    speech = np.concatenate([music(2.0), hiss(0.1)])
    assert signals_of(joined(speech, tone(1400.0, seconds=0.2))) == [["beep"]] * len(CODECS)


@pytest.mark.parametrize("gap", [0.0, 0.03])
def test_the_tones_before_an_announcement_are_no_beep(gap: float) -> None:
    tones = [joined(tone(frequency, seconds=0.33), hiss(gap)) for frequency in (950.0, 1400.0, 1800.0)]
    assert signals_of(joined(*tones)) == [["tones"]] * len(CODECS)


def cadence(sound: Samples, off: float, times: int) -> Samples:
    return joined(*(joined(sound, hiss(off)) for _ in range(times)))


def keys() -> Samples:
    return key_tones("0123456789*#ABCD").to_numpy().astype(np.float64)


def warble(seconds: float) -> Samples:
    """Return a tone that goes up and down."""
    times = np.arange(round(seconds * RATE)) / RATE
    heard: Samples = 8000 * np.sin(2 * np.pi * 1000 * times - 40 * np.cos(2 * np.pi * 3 * times))
    return heard


NEITHER = {
    "keys": keys(),
    "busy, USA": cadence(tone(480.0, 620.0, seconds=0.5), 0.5, 4),
    "busy, Europe": cadence(tone(425.0, seconds=0.48), 0.48, 4),
    "rings, USA": cadence(tone(440.0, 480.0, seconds=2.0), 2.0, 2),
    "rings, Britain": cadence(tone(400.0, 450.0, seconds=0.4), 0.2, 4),
    "rings, Europe": cadence(tone(425.0, seconds=1.0), 4.0, 2),
    "dial tone": tone(350.0, 440.0, seconds=3.0),
    "a fax answers": tone(2100.0, seconds=3.0),
    "noise": hiss(10.0, level=-20.0),
    "a tune": joined(*(tone(frequency, seconds=0.3) for frequency in (523.0, 659.0, 784.0, 1047.0))),
    "a siren": warble(5.0),
    "a click": tone(1000.0, seconds=0.04),
    "too quiet": tone(1000.0, seconds=0.5, level=-50.0),
}


@pytest.mark.parametrize("codecs", [CODECS[:1], pytest.param(CODECS[1:], marks=MORE)])
@pytest.mark.parametrize("name", NEITHER)
def test_other_sounds_of_a_line_are_neither(name: str, codecs: tuple[str, ...]) -> None:
    assert signals_of(NEITHER[name], codecs) == [[]] * len(codecs)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=MORE), pytest.param(2, marks=MORE)])
def test_music_is_neither(seed: int) -> None:
    assert signals_of(music(15.0, seed=seed), ("mulaw", "16 kHz")) == [[], []]


async def test_speech_is_neither() -> None:
    for said in await spoken(*SPEECH):
        sound = said.to_numpy().astype(np.float64)
        assert signals_of(sound, ("mulaw", "16 kHz")) == [[], []]


@pytest.mark.test_all("ten minutes of speech")
async def test_ten_minutes_of_speech_in_eight_voices_hold_no_beep() -> None:
    seconds = 0.0
    for voice in VOICES:
        for rate in (120, 160, 210):
            for said in await spoken(*SPEECH, voice=voice, rate=rate):
                seconds += said.duration
                for codec in ("mulaw", "alaw", "16 kHz"):
                    assert signals(over(codec, said.to_numpy().astype(np.float64))) == []
    assert seconds > 600


@pytest.mark.parametrize("rate", [8000, 16000, 44100, 48000])
def test_a_tone_has_its_frequency_and_length_at_each_rate(rate: int) -> None:
    times = np.arange(round(0.5 * rate)) / rate
    sound = np.concatenate([np.zeros(rate // 5), 8000 * np.sin(2 * np.pi * 1234.0 * times), np.zeros(rate // 5)])
    detector = ToneDetector()
    [(found,)] = detector.push(AudioFrame(sound.astype(np.int16).tobytes(), rate))
    assert found.frequency == pytest.approx(1234.0, abs=3.0)
    assert found.seconds == pytest.approx(0.5, abs=0.05)


def test_the_rate_may_change_within_a_call() -> None:
    detector = ToneDetector()
    for rate in (8000, 16000):
        times = np.arange(round(0.3 * rate)) / rate
        sound = np.concatenate([8000 * np.sin(2 * np.pi * 1000.0 * times), np.zeros(rate // 5)])
        assert len(detector.push(AudioFrame(sound.astype(np.int16).tobytes(), rate))) == 1


@pytest.mark.test_all("a measure of time")
def test_a_frame_costs_less_than_a_hundred_microseconds() -> None:
    detector, frame = ToneDetector(), over("16 kHz", hiss(0.02, level=-20.0))
    detector.push(frame)
    best = float("inf")
    for _ in range(20):
        began_at = time.process_time()
        for _ in range(200):
            detector.push(frame)
        best = min(best, (time.process_time() - began_at) / 200)
    assert best < 100e-6
