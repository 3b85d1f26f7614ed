"""Audio that a caller's client recorded before the agent came: heard once, in order, in front of the live audio."""

from __future__ import annotations

import io
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel
import av
import numpy as np
import numpy.typing as npt
import pytest

from kit.recordings import RATE, Ears, ScriptedRoom, Stream, babble, coded, frames, part, participant, publication
from vivavoce.agents.testing import VirtualClock, run_virtual
from vivavoce.agents.transports.livekit.agent_room import AgentRoom
from vivavoce.agents.transports.livekit.pre_connect import PreConnectAudio


class JobRoom(AgentRoom):
    """A job's room that is not connected."""

    local_participant = ScriptedRoom().local_participant  # type: ignore[assignment]

    def sends(self, stream: Stream, sender: str = "caller") -> None:
        self.recordings.add(stream, sender)  # type: ignore[arg-type]


class Line:
    """A transport's way for recordings, in virtual time."""

    def __init__(
        self, clock: VirtualClock, *, is_wanted: bool = True, room: ScriptedRoom | JobRoom | None = None
    ) -> None:
        self.room = room or ScriptedRoom()
        self.ears = Ears()
        self.changes = 0
        self.clock = clock
        self.way = PreConnectAudio(
            self.room,  # type: ignore[arg-type]
            clock,
            RATE,
            is_wanted=is_wanted,
            on_change=self._changed,
        )

    def _changed(self) -> None:
        self.changes += 1

    def follow(self, sid: str = "TR_1", *, announces: bool = True, joined: float = 0.0) -> None:
        self.way.follow(participant(joined=joined), publication(sid, announces=announces))

    async def speak(self, samples: npt.NDArray[np.int16]) -> None:
        for frame in frames(samples):
            self.way.frame(frame)
            await anyio.sleep(0.02)


async def served(line: Line, act: Callable[[Line], Awaitable[None]]) -> Line:
    async with anyio.create_task_group() as tasks:
        with line.way.taking(line.ears):  # type: ignore[arg-type]
            tasks.start_soon(line.way.run)
            await anyio.lowlevel.checkpoint()
            await act(line)
            tasks.cancel_scope.cancel()
    return line


def on_line(act: Callable[[Line], Awaitable[None]], *, is_wanted: bool = True) -> Line:
    async def main() -> Line:
        return await served(Line(VirtualClock(), is_wanted=is_wanted), act)

    return run_virtual(main())


# --- in order, once


@pytest.mark.parametrize("comes_after", [0.0, 0.3, 1.0])
def test_a_recording_is_heard_in_front_of_the_live_audio_without_the_part_that_both_have(comes_after: float) -> None:
    async def act(line: Line) -> None:
        line.follow()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(line.speak, coded(part(1.8, 5.0)))
            await anyio.sleep(comes_after)
            assert not line.ears.frames
            line.room.sends(Stream((0.0, part(0.0, 2.0).tobytes())))
        await anyio.sleep(1.0)

    async def main() -> Line:
        return await served(Line(VirtualClock(), room=JobRoom()), act)

    line = run_virtual(main())
    heard = line.ears.samples
    assert len(heard) == pytest.approx(5.0 * RATE, abs=0.03 * RATE)
    whole = part(0.0, 5.0)
    alike = np.corrcoef(heard[-len(whole) :][: len(whole)], whole[-len(heard) :])[0, 1]
    assert alike > 0.9, "nothing is missing, doubled or out of place"
    assert line.ears.outcomes == []
    assert not line.way.is_awaited
    assert line.changes == 1


@pytest.mark.parametrize("silence", [0.2, 0.3, 0.5])
def test_words_that_live_audio_repeats_behind_a_silence_of_its_own_are_heard_once(silence: float) -> None:
    async def act(line: Line) -> None:
        line.follow()
        line.room.sends(Stream((0.0, part(0.0, 2.0).tobytes())))
        await line.speak(np.concatenate([np.zeros(round(silence * RATE), np.int16), coded(part(1.6, 4.0))]))

    async def main() -> Line:
        return await served(Line(VirtualClock(), room=JobRoom()), act)

    assert len(run_virtual(main()).ears.samples) == pytest.approx(4.0 * RATE, abs=0.03 * RATE)


def test_each_frame_comes_with_the_time_since_it_was_said() -> None:
    async def act(line: Line) -> None:
        line.follow()
        line.room.sends(Stream((0.0, part(0.0, 2.0).tobytes())))
        await line.speak(part(1.8, 3.0))

    lates = on_line(act).ears.lates
    assert lates[0] == pytest.approx(2.06, abs=0.05), "said 1.8 s before the live audio, heard 0.28 s after its begin"
    first = lates.index(0.0)
    assert lates[: first + 1] == sorted(lates[: first + 1], reverse=True)
    assert set(lates[first:]) == {0.0}, "live audio is of now"


