"""`vivavoce console`, whole: typed, from WAV to WAV, and on the devices of a real sound server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from kit.e2e.command import MAIN, running
from kit.e2e.pulse import RATE, sound_server
from kit.e2e.talker import RATE as TALKER_RATE
from kit.e2e.talker import record
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.wav import read_wav, write_wav
from vivavoce.plugins import hibari

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

EARS = pytest.mark.test_all("a recogniser may mishear a word on a busy machine")

HELLO = Path(__file__).parents[2] / "examples/hello.py"
AUDIBLE = 300.0
"""RMS, of 32768, from which sound counts as heard."""


async def said(path: Path, *lines: tuple[float, str], tail: float = 0.5) -> Path:
    """Write a WAV file of a caller: seconds of silence, then a line, and so on."""
    voices = await record((text for _, text in lines), hibari.TTS())  # moonshine understands no robot
    pcm = b"".join(bytes(2 * round(TALKER_RATE * wait)) + voices[text] for wait, text in lines)
    write_wav(path, AudioFrame(pcm + bytes(2 * round(TALKER_RATE * tail)), TALKER_RATE))
    return path


def stretches(samples: npt.NDArray[np.int16], rate: int, *, quiet: float = 0.4) -> list[tuple[float, float]]:
    """Return when something sounds, in seconds."""
    size = rate // 100
    blocks = samples[: len(samples) // size * size].reshape(-1, size).astype(np.float64)
    loud = np.flatnonzero(np.sqrt(np.mean(blocks**2, axis=1)) >= AUDIBLE)
    found: list[tuple[float, float]] = []
    for block in loud.tolist():
        if found and block / 100 - found[-1][1] < quiet:
            found[-1] = (found[-1][0], (block + 1) / 100)
        else:
            found.append((block / 100, (block + 1) / 100))
    return found


def vivavoce(*arguments: str, typed: str = "", cwd: Path) -> tuple[int, str]:
    """Run the command with something typed into it."""
    done = subprocess.run(
        [sys.executable, "-c", MAIN, *arguments],
        input=typed, cwd=cwd, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.test_all("a copy, with the README's agent, of the typed file in test_console_typed.py")
def test_a_typed_conversation_is_answered_in_writing_and_ends_with_its_input(tmp_path: Path) -> None:
    status, printed = vivavoce("console", str(HELLO), "--text", typed="on friday\n\nat seven\n", cwd=tmp_path)
    assert status == 0, printed
    for words in ("Hello! For which day?", "on friday", "At what time?", "Your table is booked for friday at seven."):
        assert words in printed
    assert "Traceback" not in printed


@EARS
async def test_a_wav_file_speaks_and_another_gets_the_answers(tmp_path: Path) -> None:
    wav = await said(tmp_path / "in.wav", (3.0, "on friday"), (4.0, "at seven"))
    status, printed = vivavoce("console", str(HELLO), "--wav", str(wav), "--out", "out.wav", cwd=tmp_path)
    assert status == 0, printed
    assert "Your table is booked for friday at seven." in printed
    heard = read_wav(tmp_path / "out.wav")
    assert (heard.sample_rate, heard.num_channels) == (48000, 1)
    sounds = stretches(heard.to_numpy(), heard.sample_rate)
    assert len(sounds) >= 3  # the greeting, the question, the answer
    assert heard.duration >= sounds[-1][1]


def test_ctrl_c_ends_a_conversation_and_leaves_nothing(tmp_path: Path) -> None:
    write_wav(tmp_path / "in.wav", AudioFrame.silence(60.0, 16000))
    with running(tmp_path, "console", str(HELLO), "--wav", "in.wav", "--out", "out.wav") as command:
        command.read_until("For which day?")
        assert command.end(signal.SIGINT) == 0
        assert command.family() == {}
        assert "Traceback" not in command.seen
    assert read_wav(tmp_path / "out.wav").duration > 1.0


@EARS
async def test_microphone_and_speakers_hold_a_conversation(tmp_path: Path) -> None:
    wav = await said(tmp_path / "line.wav", (0.1, "on friday"))
    with sound_server(tmp_path) as sound:
        recording = sound.record(tmp_path / "heard.pcm")
        try:
            with running(tmp_path, "console", str(HELLO), **sound.environment) as command:
                command.read_until("For which day?")
                sound.play(wav).wait(timeout=30)
                command.read_until("At what time?")
                assert command.end(signal.SIGINT) == 0
                assert "on friday" in command.seen.casefold()
        finally:
            recording.terminate()
            recording.wait(timeout=10)
    heard = np.fromfile(tmp_path / "heard.pcm", dtype=np.int16)
    assert len(stretches(heard, RATE)) >= 2


def test_devices_are_listed_and_a_wrong_one_is_said_so(tmp_path: Path) -> None:
    with sound_server(tmp_path) as sound:
        with running(tmp_path, "console", "--devices", **sound.environment) as command:
            assert command.process.wait(timeout=60) == 0
            command.read_until("pulse")
        with running(tmp_path, "console", str(HELLO), "--input", "gramophone", **sound.environment) as command:
            assert command.process.wait(timeout=60) == 1
            command.read_until("'gramophone'")
            command.read_until("vivavoce console --devices")
            for words in ("Traceback", "call in room", "call ended"):
                assert words not in command.seen
    assert os.environ.get("PULSE_SERVER") is None
