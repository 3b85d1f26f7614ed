"""A recording of a call in a room: the caller's sent and heard audio, its levels and distances, on both servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import anyio
import anyio.to_thread
import numpy as np
import pytest
from livekit import rtc

from kit.e2e.calls import Call, caller_and_agent, seconds_of
from kit.e2e.room_endpoint import RoomEndpoint
from vivavoce.pipelines.media.wav import read_wav

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(120),
    pytest.mark.test_all("a spoken call whose lengths are measured in real time"),
]

ANSWER = "We have a table for you on friday"
ROOM = 0.6
SOUND = 0.35
RATE = 24000


@pytest.fixture
async def call(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> AsyncIterator[Callable[..., Awaitable[Call]]]:
    async with caller_and_agent(room_server, room_name, agent_room) as start:
        yield start


def stretch(side: np.ndarray[tuple[int, ...], np.dtype[np.int16]]) -> tuple[float, float, float]:
    """Return when one side begins and ends to sound, in seconds, and how loud it is, RMS of full scale."""
    scaled = side.astype(np.float64) / 32768
    windows = scaled[: len(scaled) // 240 * 240].reshape(-1, 240)
    loud = np.flatnonzero(np.sqrt((windows**2).mean(axis=1)) > 0.01)
    start, end = loud[0] * 0.01, (loud[-1] + 1) * 0.01
    inside = scaled[round(start * RATE) : round(end * RATE)]
    return float(start), float(end), float(np.sqrt((inside**2).mean()))


async def test_a_call_in_a_room_is_recorded_with_its_levels_and_its_times(
    call: Callable[..., Awaitable[Call]], tmp_path: Path
) -> None:
    it = await call(ANSWER)
    assert await it.session.recording.start(tmp_path / "call.wav")
    it.talker.say("table for friday please")
    (turn,) = await it.turns(1)
    await it.session.close()
    (record,) = it.session.report().recordings
    assert record.error == ""
    both = (await anyio.to_thread.run_sync(read_wav, Path(record.path))).to_numpy()
    caller, agent = stretch(both[:, 0]), stretch(both[:, 1])
    ((said_from, said_until),) = it.talker.said()
    ((heard_from, heard_until),) = it.talker.heard()
    assert caller[1] - caller[0] == pytest.approx(said_until - said_from, abs=SOUND)
    assert agent[1] - agent[0] == pytest.approx(heard_until - heard_from, abs=SOUND)
    assert agent[1] - agent[0] == pytest.approx(await seconds_of(ANSWER), abs=SOUND)
    # the silence between both, by the recording, the record and the caller's ears
    assert turn.e2e_latency is not None
    assert agent[0] - caller[1] == pytest.approx(turn.e2e_latency, abs=SOUND)
    assert -0.1 <= (heard_from - said_until) - (agent[0] - caller[1]) <= ROOM
    # and on the session's clock
    assert turn.first_audio_at is not None
    assert turn.user_ended_at is not None
    assert record.started_at + agent[0] == pytest.approx(turn.first_audio_at, abs=0.1)  # its first word may be soft
    assert record.started_at + caller[1] == pytest.approx(turn.user_ended_at, abs=SOUND)
    assert 0.02 < caller[2] < 0.5
    assert 0.02 < agent[2] < 0.5