def test_a_long_recording_is_handed_on_second_by_second_so_that_other_calls_go_on() -> None:
    async def act(line: Line) -> None:
        line.follow()
        line.room.sends(Stream((0.0, bytes(2 * 5 * RATE))))
        counts = []
        while line.way.is_awaited:
            counts.append(len(line.ears.frames))
            await anyio.lowlevel.checkpoint()
        assert {50, 100, 150, 200} <= set(counts)

    assert len(on_line(act).ears.frames) == 250


def test_a_recording_whose_microphone_is_silent_now_is_heard_and_its_audio_has_stopped() -> None:
    async def act(line: Line) -> None:
        line.follow()
        line.room.sends(Stream((0.0, part(0.0, 2.0).tobytes())))
        await anyio.sleep(2.0)

    ears = on_line(act).ears
    assert len(ears.frames) == 100
    assert ears.lates[-1] == pytest.approx(0.8, abs=0.05)
    assert ears.stops == 1


def test_a_recording_that_has_waited_for_the_session_is_heard_with_the_pause_since_then() -> None:
    async def act(line: Line) -> None:
        line.room.sends(Stream((0.0, part(0.0, 1.0).tobytes())))
        await anyio.sleep(3.0)
        line.follow()
        await line.speak(part(4.0, 5.0))

    heard = on_line(act).ears.samples
    assert len(heard) == pytest.approx(5.0 * RATE, abs=0.05 * RATE)
    assert not heard[round(1.1 * RATE) : round(3.9 * RATE)].any()


@pytest.mark.parametrize(("rate", "channels"), [(48000, 1), (48000, 2), (24000, 1), (16000, 1), (8000, 2)])
def test_recordings_of_every_rate_and_number_of_channels_are_heard_as_the_session_needs_them(
    rate: int, channels: int
) -> None:
    samples = np.repeat((3000 * np.sin(2 * np.pi * 440 * np.arange(2 * rate) / rate)).astype(np.int16), channels)

    async def act(line: Line) -> None:
        line.follow()
        line.room.sends(Stream((0.0, samples.tobytes()), sampleRate=str(rate), channels=str(channels)))
        await anyio.sleep(2.0)

    heard = on_line(act).ears.samples
    assert len(heard) == pytest.approx(2.0 * RATE, abs=0.03 * RATE)
    spectrum = np.abs(np.fft.rfft(heard))
    assert float(np.argmax(spectrum)) * RATE / len(heard) == pytest.approx(440.0, abs=1.0)


def encoded(samples: npt.NDArray[np.int16], kind: str, codec: str) -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format=kind) as container:
        stream: Any = container.add_stream(codec, rate=48000, layout="mono")
        frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), format="s16", layout="mono")
        frame.sample_rate = 48000
        resampler = av.AudioResampler(stream.codec_context.format or "s16", "mono", 48000, frame_size=960)
        for piece in [*resampler.resample(frame), *resampler.resample(None)]:
            container.mux(stream.encode(piece))
        container.mux(stream.encode(None))
    return file.getvalue()


@pytest.mark.parametrize(
    ("mime_type", "kind", "codec"),
    [("audio/webm;codecs=opus", "webm", "libopus"), ("video/mp4", "mp4", "aac"), ("audio/ogg", "ogg", "libopus")],
)
def test_recordings_of_browsers_are_heard(mime_type: str, kind: str, codec: str) -> None:
    data = encoded(babble(2.0, rate=48000), kind, codec)

    async def act(line: Line) -> None:
        line.follow()
        line.room.sends(
            Stream(*((0.0, data[at : at + 15000]) for at in range(0, len(data), 15000)), mime_type=mime_type)
        )
        await anyio.sleep(2.0)

    line = on_line(act)
    assert line.ears.outcomes == []
    assert len(line.ears.samples) == pytest.approx(2.0 * RATE, abs=0.1 * RATE)
    assert np.abs(line.ears.samples).max() > 1000


# --- what can be the matter

SECOND = part(0.0, 1.0).tobytes()


async def never(line: Line) -> None:
    line.follow()
    await line.speak(part(1.0, 5.0))


async def broken(line: Line) -> None:
    line.follow()
    line.room.sends(Stream((0.1, SECOND), breaks_off=True))
    await line.speak(part(1.0, 5.0))


async def stalled(line: Line) -> None:
    line.follow()
    line.room.sends(Stream((0.1, SECOND), (60.0, SECOND)))
    await line.speak(part(1.0, 6.0))


async def slow(line: Line) -> None:
    line.follow()
    line.room.sends(Stream(*((2.1, SECOND) for _ in range(20))))
    await line.speak(babble(12.0, seed=4))


