"""A sound server of our own with null devices: audio played into one is recorded from it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kit.servers.missing import missing

READY_LIMIT = 20.0
RATE = 48000


@dataclass(frozen=True)
class Sound:
    """A running sound server: a microphone that hears the audio played into it, and speakers that can be recorded."""

    environment: dict[str, str]
    """The variables with which a client finds it."""

    def play(self, wav: Path) -> subprocess.Popen[bytes]:
        """Begin to play a file into the microphone."""
        return subprocess.Popen(["paplay", "--device=microphone", str(wav)], env={**os.environ, **self.environment})

    def record(self, to: Path) -> subprocess.Popen[bytes]:
        """Begin to record the speakers, 48 kHz mono 16-bit PCM without a header."""
        command = ["parec", "--device=speakers.monitor", "--raw", "--format=s16le", f"--rate={RATE}", "--channels=1"]
        with to.open("wb") as file:
            return subprocess.Popen(command, stdout=file, env={**os.environ, **self.environment})


@contextmanager
def sound_server(folder: Path, *, echoes: bool = False) -> Iterator[Sound]:
    """Run PulseAudio on a socket of its own.

    Args:
        echoes: Whether the microphone hears the speakers too.
    """
    if shutil.which("pulseaudio") is None or shutil.which("pactl") is None:
        missing("pulseaudio", "apt install pulseaudio pulseaudio-utils libasound2-plugins")
    socket = folder / "native"
    lines = [
        f"load-module module-native-protocol-unix socket={socket} auth-anonymous=1",
        f"load-module module-null-sink sink_name=speakers rate={RATE} channels=1",
        f"load-module module-null-sink sink_name=microphone rate={RATE} channels=1",
        "set-default-sink speakers",
        "set-default-source microphone.monitor",
    ]
    if echoes:
        lines.append("load-module module-loopback source=speakers.monitor sink=microphone latency_msec=40")
    script = folder / "sound.pa"
    script.write_text("\n".join(lines) + "\n")
    own = {"XDG_RUNTIME_DIR": str(folder), "PULSE_RUNTIME_PATH": str(folder), "HOME": str(folder)}
    environment = {**own, "PULSE_SERVER": f"unix:{socket}", "PULSE_LATENCY_MSEC": "20"}
    command = [
        "pulseaudio", "-n", "-F", str(script), "--daemonize=no", "--exit-idle-time=-1", "--use-pid-file=no",
        "--disable-shm=yes",
    ]  # fmt: skip
    log = (folder / "pulse.log").open("wb")
    process = subprocess.Popen(command, env={**os.environ, **own}, stdout=log, stderr=log)
    try:
        limit = time.monotonic() + READY_LIMIT
        look = ["pactl", "list", "short", "sinks"]
        while (
            b"microphone"
            not in subprocess.run(look, env={**os.environ, **environment}, capture_output=True, check=False).stdout
        ):
            assert process.poll() is None, (folder / "pulse.log").read_text()
            assert time.monotonic() < limit, (folder / "pulse.log").read_text()
            time.sleep(0.1)
        yield Sound(environment)
    finally:
        process.terminate()
        process.wait(timeout=10)
        log.close()
