"""examples/table_booking.py, run as its docstring says, called by the demo's simulated caller."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from kit.e2e.room_endpoint import RoomEndpoint
from vivavoce.agents.cli.demo.caller import CallRequest
from vivavoce.agents.cli.demo.outgoing import place_call

EXAMPLE = Path(__file__).parents[2] / "examples/table_booking.py"
START = [sys.executable, "-c", "from vivavoce.agents.cli import main; main()", "start", str(EXAMPLE)]


class RunningExample:
    """`vivavoce start examples/table_booking.py` with the account in the environment."""

    def __init__(self, room: RoomEndpoint, folder: Path) -> None:
        account = {
            "LIVEKIT_URL": room.url,
            "LIVEKIT_API_KEY": room.api_key,
            "LIVEKIT_API_SECRET": room.api_secret,
        }
        self._log = folder / "log"
        with self._log.open("w") as sink:
            self.process = subprocess.Popen(
                START, env={**os.environ, **account}, stdout=subprocess.PIPE, stderr=sink, text=True
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    async def registered(self) -> None:
        with anyio.fail_after(30):
            while "registered" not in self.log:
                assert self.process.poll() is None, self.log
                await anyio.sleep(0.05)

    def end(self) -> str:
        """Press Ctrl-C and return its output."""
        self.process.send_signal(signal.SIGINT)
        printed, _ = self.process.communicate(timeout=20)
        return printed


@pytest.mark.e2e
@pytest.mark.timeout(120)
@pytest.mark.test_all("a spoken call of an example in a process of its own")
async def test_the_table_booking_example_takes_a_booking(
    embedded_room: RoomEndpoint, room_name: str, tmp_path: Path
) -> None:
    example = RunningExample(embedded_room, tmp_path)
    try:
        await example.registered()
        request = CallRequest(
            url=embedded_room.url,
            token=embedded_room.token("caller", room_name),
            wav=str(tmp_path / "call.wav"),
            voice="espeak",
            ears="pocketsphinx",
        )
        result = await place_call(request, lambda event, data: None)
    finally:
        printed = example.end()
    assert example.process.returncode == 0, example.log
    assert result.problem == ""
    # Day, time and people, and the question whether all is right; a line that was not understood is said again.
    assert sum(turn.answer != "" for turn in result.turns) >= 4, result.turns
    assert printed == "booked: Booking(day='friday', time='20:00', people=4)\n"
    assert "Traceback" not in example.log