async def other_track(line: Line) -> None:
    line.follow(announces=False)
    line.room.sends(Stream((0.0, SECOND), trackId="TR_2"))
    await line.speak(part(1.0, 2.0))


async def second(line: Line) -> None:
    line.follow()
    line.room.sends(Stream((0.0, SECOND)))
    line.room.sends(Stream((0.0, SECOND)))
    await line.speak(part(1.0, 2.0))


async def late(line: Line) -> None:
    line.follow(announces=False)
    await line.speak(part(1.0, 2.0))
    line.room.sends(Stream((0.0, SECOND)))
    await line.speak(part(2.0, 3.0))


async def too_old(line: Line) -> None:
    line.room.sends(Stream((0.0, SECOND)))
    await anyio.sleep(11.0)
    line.follow()
    await line.speak(part(1.0, 2.0))


async def too_long(line: Line) -> None:
    line.follow()
    line.room.sends(Stream((0.0, np.tile(part(0.0, 6.0), 6).tobytes())))
    await line.speak(babble(1.0, seed=3))


def malformed(*data: bytes, mime_type: str = "", **attributes: Any) -> Callable[[Line], Awaitable[None]]:
    async def act(line: Line) -> None:
        line.follow()
        line.room.sends(Stream(*((0.0, each) for each in data), mime_type=mime_type, **attributes))
        await line.speak(part(1.0, 2.0))

    return act


@pytest.mark.parametrize(
    ("act", "outcome", "seconds"),
    [
        (broken, "incomplete", 5.0),
        (stalled, "incomplete", 6.0),
        (slow, "incomplete", 16.0),
        (other_track, "other_track", 1.0),
        (second, "second", 2.0),
        (late, "late", 2.0),
        (too_old, "too_old", 1.0),
        (too_long, "too_long", 31.0),
        (malformed(SECOND, sampleRate=""), "malformed", 1.0),
        (malformed(SECOND, sampleRate="0"), "malformed", 1.0),
        (malformed(SECOND, sampleRate="１６０００"), "malformed", 1.0),
        (malformed(SECOND, sampleRate="9" * 5000), "malformed", 1.0),
        (malformed(SECOND, channels="-1"), "malformed", 1.0),
        (malformed(*[bytes(1 << 20)] * 11), "malformed", 1.0),
        (malformed(b"no audio", mime_type="audio/webm;codecs=opus"), "malformed", 1.0),
        (malformed(b"", mime_type="audio/webm;codecs=opus"), "malformed", 1.0),
        (malformed(b"x", mime_type="text/html"), "malformed", 1.0),
    ],
)
def test_a_recording_that_is_not_as_it_should_be_is_reported_and_nothing_else_is_lost(
    act: Callable[[Line], Awaitable[None]], outcome: str, seconds: float
) -> None:
    async def and_wait(line: Line) -> None:
        await act(line)
        await anyio.sleep(2.0)

    line = on_line(and_wait)
    assert line.ears.outcomes == [outcome]
    assert len(line.ears.samples) == pytest.approx(seconds * RATE, abs=0.05 * RATE)
    assert not line.way.is_awaited


def test_a_recording_that_is_announced_and_never_comes_holds_the_live_audio_for_three_seconds() -> None:
    async def act(line: Line) -> None:
        await never(line)
        assert line.ears.lates.index(0.0) > 140
        assert line.ears.lates[0] == pytest.approx(2.98, abs=0.05)

    async def main() -> Line:
        return await served(Line(VirtualClock(), room=JobRoom()), act)

    line = run_virtual(main())
    assert line.ears.outcomes == ["missing"]
    assert len(line.ears.samples) == 4.0 * RATE


@pytest.mark.parametrize("joined", [-30.0, 0.0])
def test_where_it_may_have_been_sent_before_live_audio_waits_for_half_a_second_only(joined: float) -> None:
    """A room that was given connected, and an agent that takes over a call."""

    async def act(line: Line) -> None:
        line.follow(joined=joined)
        await line.speak(part(1.0, 2.0))
        assert line.ears.lates[0] == pytest.approx(0.48, abs=0.03)

    async def main() -> Line:
        return await served(Line(VirtualClock(), room=None if joined == 0.0 else JobRoom()), act)

    line = run_virtual(main())
    assert line.ears.outcomes == []
    assert len(line.ears.samples) == RATE


def test_the_next_session_of_a_job_waits_for_no_recording_that_was_heard() -> None:
    async def first(line: Line) -> None:
        line.follow()
        line.room.sends(Stream((0.0, SECOND)))
        await line.speak(part(1.0, 2.0))

    async def next_one(line: Line) -> None:
        line.follow()
        assert not line.way.is_awaited
        await line.speak(part(2.0, 3.0))

    async def main() -> None:
        room = JobRoom()
        assert len((await served(Line(VirtualClock(), room=room), first)).ears.frames) == 100
        assert len((await served(Line(VirtualClock(), room=room), next_one)).ears.frames) == 50

    run_virtual(main())


