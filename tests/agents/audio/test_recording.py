"""Recording: both sides at their times on the session's clock, only played audio, never at the call's cost."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
import numpy.typing as npt
import pytest

from vivavoce.agents import Agent, SessionOptions
from vivavoce.agents.audio.recording.options import RecordingOptions
from vivavoce.agents.audio.recording.recorder import Recorder
from vivavoce.agents.audio.recording.track import Track
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import ScriptedLLM, ScriptedRealtimeModel, SessionHarness
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError, SessionClosedError, SessionError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.wav import read_wav
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities

LONG = "one two three four five six seven eight nine ten"
RATE = 24000


def cascading(options: SessionOptions, *script: Any) -> SessionHarness:
    return SessionHarness(Agent("Help."), ScriptedLLM(*script), options=options)


def realtime(options: SessionOptions, *script: Any) -> SessionHarness:
    model = ScriptedRealtimeModel(*script, capabilities=RealtimeCapabilities(turn_detection=frozenset({"local"})))
    return SessionHarness(Agent("Help."), model=model, options=options)


def options(path: Path, **given: Any) -> SessionOptions:
    return SessionOptions(recording=RecordingOptions(path=path, **given))


def file_of(harness: SessionHarness, path: Path) -> Path:
    """Return the file that the session makes of a name that ends in a suffix."""
    return path.with_name(f"{path.stem}.{harness.session.id}{path.suffix}")


def sounds(side: npt.NDArray[np.int16], rate: int = RATE) -> list[tuple[float, float]]:
    """Return when it sounds, (start, end) in seconds; a pause is 50 ms of silence."""
    loud = np.flatnonzero(np.abs(side.astype(np.int32)) > 60)
    if not len(loud):
        return []
    breaks = np.flatnonzero(np.diff(loud) > 0.05 * rate)
    starts, ends = [loud[0], *loud[breaks + 1]], [*loud[breaks], loud[-1]]
    return [(start / rate, (end + 1) / rate) for start, end in zip(starts, ends, strict=True)]


def sides(path: Path) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int16]]:
    frame = read_wav(path)
    assert frame.num_channels == 2
    both = frame.to_numpy()
    return both[:, 0], both[:, 1]


@pytest.mark.parametrize("make", [cascading, realtime])
def test_both_sides_stand_where_they_sounded(make: Callable[..., SessionHarness], tmp_path: Path) -> None:
    harness = make(options(tmp_path / "call.wav"), [0.1, "Hello there, how are you?"])
    harness.caller.says("hello there", 0.5, 1.5)
    harness.run(until=6.0)
    path = file_of(harness, tmp_path / "call.wav")
    (record,) = harness.session.report().recordings
    assert (record.path, record.sample_rate, record.error, record.started_at) == (str(path), RATE, "", 0.0)
    caller, agent = sides(path)
    assert len(caller) / RATE == pytest.approx(record.seconds) == pytest.approx(6.0, abs=0.05)
    assert sounds(caller) == [pytest.approx((0.5, 1.5), abs=0.005)]
    (played,) = harness.played
    assert sounds(agent) == [pytest.approx((played.start, played.start + played.seconds), abs=0.002)]
    assert os.stat(path).st_mode & 0o777 == 0o600


@pytest.mark.parametrize("make", [cascading, realtime])
def test_what_an_interruption_cut_is_not_in_the_file(make: Callable[..., SessionHarness], tmp_path: Path) -> None:
    harness = make(options(tmp_path / "call.wav"), [0.1, LONG], [0.1, "Yes?"])
    harness.caller.says("count please", 0.5, 1.5)
    harness.caller.says("wait stop", 3.0, 3.6)
    harness.run(until=7.0)
    path = file_of(harness, tmp_path / "call.wav")
    cut = harness.session.turns[0].interruptions[-1]
    assert cut.stopped_at is not None
    found, answered = sounds(sides(path)[1])
    assert found[1] == pytest.approx(cut.stopped_at, abs=0.02)
    assert found[1] - found[0] < harness.session.turns[0].generated_seconds - 0.3
    assert answered[0] == pytest.approx(harness.session.turns[1].first_audio_at, abs=0.005)


def test_a_false_interruption_is_a_silence_and_the_speech_goes_on(tmp_path: Path) -> None:
    harness = cascading(options(tmp_path / "call.wav"), [0.1, LONG])
    harness.caller.says("count please", 0.5, 1.5)
    harness.caller.makes_noise(2.5, 3.2)
    harness.run(until=8.0)
    path = file_of(harness, tmp_path / "call.wav")
    stretches = [(played.start, played.start + played.seconds) for played in harness.played]
    found = sounds(sides(path)[1])
    assert len(found) == 2
    assert found[0][0] == pytest.approx(stretches[0][0], abs=0.005)
    assert found[1][1] == pytest.approx(stretches[-1][1], abs=0.005)


def test_it_goes_on_and_off_and_pauses_during_the_call(tmp_path: Path) -> None:
    harness = cascading(SessionOptions())
    harness.caller.makes_noise(0.0, 9.0)

    async def scenario(harness: SessionHarness) -> None:
        recording = harness.session.recording
        assert not recording.is_on
        await harness.until(1.0)
        assert await recording.start(tmp_path / "one.wav")
        with pytest.raises(SessionError, match="already"):
            await recording.start()
        await harness.until(2.0)
        recording.pause()
        assert recording.is_paused
        await harness.until(3.0)
        recording.resume()
        await harness.until(4.0)
        await recording.stop()
        await recording.stop()
        await harness.until(5.0)
        assert await recording.start(tmp_path / "one.wav")  # never over another file

    harness.run(scenario, until=6.0)
    first, second = harness.session.report().recordings
    one = file_of(harness, tmp_path / "one.wav")
    assert first.path == str(one)
    assert sounds(sides(one)[0]) == [
        pytest.approx((0.0, 1.0), abs=0.025),
        pytest.approx((2.0, 3.0), abs=0.025),
    ]
    assert [first.started_at, first.seconds, second.started_at] == pytest.approx([1.0, 3.0, 5.0], abs=0.03)
    assert second.path == str(one.with_stem(f"{one.stem}-2"))
    assert sounds(sides(Path(second.path))[0]) == [pytest.approx((0.0, 1.0), abs=0.03)]

    async def too_late() -> None:
        with pytest.raises(SessionClosedError):
            await harness.session.recording.start()

    anyio.run(too_late)


@pytest.mark.parametrize("answer", [False, None, ValueError("no"), 100.0, 1.0])
def test_without_consent_nothing_is_written(answer: Any, tmp_path: Path) -> None:
    asked: list[Any] = []

    async def consent(session: Any) -> bool:
        asked.append(session)
        assert not os.listdir(tmp_path)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, float):
            await anyio.sleep(answer)
        return True if isinstance(answer, float) else answer

    harness = cascading(options(tmp_path, consent=consent))
    harness.caller.makes_noise(0.0, 15.0)
    harness.run(until=65.0)
    assert asked == [harness.session]
    errors = [event.source for event in harness.recording.of(ErrorOccurred)]
    if answer == 1.0:  # given after a second: recorded from then on
        (record,) = harness.session.report().recordings
        assert record.started_at == pytest.approx(1.0, abs=0.05)
        assert record.path == str(tmp_path / f"{harness.session.id}.wav")
        return
    assert not list(tmp_path.iterdir())
    assert harness.session.report().recordings == ()
    assert errors == (["recording"] if answer not in (False, None) else [])


def test_a_disk_that_is_full_or_refuses_is_an_error_event_and_the_call_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "call.wav", Path("/dev/full/call.wav")):
        harness = cascading(options(path), [0.1, "Hello."])
        harness.caller.says("hello there", 0.5, 1.5)
        harness.run(until=4.0).expect_outcomes("completed")
        (error,) = harness.recording.of(ErrorOccurred)
        assert error.source == "recording"
        assert "File exists" in str(error.error)  # where a folder is needed
        assert harness.close_report is not None
        assert harness.close_report.is_clean


def test_a_disk_that_fills_up_in_mid_call_ends_the_recording_only(tmp_path: Path) -> None:
    import resource
    import signal

    harness = cascading(options(tmp_path / "call.wav"), [0.1, "Hello."])
    harness.caller.says("hello there", 0.5, 1.5)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing then fails as it does on a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, limits[1]))
    try:
        harness.run(until=6.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    harness.expect_outcomes("completed")
    assert [event.source for event in harness.recording.of(ErrorOccurred)] == ["recording"]
    (record,) = harness.session.report().recordings
    assert record.error == "File too large"
    assert 1.0 < record.seconds < 2.0
    assert len(sides(file_of(harness, tmp_path / "call.wav"))[0]) / RATE == pytest.approx(
        record.seconds
    )  # the recorded part can be played
    assert harness.close_report is not None
    assert harness.close_report.is_clean


def test_opus_in_ogg_is_written_and_read_back(tmp_path: Path) -> None:
    from vivavoce.pipelines.media.av_file import AvDecoder

    harness = cascading(options(tmp_path / "call.ogg"), [0.1, "Hello there."])
    harness.caller.says("hello there", 0.5, 1.5)
    harness.run(until=4.0)
    path = file_of(harness, tmp_path / "call.ogg")
    (record,) = harness.session.report().recordings
    assert record.error == ""
    decoder = AvDecoder(str(path))
    assert decoder.duration == pytest.approx(record.seconds, abs=0.1) == pytest.approx(4.0, abs=0.2)
    decoder.close()
    assert path.stat().st_size < 60_000


def test_wrong_options_are_refused_where_they_are_given(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"\.wav, \.ogg, \.opus"):
        RecordingOptions(path=tmp_path / "call.mp3")
    with pytest.raises(ConfigurationError, match="sample_rate"):
        RecordingOptions(sample_rate=44100)
    with pytest.raises(ConfigurationError, match="async function"):
        RecordingOptions(consent=True)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ConfigurationError, match="RecordingOptions"):
        SessionOptions(recording="calls/")  # type: ignore[arg-type]  # on purpose


def test_frames_that_come_late_in_a_burst_leave_no_gap_and_a_pause_of_the_caller_does() -> None:
    frame = AudioFrame((1000).to_bytes(2, "little") * 320, 16000)
    track, out = Track(16000), bytearray()

    def take(until: float) -> None:
        waiting = track.take(until)
        out.extend(waiting)
        track.forget(len(waiting) // 2)

    for number in range(1, 11):
        track.heard(frame, number * 0.02)
    for _ in range(15):  # the event loop was held up: 0.3 s come at once, at 0.5
        track.heard(frame, 0.5)
    take(0.2)
    for number in range(26, 31):
        track.heard(frame, number * 0.02)
    take(0.6)
    for number in range(51, 61):  # after 0.4 s without a frame
        track.heard(frame, number * 0.02)
    take(1.2)
    found = sounds(np.frombuffer(bytes(out), np.int16), 16000)
    assert found == [pytest.approx((0.0, 0.6)), pytest.approx((1.0, 1.2))]


def test_what_waits_for_a_disk_that_hangs_is_bounded() -> None:
    track = Track(16000)
    for number in range(5000):
        track.heard(AudioFrame(bytes(640), 16000), number * 0.02)
    assert track.dropped_pieces == 4000


def test_a_folder_that_is_gone_when_the_call_begins_costs_the_recording_alone(tmp_path: Path) -> None:
    folder = tmp_path / "calls.v2"  # with a suffix, so that only its being there makes it a folder
    folder.mkdir()
    harness = cascading(options(folder), "Hi.")
    folder.rmdir()
    harness.caller.says("hello", 0.5, 1.0)
    harness.run(until=6.0)
    harness.expect_outcomes("completed")
    assert [event.source for event in harness.recording.of(ErrorOccurred)] == ["recording"]
    assert harness.session.report().recordings == ()


def test_a_process_that_has_no_thread_left_records_nothing_and_talks_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(anyio.to_thread, "run_sync", refuse)
    harness = cascading(options(tmp_path / "call.wav"), "Hi.")
    harness.caller.says("hello", 0.5, 1.0)
    harness.run(until=6.0)
    harness.expect_outcomes("completed")
    assert [event.source for event in harness.recording.of(ErrorOccurred)] == ["recording"]


def test_who_asks_for_a_recording_and_is_cancelled_while_consent_is_asked_for_is_cancelled(tmp_path: Path) -> None:
    async def consent(session: Any) -> bool:
        await anyio.sleep(10)
        return True

    ended: list[str] = []

    async def ask(harness: SessionHarness) -> None:
        try:
            ended.append(f"returned {await harness.session.recording.start()}")
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def scenario(harness: SessionHarness) -> None:
        task = asyncio.create_task(ask(harness))
        await harness.until(1.0)
        task.cancel()
        await harness.until(2.0)

    harness = cascading(options(tmp_path, autostart=False, consent=consent), "Hi.")
    harness.run(scenario)
    assert ended == ["cancelled"]
    assert harness.recording.of(ErrorOccurred) == []


@pytest.mark.parametrize("way", ["a scope", "the task"])
def test_who_stops_a_recording_and_is_cancelled_leaves_a_whole_file(way: str, tmp_path: Path) -> None:
    harness = cascading(options(tmp_path / "call.wav"))
    harness.caller.makes_noise(0.0, 2.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.9)
        stop = harness.session.recording.stop()
        if way == "a scope":
            with anyio.move_on_after(0):
                await stop
        else:
            task = asyncio.create_task(stop)
            await anyio.lowlevel.checkpoint()
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled()
        assert not harness.session.recording.is_on

    harness.run(scenario, until=3.0)
    (record,) = harness.session.report().recordings
    assert record.error == ""
    assert record.seconds == pytest.approx(1.9, abs=0.05)
    caller, _ = sides(file_of(harness, tmp_path / "call.wav"))
    assert len(caller) / RATE == pytest.approx(record.seconds)
    assert sounds(caller)[-1][1] == pytest.approx(1.9, abs=0.05)


class HangingFile:
    """A file whose disk takes nothing, until it does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.may_write = threading.Event()
        self.was_closed = threading.Event()
        self.calls: list[tuple[str, int]] = []

    def write(self, data: bytes) -> None:
        self.may_write.wait(60)
        self.calls.append(("write", threading.get_ident()))

    def close(self) -> None:
        self.calls.append(("close", threading.get_ident()))
        self.was_closed.set()


async def test_a_file_that_hangs_is_closed_by_the_thread_that_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = HangingFile(tmp_path / "call.ogg")
    monkeypatch.setattr("vivavoce.agents.audio.recording.recorder.create", lambda path, rate: file)
    recorder = Recorder(file.path, RATE, LoopClock(), began_at=0.0)
    await recorder.open()
    monkeypatch.setattr("vivavoce.agents.audio.recording.recorder.WRITE_LIMIT", 0.2)
    await anyio.sleep(0.1)
    with pytest.raises(SessionError, match="did not take"):
        await recorder.finish()
    recorder.fail("it hangs")
    await recorder.abandon()
    assert file.calls == []
    file.may_write.set()
    assert await anyio.to_thread.run_sync(file.was_closed.wait, 60)
    assert [what for what, _ in file.calls] == ["write", "close"]
    assert len({thread for _, thread in file.calls}) == 1
