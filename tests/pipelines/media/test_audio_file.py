"""AudioFileReader: WAV files of every PCM width, other kinds by PyAV, and errors for unreadable files."""

from __future__ import annotations

import builtins
import struct
import threading
import wave
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from vivavoce.pipelines.core.errors import AudioFileError, ConfigurationError
from vivavoce.pipelines.media.audio_file import AudioFileReader, check_audio_file
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.wav import write_wav

RATE = 8000


def numbered(samples: int) -> AudioFrame:
    return AudioFrame((np.arange(samples) % 20000 - 10000).astype(np.int16).tobytes(), RATE)


def tone(seconds: float, rate: int = RATE, channels: int = 1) -> AudioFrame:
    one = 8000 * np.sin(2 * np.pi * 440 * np.arange(round(seconds * rate)) / rate)
    return AudioFrame(np.repeat(one, channels).astype(np.int16).tobytes(), rate, channels)


def read_all(path: Path) -> AudioFrame:
    reader = AudioFileReader(str(path))
    pieces = []
    while (frame := reader.read()) is not None:
        assert frame.num_channels == 1
        pieces.append(frame)
    reader.close()
    return AudioFrame(b"".join(piece.data for piece in pieces), pieces[0].sample_rate)


def encode(path: Path, codec: str, audio: AudioFrame, layout: str = "mono") -> Path:
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream(codec, rate=audio.sample_rate, layout=layout)
        frame = av.AudioFrame.from_ndarray(audio.to_numpy().reshape(1, -1), format="s16", layout=layout)
        frame.sample_rate = audio.sample_rate
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def test_a_wav_file_comes_in_pieces_of_a_second_and_whole(tmp_path: Path) -> None:
    path, audio = tmp_path / "a.wav", numbered(2 * RATE + 7)
    write_wav(path, audio)
    reader = AudioFileReader(str(path))
    pieces = [reader.read() for _ in range(4)]
    assert [piece.samples if piece else None for piece in pieces] == [RATE, RATE, 7, None]
    assert b"".join(piece.data for piece in pieces if piece) == audio.data
    reader.rewind()
    assert reader.read() == pieces[0]
    assert reader.duration == pytest.approx(2 + 7 / RATE)
    reader.close()
    assert reader.read() is None


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_every_width_of_pcm_is_read_as_16_bit(tmp_path: Path, width: int) -> None:
    values = [-32768, -256, 0, 256, 32512]
    path = tmp_path / "a.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(width)
        file.setframerate(RATE)
        if width == 1:
            file.writeframes(bytes((value >> 8) + 128 for value in values))
        else:
            raw = b"".join((value << 8 * (width - 2)).to_bytes(width, "little", signed=True) for value in values)
            file.writeframes(raw)
    assert read_all(path).to_numpy().tolist() == values


def test_channels_are_mixed_into_one(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    write_wav(path, AudioFrame(np.array([100, 300, -4, -8, 32767, 32767], np.int16).tobytes(), RATE, 2))
    assert read_all(path).to_numpy().tolist() == [200, -6, 32767]


def test_a_wav_file_that_lies_about_its_length_or_is_cut_short_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path, audio = tmp_path / "a.wav", numbered(1000)
    write_wav(path, audio)
    data = bytearray(path.read_bytes()[:-501])
    data[40:44] = struct.pack("<I", 0x7FFFFFFF)
    path.write_bytes(bytes(data))
    reader = AudioFileReader(str(path))
    frame = reader.read()
    assert frame is not None
    assert frame.data == audio.data[:1498]
    assert reader.duration == pytest.approx(750 / RATE, abs=0.004)
    reader.close()


@pytest.mark.parametrize(
    ("name", "codec", "rate", "channels"),
    [("a.mp3", "libmp3lame", 44100, 1), ("a.ogg", "libopus", 48000, 1), ("a.flac", "flac", 22050, 2)],
)
def test_other_kinds_of_files_are_decoded(tmp_path: Path, name: str, codec: str, rate: int, channels: int) -> None:
    audio = tone(2.5, rate, channels)
    path = encode(tmp_path / name, codec, audio, "mono" if channels == 1 else "stereo")
    read = read_all(path)
    assert read.sample_rate == rate
    assert read.duration == pytest.approx(2.5, abs=0.06)  # codecs pad
    samples = read.to_numpy()[rate // 2 : rate * 2].astype(float)
    assert np.sqrt((samples**2).mean()) == pytest.approx(8000 / np.sqrt(2), rel=0.1)
    spectrum = np.abs(np.fft.rfft(samples))
    assert np.argmax(spectrum) * rate / len(samples) == pytest.approx(440, abs=1)
    reader = AudioFileReader(str(path))
    reader.read()
    assert reader.duration == pytest.approx(2.5, abs=0.1)
    reader.close()


def test_a_wav_file_of_floats_is_decoded_too(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    values = np.array([0.5, -0.25], "<f4").tobytes()
    header = (
        b"RIFF"
        + struct.pack("<I", 36 + len(values))
        + b"WAVEfmt "
        + struct.pack("<IHHIIHH", 16, 3, 1, RATE, RATE * 4, 4, 32)
    )
    path.write_bytes(header + b"data" + struct.pack("<I", len(values)) + values)
    assert read_all(path).to_numpy().tolist() == [16384, -8192]


@pytest.mark.parametrize("data", [b"", b"RIFF", b"RIFF\0\0\0\0WAVEjunk", b"no audio at all, only words" * 100])
def test_a_broken_file_is_named(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "broken.wav"
    path.write_bytes(data)
    with pytest.raises(AudioFileError, match=r"broken\.wav"):
        AudioFileReader(str(path)).read()


def test_a_file_without_audio_is_named(tmp_path: Path) -> None:
    path = tmp_path / "words.srt"
    path.write_text("1\n00:00:00,000 --> 00:00:01,000\nhello\n")
    with pytest.raises(AudioFileError, match="no audio stream"):
        AudioFileReader(str(path)).read()


def test_a_file_that_goes_before_it_is_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(AudioFileError, match=r"gone\.wav"):
        AudioFileReader(str(tmp_path / "gone.wav")).read()


def test_without_the_extra_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = encode(tmp_path / "a.flac", "flac", tone(0.5))
    original = builtins.__import__

    def no_av(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.endswith("av_file"):
            raise ImportError("No module named 'av'", name="av")
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_av)
    with pytest.raises(ConfigurationError, match=r"pip install 'vivavoce\[audio\]'"):
        AudioFileReader(str(path)).read()


@pytest.mark.parametrize("path", ["nowhere.wav", "."])
def test_a_path_without_a_file_is_refused(path: str) -> None:
    with pytest.raises(ConfigurationError, match="audio file"):
        check_audio_file(path)


def test_a_reader_closed_during_a_read_closes_its_file_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, goes_on = threading.Event(), threading.Event()
    closed: list[bool] = []

    class Slow:
        sample_rate, duration = RATE, None

        def __init__(self, path: str) -> None:
            reads.set()
            goes_on.wait(5)

        def read(self, samples: int) -> AudioFrame:
            return numbered(samples)

        def close(self) -> None:
            closed.append(True)

    monkeypatch.setattr("vivavoce.pipelines.media.audio_file._open", Slow)
    reader = AudioFileReader("any")
    thread = threading.Thread(target=reader.read)
    thread.start()
    assert reads.wait(5)
    reader.close()
    assert not closed
    goes_on.set()
    thread.join(5)
    assert closed == [True]
    assert reader.read() is None