def test_a_recording_that_comes_before_the_session_of_a_job_is_kept_for_it() -> None:
    async def act(line: Line) -> None:
        line.follow()
        await line.speak(part(1.0, 2.0))

    async def main() -> Line:
        room = JobRoom()
        room.sends(Stream((0.0, SECOND)))
        return await served(Line(VirtualClock(), room=room), act)

    assert len(run_virtual(main()).ears.frames) == 100


def test_a_handler_of_the_application_takes_the_place_of_the_sessions() -> None:
    async def main() -> None:
        room = JobRoom()
        kept = Stream((0.0, SECOND))
        room.sends(kept)
        room.register_byte_stream_handler("lk.agent.pre-connect-audio-buffer", print)
        assert kept.is_closed
        line = Line(VirtualClock(), room=room)
        with line.way.taking(line.ears):  # type: ignore[arg-type]
            line.follow()
            assert not line.way.is_awaited

    run_virtual(main())


def test_without_pyav_a_browsers_recording_is_reported_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vivavoce.pipelines.media.av_file", None)
    line = on_line(malformed(b"x", mime_type="audio/webm;codecs=opus"))
    assert line.ears.outcomes == ["unreadable"]
    assert "pip install 'vivavoce[audio]'" in str(line.ears.errors[0])
    assert "audio/webm;codecs=opus" in str(line.ears.errors[0])


@pytest.mark.parametrize("data", [b"", b"\x01", SECOND[:-1]])
def test_a_recording_of_nothing_or_of_half_a_sample_more_is_no_problem(data: bytes) -> None:
    line = on_line(malformed(data))
    assert line.ears.outcomes == []
    assert not line.way.is_awaited


def test_a_recording_of_a_stranger_is_closed_unread() -> None:
    strange = Stream((0.0, SECOND))

    async def act(line: Line) -> None:
        line.room.sends(strange, "somebody")
        line.follow(announces=False)
        await line.speak(part(1.0, 2.0))

    line = on_line(act)
    assert strange.is_closed
    assert line.ears.outcomes == []
    assert len(line.ears.frames) == 50


@pytest.mark.parametrize("announces", [False, True])
@pytest.mark.parametrize(("identity", "outcomes"), [("caller", ["other_track"]), ("somebody", [])])
def test_a_recording_that_is_being_read_is_not_heard_in_front_of_another_microphone(
    identity: str, outcomes: list[str], announces: bool
) -> None:
    async def act(line: Line) -> None:
        line.follow()
        line.room.sends(Stream((0.0, SECOND), (1.0, SECOND)))
        await anyio.sleep(0.5)
        line.way.follow(participant(identity), publication("TR_2", announces=announces))
        line.room.sends(Stream((0.0, SECOND), trackId="TR_2"), identity)
        await line.speak(part(1.0, 2.0))

    async def main() -> Line:
        return await served(Line(VirtualClock(), room=JobRoom()), act)

    line = run_virtual(main())
    assert line.ears.outcomes == outcomes
    assert len(line.ears.frames) == 100
    assert not line.way.is_awaited


def test_a_recording_without_the_name_of_its_track_is_that_of_the_callers_microphone() -> None:
    async def act(line: Line) -> None:
        line.follow()
        line.room.sends(Stream((0.0, SECOND), trackId=""))
        await line.speak(part(1.0, 2.0))

    assert len(on_line(act).ears.frames) == 100


def test_streams_that_wait_are_closed_at_the_end_and_more_than_four_are_refused() -> None:
    streams = [Stream((0.0, SECOND)) for _ in range(6)]

    async def act(line: Line) -> None:
        for stream in streams:
            line.room.sends(stream)
        assert [stream.is_closed for stream in streams] == [False] * 4 + [True] * 2

    on_line(act)
    assert all(stream.is_closed for stream in streams)


def test_with_the_option_off_nothing_is_taken_and_nothing_waits() -> None:
    async def act(line: Line) -> None:
        assert isinstance(line.room, ScriptedRoom)
        assert not line.room.handlers
        line.follow()
        assert not line.way.is_awaited
        await line.speak(part(1.0, 2.0))

    assert len(on_line(act, is_wanted=False).ears.frames) == 50


def test_an_application_that_takes_recordings_itself_keeps_them() -> None:
    async def act(line: Line) -> None:
        line.follow()
        assert not line.way.is_awaited

    async def main() -> None:
        room = ScriptedRoom()
        room.register_byte_stream_handler("lk.agent.pre-connect-audio-buffer", print)
        line = Line(VirtualClock(), room=room)
        with line.way.taking(line.ears):  # type: ignore[arg-type]
            await act(line)
        assert list(room.handlers.values()) == [print]

    run_virtual(main())
