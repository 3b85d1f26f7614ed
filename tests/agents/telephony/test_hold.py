"""The hold of a caller: music, no turns, no barge-in, no wake-up; in a room's harness and on a media stream."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import anyio.to_thread
import numpy as np
import pytest

from kit.telephone import Twilio, Wire
from vivavoce.agents import Agent, AgentSession, BackgroundAudioConfig, SessionOptions
from vivavoce.agents.events import HoldChanged, KeysEntered, UserStateChanged, UserTranscript, WakeUpFired
from vivavoce.agents.telephony import TelephonyOptions
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, ScriptedVAD, SessionHarness, run_virtual
from vivavoce.agents.transports.local import VirtualSink
from vivavoce.agents.transports.media_stream.transport import MediaStreamTransport, wait_for_start
from vivavoce.agents.transports.media_stream.twilio.wire import TwilioWire
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError, SessionClosedError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.wav import write_wav

RATE = 24000
TEN_WORDS = "one two three four five six seven eight nine ten."
Scenario = Callable[[SessionHarness], Awaitable[None]]


def flat(path: Path, level: int) -> Path:
    """A file of one value, by which it is told from others."""
    write_wav(path, AudioFrame(np.full(RATE, level, np.int16).tobytes(), RATE))
    return path


def a_call(
    scenario: Scenario,
    *answers: str,
    background: tuple[BackgroundAudioConfig, ...] = (),
    wake_up: float | None = None,
    until: float = 16.0,
) -> SessionHarness:
    harness = SessionHarness(
        Agent("Help."),
        ScriptedLLM(*answers),
        options=SessionOptions(telephony=TelephonyOptions()),
        wake_up=wake_up,
    )

    async def with_background(harness: SessionHarness) -> None:
        for one in background:
            harness.session.play_background_audio(one)
        await scenario(harness)

    return harness.run(with_background, until=until)


def levels(harness: SessionHarness, start: float, end: float) -> set[int]:
    """The values that the caller has heard between two times."""
    sink = harness.room.sink
    assert isinstance(sink, VirtualSink)
    whole = np.zeros(round(20.0 * RATE), np.int16)
    for played in sink.frames():
        at = round(played.at * RATE)
        samples = played.frame.to_numpy()[: len(whole) - at]
        whole[at : at + len(samples)] = samples
    return set(whole[round(start * RATE) : round(end * RATE)].tolist())


def states(harness: SessionHarness) -> list[tuple[float, str]]:
    return [(round(one.at, 1), one.state) for one in harness.recording.of(HoldChanged)]


def test_on_hold_only_the_hold_music_plays_and_the_ambience_comes_back(tmp_path: Path) -> None:
    async def scenario(harness: SessionHarness) -> None:
        telephony = harness.session.telephony
        await harness.until(5.0)
        telephony.hold()
        telephony.hold()
        assert telephony.hold_state == "on_hold"
        await harness.until(10.0)
        telephony.resume()
        await harness.until(11.0)
        telephony.resume()
        await harness.until(15.0)

    office = BackgroundAudioConfig(flat(tmp_path / "office.wav", 1000), volume=1.0, fade=0.0)
    music = BackgroundAudioConfig(flat(tmp_path / "music.wav", 9000), volume=1.0, fade=0.0, hold_only=True)
    harness = a_call(scenario, background=(office, music))
    assert states(harness) == [(5.0, "on_hold"), (10.0, "talking")]
    assert levels(harness, 0.5, 4.9) == {1000}
    assert levels(harness, 5.2, 9.9) == {9000}
    assert levels(harness, 10.3, 14.9) == {1000}


def test_other_hold_music_replaces_only_the_hold_music(tmp_path: Path) -> None:
    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.0)
        other = BackgroundAudioConfig(flat(tmp_path / "b.wav", 7000), volume=1.0, fade=0.0, hold_only=True)
        harness.session.play_background_audio(other)
        await harness.until(4.0)
        harness.session.telephony.hold()
        await harness.until(8.0)

    office = BackgroundAudioConfig(flat(tmp_path / "office.wav", 1000), volume=1.0, fade=0.0)
    music = BackgroundAudioConfig(flat(tmp_path / "a.wav", 9000), volume=1.0, fade=0.0, hold_only=True)
    harness = a_call(scenario, background=(office, music))
    assert levels(harness, 0.5, 3.9) == {1000}
    assert levels(harness, 4.2, 7.9) == {7000}


def test_a_caller_on_hold_has_no_turn_stops_no_speech_and_makes_no_entry() -> None:
    async def scenario(harness: SessionHarness) -> None:
        harness.session.telephony.hold()
        speech = harness.session.say(TEN_WORDS)
        harness.caller.says("hello are you there", 1.0, 1.6)
        harness.caller.types("hello", 3.0)
        harness.caller.presses("12#", 4.0)
        await speech
        assert speech.outcome == "completed"
        await harness.until(8.0)
        harness.session.telephony.resume()
        harness.caller.says("hello", 9.0, 9.6)
        await harness.until(14.0)

    harness = a_call(scenario, "Hello again.")
    harness.expect_history(("assistant", TEN_WORDS), ("user", "hello"), ("assistant", "Hello again."))
    assert [one.text for one in harness.recording.of(UserTranscript) if one.is_final] == ["hello"]
    assert harness.recording.of(KeysEntered) == []


def test_words_from_before_the_hold_are_no_turn() -> None:
    async def scenario(harness: SessionHarness) -> None:
        harness.caller.says("well then", 1.0, 2.0, final_at=2.6)
        await harness.until(1.6)
        harness.session.telephony.hold()
        await harness.until(6.0)
        harness.session.telephony.resume()
        await harness.until(10.0)

    assert a_call(scenario, "What?").messages == []


def test_a_speech_that_runs_goes_on_under_the_hold_with_quiet_music(tmp_path: Path) -> None:
    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say("One moment please.")
        await harness.until(0.3)
        harness.session.telephony.hold()
        await speech
        assert speech.outcome == "completed"
        await harness.until(5.0)

    music = BackgroundAudioConfig(flat(tmp_path / "music.wav", 8000), volume=1.0, fade=0.0, hold_only=True)
    harness = a_call(scenario, background=(music,))
    assert levels(harness, 2.0, 4.9) == {8000}


def test_a_caller_on_hold_is_not_woken_up_and_not_away() -> None:
    async def scenario(harness: SessionHarness) -> None:
        harness.session.on_wake_up = lambda: None
        await harness.until(2.0)
        harness.session.telephony.hold()
        await harness.until(30.0)
        harness.session.telephony.resume()
        await harness.until(41.0)

    harness = a_call(scenario, wake_up=10.0, until=60.0)
    assert [round(one.at, 1) for one in harness.recording.of(WakeUpFired)] == [40.0]
    assert [(round(one.at, 1), one.state) for one in harness.recording.of(UserStateChanged)] == [(45.0, "away")]


def test_keys_can_be_waited_for_on_hold() -> None:
    async def scenario(harness: SessionHarness) -> None:
        harness.session.telephony.hold()
        harness.caller.presses("1#", 2.0)
        entered = await harness.session.telephony.collect_keys(first_within=5.0)
        assert entered.keys == "1"

    a_call(scenario)


def test_the_close_ends_the_hold() -> None:
    async def scenario(harness: SessionHarness) -> None:
        telephony = harness.session.telephony
        telephony.hold()
        await harness.until(3.0)
        await harness.session.close()
        assert telephony.hold_state == "talking"
        with pytest.raises(SessionClosedError):
            telephony.hold()

    assert [state for _, state in states(a_call(scenario))] == ["on_hold", "talking"]


def test_hold_and_resume_work_from_a_thread() -> None:
    async def scenario(harness: SessionHarness) -> None:
        telephony = harness.session.telephony
        await anyio.to_thread.run_sync(telephony.hold)
        assert telephony.hold_state == "on_hold"
        await anyio.to_thread.run_sync(telephony.resume)

    assert [state for _, state in states(a_call(scenario))] == ["on_hold", "talking"]


def test_a_file_for_thinking_and_hold_at_once_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="thinking_only or hold_only"):
        BackgroundAudioConfig(tmp_path / "x.wav", thinking_only=True, hold_only=True)


def test_a_telephone_on_a_media_stream_hears_the_music_and_then_the_agent_hears_it_again(tmp_path: Path) -> None:
    music = BackgroundAudioConfig(flat(tmp_path / "music.wav", 8000), volume=1.0, hold_only=True)

    async def main() -> tuple[Twilio, AgentSession[None]]:
        vendor = Twilio(Wire(0.04))
        vendor.begin()
        wire, clock = TwilioWire(), LoopClock()
        transport = MediaStreamTransport(vendor.wire, wire, await wait_for_start(vendor.wire, wire), clock)
        pipeline = CascadingPipeline(
            vad=ScriptedVAD(), stt=ScriptedSTT(["hello"]), llm=ScriptedLLM("Yes?"), tts=ScriptedTTS()
        )
        options = SessionOptions(clock=clock, telephony=TelephonyOptions())
        session: AgentSession[None] = AgentSession(Agent("Help."), pipeline, background_audio=[music], options=options)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(vendor.run)
            await session.start(transport)
            session.telephony.hold()
            tasks.start_soon(vendor.talk, [(1.0, 2.0), (6.0, 7.0)])
            await anyio.sleep(4.0)
            session.telephony.resume()
            assert 3.0 < len(vendor.played) / 2 / 8000 < 4.2
            assert np.median(np.frombuffer(bytes(vendor.played), np.int16)) == pytest.approx(8000, rel=0.05)
            await anyio.sleep(6.0)
            await session.close()
            await anyio.sleep(1.0)
            tasks.cancel_scope.cancel()
        return vendor, session

    vendor, session = run_virtual(main())
    assert [(one.role, one.content) for one in session.history.messages()] == [("user", "hello"), ("assistant", "Yes?")]
    assert vendor.is_over
