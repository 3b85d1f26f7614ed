"""A telephone: Debian's baresip as a process, with a sound file for a microphone and a file of what it hears."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import numpy.typing as npt

from kit.limits import LIMIT
from kit.servers.missing import missing
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.wav import read_wav, write_wav

RATE = 8000
MODULES = Path("/usr/lib/baresip/modules")
END_LIMIT = 5.0
SAYS_SECONDS = 180
"""Seconds of silence after all that is said: longer than any call of a test."""
NOTHING = np.zeros(0, np.int16)
CONFIG = """\
poll_method epoll
sip_listen 127.0.0.1:{sip}
rtp_ports {rtp}-{last_rtp}
audio_source aufile,{microphone}
audio_player aubridge,none
ausrc_srate 8000
auplay_srate 8000
ausrc_channels 1
auplay_channels 1
module_path {modules}
module g711.so
module aufile.so
module aubridge.so
module sndfile.so
module_tmp uuid.so
module_tmp account.so
module_app menu.so
module_app ctrl_tcp.so
ctrl_tcp_listen 127.0.0.1:{control}
snd_path {folder}
"""


class Baresip:
    """A telephone that is switched on; it makes or takes one call at a time.

    Args:
        folder: Of its own.
        name: Its user's name at its address.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self.port, self._control, self._rtp = free_ports(1), free_ports(1), free_ports(16)
        self.address = f"sip:{name}@127.0.0.1:{self.port}"
        self.events: list[dict[str, Any]] = []
        """What it has reported, oldest first."""
        self.printed: list[str] = []
        self._changed = asyncio.Event()
        self._writer: asyncio.StreamWriter | None = None

    # --- what the user does

    async def dial(self, address: str) -> None:
        await self.do("dial", address)

    async def press(self, keys: str) -> None:
        """Press keys, one after the other; the telephone is silent between them."""
        for key in keys:
            await self.do("sndcode", key)
            await anyio.sleep(0.3)

    async def do(self, command: str, parameters: str = "") -> None:
        """Give a command of baresip's menu, such as `hangup`, `hold`, `resume`, `accept`."""
        assert self._writer is not None
        data = json.dumps({"command": command, "params": parameters, "token": "t"}).encode()
        self._writer.write(b"%d:%s," % (len(data), data))
        await self._writer.drain()

    # --- what is seen of it

    async def until(self, condition: Callable[[], bool]) -> None:
        with anyio.fail_after(LIMIT):
            while not condition():
                await self._changed.wait()

    async def until_event(self, kind: str, *, times: int = 1) -> None:
        """Wait until it has reported that kind of event, such as `CALL_ESTABLISHED`, so many times."""
        await self.until(lambda: sum(event.get("type") == kind for event in self.events) >= times)

    @property
    def is_in_call(self) -> bool:
        """Whether a call that was established has not been closed."""
        kinds = [event.get("type") for event in self.events]
        return kinds.count("CALL_ESTABLISHED") > kinds.count("CALL_CLOSED")

    def keys(self) -> str:
        """The keys of the other side that it has received."""
        lines = [line for line in self.printed if "received event: '" in line and "end=1" in line]
        return "".join(line.partition("received event: '")[2][0] for line in lines)

    def heard(self) -> npt.NDArray[np.int16]:
        """What it has heard in its calls so far, which are over."""
        files = sorted(self._folder.glob("dump-*-dec.wav"))
        assert files, f"no call was recorded: {sorted(self._folder.iterdir())}"
        return np.concatenate([read_wav(file).to_numpy().reshape(-1) for file in files])

    # --- inside

    def write_settings(self, says: npt.NDArray[np.int16], *, answers: bool) -> None:
        microphone = self._folder / "says.wav"
        silence = np.zeros(SAYS_SECONDS * RATE, np.int16)  # baresip ends its call at the end of the file
        write_wav(microphone, AudioFrame(np.concatenate([says, silence]).tobytes(), RATE))
        places = {"sip": self.port, "control": self._control, "rtp": self._rtp, "last_rtp": self._rtp + 14}
        paths = {"microphone": microphone, "modules": MODULES, "folder": self._folder}
        (self._folder / "config").write_text(CONFIG.format(**places, **paths))
        mode = "auto" if answers else "manual"
        account = f"<{self.address}>;regint=0;answermode={mode};audio_codecs=PCMU/8000/1,PCMA/8000/1\n"
        (self._folder / "accounts").write_text(account)
        (self._folder / "contacts").touch()

    async def read_output(self, stream: asyncio.StreamReader) -> None:
        async for line in stream:
            self.printed.append(line.decode(errors="replace").rstrip())
            self._note()

    async def connect(self, process: asyncio.subprocess.Process) -> asyncio.StreamReader:
        """Return the stream of its events."""
        with anyio.fail_after(LIMIT):
            while True:
                assert process.returncode is None, "\n".join(self.printed)
                try:
                    reader, self._writer = await asyncio.open_connection("127.0.0.1", self._control)
                except OSError:
                    await anyio.sleep(0.02)
                    continue
                return reader

    async def read_events(self, reader: asyncio.StreamReader) -> None:
        with suppress(asyncio.IncompleteReadError):
            while True:
                size = int((await reader.readuntil(b":"))[:-1])
                message = json.loads((await reader.readexactly(size + 1))[:-1])
                if message.get("event"):
                    self.events.append(message)
                    self._note()

    async def aclose(self) -> None:
        if self._writer is not None:
            self._writer.close()
            with suppress(OSError):
                await self._writer.wait_closed()

    def _note(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


@asynccontextmanager
async def telephone(
    folder: Path, name: str = "alice", *, says: npt.NDArray[np.int16] = NOTHING, answers: bool = False
) -> AsyncIterator[Baresip]:
    """Switch a telephone on; skip the test (or fail it, see `missing`) if there is none on this machine.

    Args:
        says: What is said into it in a call, at 8 kHz; silence after it.
        answers: Whether it answers by itself.
    """
    if shutil.which("baresip") is None:
        missing("baresip", "install Debian's package baresip-core")
    own = folder / name
    own.mkdir()
    phone = Baresip(own, name)
    phone.write_settings(says, answers=answers)
    pipe = asyncio.subprocess.PIPE
    # Its input stays open, since it ends with it. -n: it may use this machine's other addresses otherwise.
    process = await asyncio.create_subprocess_exec(
        *("baresip", "-4", "-n", "127.0.0.1", "-f", str(own)), stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    assert process.stdout is not None
    assert process.stdin is not None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(phone.read_output, process.stdout)
        try:
            tasks.start_soon(phone.read_events, await phone.connect(process))
            yield phone
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            process.stdin.close()
            with anyio.CancelScope(shield=True):
                with anyio.move_on_after(END_LIMIT):
                    await process.wait()
                if process.returncode is None:
                    process.kill()
                    await process.wait()
                await phone.aclose()
            tasks.cancel_scope.cancel()


def free_ports(count: int = 2) -> int:
    """Return the first of so many ports in a row that are free, an even one: RTP's; RTCP takes the next.

    They lie below those that the system gives to clients, so that none is taken before its owner opens it.
    """
    while True:
        first = 2 * random.randrange(10_000, 16_000)
        if all(_is_free(first + number) for number in range(count)):
            return first


def _is_free(port: int) -> bool:
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        with socket.socket(socket.AF_INET, kind) as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True
